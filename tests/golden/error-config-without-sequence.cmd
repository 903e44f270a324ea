cp "$GOLDEN/config.json" .
memplan --model config.json
