memplan --model "$GOLDEN/small.json" --dump=tape
