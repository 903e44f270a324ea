cp "$GOLDEN/small.json" .
memplan --model small.json --set parallelism.strategy=fsdp2 --gpus 6 --set parallelism.replicate=2 --ranks --no-suggestions | sed -n "/^Memory/p;/^Each rank/,/^$/p"
