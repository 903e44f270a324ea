memplan --model eagle3 --seq 3000
