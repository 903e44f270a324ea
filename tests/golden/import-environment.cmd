# Variables of a launch that change memory, and torchtitan's launch line with its TOML.
cat >job.sh <<'END'
#!/bin/bash
export CUBLAS_WORKSPACE_CONFIG=:4096:8 NCCL_BUFFSIZE=8388608
CUDA_MODULE_LOADING=EAGER PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 torchrun --nproc_per_node 2 \
    sft.py --model_name_or_path meta-llama/Llama-3.2-1B --bf16 true
END
memplan import job.sh | sed '/"model": {/,/^  },/d'
sed -i 's/max_split_size_mb:512/$CONF/' job.sh
memplan import job.sh | sed -n '/"imported"/,$p'
sed -i 's/BUFFSIZE=8388608/BUFFSIZE=large/' job.sh
memplan import job.sh
echo "== the environment of a command"
PYTORCH_ALLOC_CONF=max_spilt_size_mb:512 PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 \
    memplan exec --gpu "H100 80GB HBM3" -- torchrun --nproc_per_node 2 sft.py --bf16 true \
    --model_name_or_path meta-llama/Llama-3.2-1B
echo "== torchtitan's launch line"
cp "$GOLDEN/import/torchtitan-1.toml" train.toml
cat >run_train.sh <<'END'
#!/usr/bin/bash
NGPU=${NGPU:-"8"}
CONFIG_FILE=${CONFIG_FILE:-"./train.toml"}
PYTORCH_ALLOC_CONF="expandable_segments:True" torchrun --nproc_per_node=${NGPU} --role rank --tee 3 \
    -m torchtitan.train --job.config_file ${CONFIG_FILE} --training.local_batch_size 2 "$@"
END
memplan import run_train.sh | sed '/"model": {/,/^  },/d'
