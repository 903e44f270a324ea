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
row 'memplan --model eagle3' "$memplan" --model eagle3
row 'memplan --model eagle3 --seq 24576' "$memplan" --model eagle3 --seq 24576
exit "$failed"
