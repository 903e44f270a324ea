#!/bin/bash
MODEL="meta-llama/Llama-3.1-8B-Instruct"
DRAFT_VOCAB_SIZE=32000
SEQ_LENGTH=8192
NUM_GPUS=2
CUDA_VISIBLE_DEVICES="0,1" torchrun \
    --standalone --nproc_per_node "$NUM_GPUS" \
    scripts/train.py \
    --verifier-name-or-path "$MODEL" \
    --draft-vocab-size "$DRAFT_VOCAB_SIZE" \
    --epochs 5 --lr 1e-4 \
    --total-seq-len "$SEQ_LENGTH" \
    --on-missing raise
