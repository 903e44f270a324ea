cp "$GOLDEN/config.json" .
memplan exec --model config.json --seq 1024 -- echo ran
