#!/bin/bash
set -x
MODEL_PATH=Qwen/Qwen3-4B-Instruct-2507
llamafactory-cli train \
    --model_name_or_path ${MODEL_PATH} \
    --trust_remote_code \
    --stage sft \
    --do_train \
    --finetuning_type lora \
    --lora_rank 8 \
    --lora_target all \
    --template qwen3_nothink \
    --cutoff_len 2048 \
    --preprocessing_num_workers 16 \
    --dataloader_num_workers 4 \
    --plot_loss \
    --save_only_model false \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 8 \
    --learning_rate 1e-4 \
    --bf16 \
    --ddp_timeout 180000000
