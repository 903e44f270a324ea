memplan --model qwen2.5-7b --seq 2048 --gpu "RTX 4090" --set training.lora.r=64 \
    --set training.lora.target_modules=all-linear --set training.quantization.name=bitsandbytes \
    --set training.quantization.type=nf4 --set training.quantization.double=true \
    --set training.prepare_for_kbit=true --set training.activation_checkpointing=full \
    --set training.optimizer.name=paged_adamw_8bit
memplan --model llama-3-8b --set training.lora.r=8 --set 'training.lora.target_modules=["nothing"]'
