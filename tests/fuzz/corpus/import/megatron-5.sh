#!/bin/bash
python -m torch.distributed.run --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \
    --transformer-impl transformer_engine --disable-bias-linear \
    --untie-embeddings-and-output-weights --normalization RMSNorm --num-layers 12 \
    --hidden-size 512 --ffn-hidden-size 2048 --num-attention-heads 64 --group-query-attention \
    --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 \
    --position-embedding-type rope --quick-geglu --softmax-type learnable \
    --window-attn-skip-freq 2 --window-size 127,0 --enable-gpt-oss \
    --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 2048 \
    --micro-batch-size 1 --global-batch-size 128 --bf16 --recompute-activations \
    --pipeline-model-parallel-size 8 --use-distributed-optimizer
