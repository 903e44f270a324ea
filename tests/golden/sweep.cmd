# A field as a table; what is no run has its reason; two fields make a grid; lists hold anything.
memplan sweep --model llama-3-8b --seq 4096 --set parallelism.strategy=fsdp2 'parallelism.world_size=1..1024*2'
memplan sweep --model llama-3-8b --seq 4096 --gpus 6 --set parallelism.strategy=fsdp2 --peaks-only replicate=1..4
memplan sweep --model llama-3.2-1b sequence_length=4096,8192 'optimizer.name=adamw,sgd'
memplan sweep --model llama-3-8b total_bytes=100GiB..120GiB:10GiB --tsv
memplan sweep --model llama-3-8b --seq 1024 --set model.x=1 num_hidden_layers=16,32 --json
memplan sweep --model llama-3-8b --seq 1024 num_hidden_layers=16,32 --json
