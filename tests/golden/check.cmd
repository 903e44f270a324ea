cp "$GOLDEN/small.json" .
sed 's/"total_bytes": "4 GiB"/"total_bytes": "1 GiB"/' small.json >tight.json
memplan check small.json "$MEMPLAN_MODELS/llama-3.2-1b.json" 2>&1 | sed "s|$MEMPLAN_MODELS/||"
memplan check small.json missing.json tight.json
