#!/bin/bash
CUDA_VISIBLE_DEVICES=4,5 torchrun --standalone --nproc_per_node 2 scripts/train.py \
    --verifier-name-or-path Qwen/Qwen3-8B \
    --epochs 5 --lr 6e-4 --total-seq-len 4096 \
    --speculator-type peagle --num-layers 4 --num-depths 4 \
    --down-sample-ratio 0.7 --down-sample-ratio-min 0.2 \
    --no-norm-before-residual --scheduler-type cosine
