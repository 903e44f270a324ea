memplan exec --model eagle3 --seq 24576 -- echo launched
