# What a configuration names is not looked at: for the plans of other people.
mkdir model
printf '{"model_type": "llama", "secret' >model/config.json
cat >job.sh <<'END'
#!/bin/sh
torchrun --nproc-per-node=2 train.py --model_name_or_path ./model --per_device_train_batch_size 1 \
    --max_seq_length 2048 --bf16 true
END
memplan check --no-files --gpu "H100 PCIe" - <job.sh
memplan check --gpu "H100 PCIe" job.sh
