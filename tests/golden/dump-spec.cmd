cp "$GOLDEN/small.json" .
memplan --model small.json --seq 4096 --dump=spec
