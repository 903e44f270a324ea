cp "$GOLDEN/small.json" .
memplan exec --model small.json -- ./small.json
