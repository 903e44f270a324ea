memplan --model llama-3.2-1b --gpus 8 --set parallelism.strategy=fsdp2 --no-suggestions
