memplan --model
memplan --json=yes
memplan --model "$GOLDEN/small.json" --risk 2
memplan --model "$GOLDEN/small.json" --risk nan
memplan --model "$GOLDEN/small.json" --risk 0.5
memplan --model "$GOLDEN/small.json" --seq many
