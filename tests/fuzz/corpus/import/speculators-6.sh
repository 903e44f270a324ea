#!/bin/bash
torchrun --standalone --nproc_per_node=4 scripts/train.py \
  --verifier-name-or-path meta-llama/Llama-3.1-8B-Instruct \
  --draft-vocab-size 32000 --epochs 10 --fsdp-shard \
  --optimizer adamw --full-attention-indices 0 --no-norm-before-fc --no-norm-output
