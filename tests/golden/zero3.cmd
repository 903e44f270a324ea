# DeepSpeed ZeRO-3: a plan, and what is refused by name.
cp "$GOLDEN/small.json" .
zero3='"strategy": "zero3", "world_size": 4, "reduce_bucket_size": 1000000'
memplan --model small.json --no-suggestions --set "parallelism={$zero3}"
nvme='"offload_param": "nvme", "offload_param_max_in_cpu": 0'
memplan --model small.json --set "parallelism={$zero3, $nvme, \"offload_param_buffer_size\": 1000}"
memplan --model small.json --set "parallelism={$zero3, $nvme}" --set checkpoint.resume=sharded
memplan --model small.json --set "parallelism={$zero3}" --set checkpoint.resume=cpu
memplan --model small.json --set "parallelism={$zero3, \"param_dtype\": \"bfloat16\"}"
memplan --model small.json --set "parallelism={$zero3}" --set training.autocast=bfloat16
memplan --model small.json --set "parallelism={$zero3}" --set model.model_type=bert
memplan --model small.json --set "parallelism={$zero3}" --set "training.lora={\"r\": 8, \"use_dora\": true, \"target_modules\": [\"q_proj\"]}"
memplan --model small.json --set "parallelism={\"strategy\": \"zero2\", \"world_size\": 4, \"offload_optimizer\": \"nvme\"}"
