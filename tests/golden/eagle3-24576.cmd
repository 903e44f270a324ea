memplan --model eagle3 --seq 24576
