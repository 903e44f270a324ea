for seq in 4096 8192 16384 24576 32768; do
    memplan check --seq $seq eagle3
    memplan check --seq $seq --no-readings eagle3
done
