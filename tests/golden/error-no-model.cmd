memplan --seq 4096
