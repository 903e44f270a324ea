#!/bin/sh
python trl/scripts/dpo.py \
    --model_name_or_path Qwen/Qwen2.5-0.5B \
    --learning_rate 5.0e-6 \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
    --use_peft --lora_r 32 --lora_alpha 16 --output_dir out
