#!/bin/bash
USE_UV=${USE_UV:-1}
NSYS_PROFILE_PATH=profiles
VENV_PREFIX="uv run"
PROFILE_CMD=(
    nsys profile
    --sample=none --cpuctxsw=none
    --trace=cuda,nvtx,cublas,cudnn
    --capture-range=cudaProfilerApi --capture-range-end=stop
    -f true -x true -o "$NSYS_PROFILE_PATH"
)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 128 --bf16 --lr 0.00015 --clip-grad 1.0)
TRAINING_ARGS=(
    "${TRAINING_ARGS[@]}"
    --use-megatron-fsdp
    --data-parallel-sharding-strategy optim_grads_params
    --no-gradient-accumulation-fusion
    --init-model-with-meta-device
    --ckpt-format fsdp_dtensor
    --use-nccl-ub
    --fsdp-double-buffer
)
$VENV_PREFIX "${PROFILE_CMD[@]}" python -m torch.distributed.run --nproc_per_node 8 --nnodes 1 \
    pretrain_gpt.py \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 \
    --max-position-embeddings 8192 --position-embedding-type rope --swiglu \
    --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear \
    --tokenizer-type NullTokenizer --vocab-size 128256 \
    ${TRAINING_ARGS[@]}
