memplan --model eagle3 --seq 16384 --no-readings
