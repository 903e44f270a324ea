# The plan's own readings: residuals, corrections, what they cannot tell, what to run next. Then what
# the file does at lengths between the readings and beyond them.
memplan calibrate --model eagle3 --seq 24576 -o eagle3.calibration
for seq in 4096 8192 16384 24576 32768; do
    memplan check --calibration eagle3.calibration --seq $seq eagle3
    echo "exit: $?"
done
memplan --model eagle3 --seq 24576 --calibration eagle3.calibration | sed -n '4,/^Where/p'
memplan exec --model eagle3 --seq 32768 --calibration eagle3.calibration -- echo launched
