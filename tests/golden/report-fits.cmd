cp "$GOLDEN/small.json" .
memplan --model small.json
