cp "$GOLDEN/config.json" .
memplan --model config.json --seq 2048
