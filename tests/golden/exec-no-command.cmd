memplan exec --model "$GOLDEN/small.json" --
