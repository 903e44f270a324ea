sed 's/"llama"/"lama"/' "$GOLDEN/config.json" >config.json
memplan --model config.json
