cp "$GOLDEN/small.json" .
memplan --model small.json --seq 99999999999999
memplan --model small.json --seq 99999999999999999999999999
memplan --model small.json --seq 1073741824 --batch 1048576
