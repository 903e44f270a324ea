memplan --model - --no-suggestions <"$GOLDEN/small.json" | head -n 4
