memplan --jsonl --model "$GOLDEN/small.json"
