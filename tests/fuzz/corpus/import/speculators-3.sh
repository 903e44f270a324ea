#!/bin/bash
set -euo pipefail
MODEL="Qwen/Qwen3-8B"
SPECULATOR_TYPE="dflash"
TARGET_LAYER_IDS="2 18 33"
TRAIN_GPUS="2,3"
CUDA_VISIBLE_DEVICES="0,1" python scripts/launch_vllm.py "$MODEL" \
    --target-layer-ids $TARGET_LAYER_IDS -- --data-parallel-size 2 &
VLLM_PID=$!
cleanup() {
    kill "$VLLM_PID" 2>/dev/null || true
}
trap cleanup EXIT
CUDA_VISIBLE_DEVICES="$TRAIN_GPUS" torchrun \
    --standalone --nproc_per_node 2 \
    scripts/train.py \
    --verifier-name-or-path "$MODEL" \
    --draft-vocab-size 32000 --epochs 5 --lr 3e-4 --total-seq-len 8192 \
    --speculator-type "$SPECULATOR_TYPE" \
    --block-size 16 --max-anchors 3072 --num-layers 5 \
    --per-position-loss-weight dpace --loss-fn ce \
    --target-layer-ids $TARGET_LAYER_IDS \
    --on-missing generate --on-generate delete
