grep -v '"hidden_size"' "$GOLDEN/config.json" >config.json
memplan --model config.json --seq 1024
