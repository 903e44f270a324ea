#!/bin/bash
MODEL="Qwen/Qwen3.5-9B"
CUDA_VISIBLE_DEVICES="1" python \
    scripts/train.py \
    --verifier-name-or-path "$MODEL" \
    --speculator-type mtp --num-speculative-steps 3 --target-layer-ids 32 \
    --step-weight-beta 0.6 --epochs 3 --lr 1e-4 --total-seq-len 8192 \
    --on-missing generate --on-generate delete
