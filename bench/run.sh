#!/bin/sh
# SPDX-License-Identifier: MIT
# Whole processes: memplan on presets, beside a program that does nothing.
# usage: run.sh RUN MEMPLAN MODELS
set -u
run=$1 memplan=$2 MEMPLAN_MODELS=$3
export MEMPLAN_MODELS
failed=0

row() {
    "$run" "$@" || failed=1
}

printf '%-40s %10s %10s %8s %10s\n' process 'median ms' 'least ms' repeats 'peak MiB'
row true true
row 'memplan --version' "$memplan" --version
row 'memplan check llama-3-8b' "$memplan" check llama-3-8b
row 'memplan --model llama-3-8b' "$memplan" --model llama-3-8b
row 'memplan check eagle3' "$memplan" check eagle3
row 'memplan check eagle3, one alternative' "$memplan" check --set model.head_dim=112 \
    --set software.pytorch=2.14.1 --set training.python_gc=auto eagle3
# What a command costs more behind exec: less the first row, true alone.
job=$MEMPLAN_MODELS/../tests/golden/import/job-6.sh
run_exec() {
    name=$1
    shift
    row "memplan exec $name" "$memplan" exec --no-ledger "$@" -- true
}
run_exec 'llama-3-8b, 1024 tokens' --model llama-3-8b --seq 1024
run_exec 'llama-3-8b, FSDP2 of 8' --model llama-3-8b --seq 4096 --gpus 8 --set parallelism.strategy=fsdp2
run_exec eagle3 --model eagle3
run_exec 'job.sh, 1 micro batch' --model "$job" --gpu 'H100 80GB HBM3' \
    --set training.gradient_accumulation_steps=1
run_exec 'job.sh, 8 micro batches' --model "$job" --gpu 'H100 80GB HBM3'
row 'memplan --model eagle3' "$memplan" --model eagle3
row 'memplan --model eagle3 --seq 24576' "$memplan" --model eagle3 --seq 24576
# Two gigabytes without a message, through a pipe, and 20 MB of words that messages hold.
row "memplan read-log, 2 GiB" sh -c "yes 'step 100/1000: loss 1.2345, lr 0.0001, 1.23 s/it, 70.12 GiB' |
    head -c 2147483648 | '$memplan' read-log -"
row "memplan read-log, 20 MB, hostile" sh -c "yes 'Tried to allocate 1.00 GiB out of memory CUDA' |
    head -c 20000000 | '$memplan' read-log -"
exit "$failed"
