# Broken, truncated and hostile files are refused with file, line and key.
refuse() {
    memplan import "$1" >out
    echo "$1: exit $?"
    cat out
}
printf 'a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\nbase_model: m\n' >laughs.yaml
printf 'base: &base\n  bf16: true\nbase_model: m\nrest:\n  <<: 1\n' >merge.yaml
{ printf 'base_model: '; i=0; while [ $i -lt 200 ]; do printf '['; i=$((i + 1)); done; } >deep.yaml
printf 'base_model: m\nmicro_batch_size: 99999999999999999999999\n' >huge.yaml
printf 'base_model: m\nmicro_batch_size: 1e300\n' >huge-real.yaml
printf 'base_model: m\nmicro_batch_size: [1, 2]\n' >list.yaml
printf 'base_model: m\nsequence_len: 512\nsequence_len: 1024\n' >twice.yaml
printf 'base_model: m\nbf16: {a: 1\n' >cut.yaml
printf 'base_model: m\n---\nbase_model: n\n' >second.yaml
printf 'base_model: "\\xff"\nmicro\377: 1\n' >not-utf8.yaml
printf 'base_model: m\n? [a, b]\n: c\n' >odd-key.yaml
printf -- '- base_model\n- m\n' >sequence.yaml
printf 'base_model: m\nadapter: quantum\n' >adapter.yaml
printf '{"zero_optimization": {"stage": 2,\n "reduce_bucket_size": "large"}}\n' >words.json
printf '{"zero_optimization": {"stage": 2},\n "zero_optimization": {"stage": 3}}\n' >twice.json
printf '{"zero_optimization": {"stage": 7}}\n' >stage.json
printf '{"zero_optimization": {"stage": 0}}\n' >stage-0.json
printf '{"zero_optimization": {"stage": 2},\n "train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}\n' >batch.json
printf '{"zero_optimization": {"stage": 2' >cut.json
printf '{"peft_type": "LORA",\n "r": -4}\n' >rank.json
printf '{"peft_type": "LORA", "r": 8,\n "target_modules": ".*(q|v)_proj"}\n' >regex.json
printf '{"peft_type": "PREFIX_TUNING"}\n' >prefix.json
printf '{"per_device_train_batch_size": 4,\n "optim": "lomo"}\n' >optim.json
printf '{"hello": 1}\n' >unknown.json
printf '#!/bin/sh\necho hello\n' >no-launch.sh
printf '#!/bin/sh\ntorchrun --nproc_per_node=-3 t.py --bf16\n' >count.sh
{ echo '#!/bin/sh'; echo 'A=xxxxxxxxxxxxxxxx'; for v in B C D E F; do echo "$v=\$A\$A\$A\$A\$A\$A\$A\$A"; echo "A=\$$v"; done; } >laughs.sh
: >empty.yaml
s='python scripts/train.py --verifier-name-or-path Qwen/Qwen3-8B'
printf '#!/bin/sh\n%s \\\n  --total-seq-len 4k\n' "$s" >length.sh
printf '#!/bin/sh\n%s \\\n  --use-off-policy-tokens --fsdp-shard\n' "$s" >releases.sh
printf '#!/bin/sh\n%s \\\n  --embed-requires-grad\n' "$s" >embed.sh
printf '#!/bin/sh\n%s --draft-config other\n' "$s" >drafter.sh
printf '#!/bin/sh\ntrl sft --model_name_or_path x --accelerate_config zero2 \\\n --lora_r 99999999\n' >trl.sh
printf '#!/bin/sh\ntrl grpo --model_name_or_path x --use_vllm\n' >vllm.sh
m='torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64'
printf '#!/bin/sh\n%s --num-attention-heads 4 \\\n --tensor-model-parallel-size 0\n' "$m" >tensor.sh
printf '#!/bin/sh\n%s --num-attention-heads 4 \\\n --global-batch-size 9 --micro-batch-size 1\n' "$m" >global.sh
printf '#!/bin/sh\n%s --num-attention-heads 9999999999999999999\n' "$m" >heads.sh
printf '#!/bin/sh\nA=(x x x x x x x x)\n' >arrays.sh
for v in B C D E F G; do echo "$v=(\${A[@]} \${A[@]} \${A[@]} \${A[@]} \${A[@]})"; echo "A=(\${$v[@]})"; done >>arrays.sh
printf '#!/bin/sh\nbash loop.sh\n' >loop.sh
printf '#!/bin/sh\nbash -c "bash -c \\"torchrun --nproc_per_node=0 t.py --bf16\\""\n' >inside.sh
mkfifo pipe
printf '#!/bin/sh\ntorchrun --nproc_per_node 2 t.py --bf16 \\\n --deepspeed pipe\n' >fifo.sh
printf '#!/bin/sh\ntorchrun --nproc_per_node 2 t.py --bf16 --deepspeed /dev/zero\n' >device.sh
printf '#!/bin/sh\ntorchrun --nproc_per_node 2 t.py --bf16 \\\n --deepspeed cut.json\n' >named.sh
for file in laughs.yaml merge.yaml deep.yaml huge.yaml huge-real.yaml list.yaml twice.yaml cut.yaml \
    second.yaml not-utf8.yaml odd-key.yaml sequence.yaml adapter.yaml words.json twice.json \
    stage.json stage-0.json batch.json cut.json rank.json regex.json prefix.json optim.json \
    unknown.json no-launch.sh count.sh laughs.sh empty.yaml length.sh releases.sh \
    embed.sh drafter.sh trl.sh vllm.sh tensor.sh global.sh heads.sh arrays.sh loop.sh inside.sh \
    fifo.sh device.sh named.sh; do
    refuse $file
done
# What comes through a pipe names nothing that is opened.
printf '{"zero_optimization": {"stage": 2}}' >zero.json
printf '#!/bin/sh\ntorchrun --nproc_per_node 2 t.py --bf16 --deepspeed zero.json\n' >job.sh
refuse job.sh
refuse - <job.sh
