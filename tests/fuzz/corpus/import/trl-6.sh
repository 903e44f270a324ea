#!/bin/sh
python examples/scripts/sft.py --output_dir out --model_name_or_path meta-llama/Llama-2-7b-hf \
    --load_in_4bit --use_peft --per_device_train_batch_size 4 --gradient_accumulation_steps 2
