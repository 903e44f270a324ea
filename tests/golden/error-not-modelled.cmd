sed 's/"llama"/"mamba"/' "$GOLDEN/config.json" >config.json
memplan --model config.json --seq 1024
