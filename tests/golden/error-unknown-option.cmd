memplan --model "$GOLDEN/small.json" --sequence 4096
memplan --model "$GOLDEN/small.json" --rsik 0.1
memplan --model "$GOLDEN/small.json" --memory 80
memplan --model "$GOLDEN/small.json" -v
