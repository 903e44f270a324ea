sed 's/"llama"/"mystery"/' "$GOLDEN/config.json" >config.json
memplan --model config.json --seq 1024 --assume llama --no-suggestions | sed -n '/^Notes/,/^  N001/p'
memplan --model "$GOLDEN/config.json" --seq 1024 --assume qwen2 --no-suggestions | grep N014
memplan --model config.json --seq 1024 --assume lama
