memplan check --seq 256
