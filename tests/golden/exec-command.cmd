# Without --model the command itself is the plan; options change it.
mkdir bin folder jobs llama
cp "$GOLDEN/config.json" llama
printf '#!/bin/sh\necho "ran: ${0##*/} $*"\nexit 41\n' >bin/torchrun
cp bin/torchrun bin/accelerate
cp bin/torchrun bin/deepspeed
cp bin/torchrun bin/srun
cp bin/torchrun bin/uv
cp bin/torchrun bin/numactl
cp bin/torchrun bin/trl
chmod +x bin/*
PATH="$PWD/bin:$PATH"
t='train.py --model_name_or_path llama --model_max_length 1024 --bf16 --output_dir out'
card='H100 80GB HBM3'
run() { memplan exec "$@" 2>err; echo "-> $?"; sed 's/^/(stderr) /' err; }
run --gpu "$card" -- torchrun --nproc-per-node 8 $t --per_device_train_batch_size 4
run --gpu "$card" -- torchrun --nproc-per-node 8 $t --per_device_train_batch_size 999
run --gpu "$card" --force -- torchrun --nproc-per-node 8 $t --per_device_train_batch_size 999
run --gpu "$card" --set training.micro_batch_size=1 -- torchrun $t --per_device_train_batch_size 999
run -- torchrun --nproc-per-node 8 $t
run --gpu "$card" -- srun -N 2 --ntasks-per-node 4 python $t
run --gpu "$card" -- env A=1 numactl -C 0-7 uv run torchrun --nproc_per_node=2 $t
run --gpu "$card" -- numactl -C 0-7 uv run torchrun --nproc_per_node=2 $t
run --gpu "$card" -- trl sft --model_name_or_path llama --num_processes 2
# Files that are named.
printf '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}' >folder/ds.json
printf 'compute_environment: LOCAL_MACHINE\nnum_processes: 4\ndistributed_type: MULTI_GPU\n' >folder/acc.yaml
run --gpu "$card" -- deepspeed --num_gpus 2 $t --deepspeed folder/ds.json
run --gpu "$card" -- deepspeed --num_gpus 2 $t --deepspeed folder/none.json
run --gpu "$card" -- accelerate launch --config_file folder/acc.yaml $t
# Scripts.
printf '#!/bin/bash\n#SBATCH --nodes=2\nN=${2:-4}\ntorchrun --nnodes 2 --nproc_per_node "$N" %s --per_device_train_batch_size "$1"\n' "$t" >jobs/job.sh
run --gpu "$card" -- sh jobs/job.sh 999
run --gpu "$card" -- bash -x jobs/job.sh 2 8
run --gpu "$card" -- sh -c "torchrun --nproc_per_node 2 $t --per_device_train_batch_size 999"
run --gpu "$card" -- sbatch --nodes=4 jobs/job.sh 999
run --gpu "$card" --model jobs/job.sh --set training.micro_batch_size=2 -- true
memplan check --gpu "$card" --set training.micro_batch_size=2 jobs/job.sh
memplan max --gpu "$card" --model jobs/job.sh --no-readings micro_batch_size | head -3
# A plan that cannot be made, and argv as a stranger may give it.
run --gpu "$card" -- python train.py
run --gpu "$card" -- torchrun --nproc-per-node 0 $t
run --gpu "$card" -- torchrun --nproc-per-node 8 $t --resume_from_checkpoint ''
run --gpu "$card" -- '' torchrun $t
run --gpu "$card" -- torchrun $t --run_name "$(printf '\377\376')" --seed '$(id)'
run --gpu "$card" -- torchrun $t --lora_r "$(printf '\377')"
run --gpu "$card" -- torchrun $t --report_to $(seq 1100)
run --gpu "$card" -- torchrun $t "$(printf '%05000d' 0)" | wc -c
