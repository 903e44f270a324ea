memplan exec --model missing.json -- echo ran
