cp "$GOLDEN/small.json" .
memplan estimate --model small.json --seq 8192 --batch 4
