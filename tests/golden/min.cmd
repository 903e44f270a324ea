# Ranks are padded: more of them do not always take less.
memplan min --model llama-3-8b --seq 4096 --set parallelism.strategy=fsdp2 world_size
memplan min --model llama-3-8b --multiple-of 1GiB total_bytes
