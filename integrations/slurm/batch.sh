#!/bin/sh
# SPDX-License-Identifier: MIT
#SBATCH --job-name=train
#SBATCH --gpus-per-node=h100:2
#SBATCH --output=train-%j.out
# A batch script that asks memplan on the node, before the run: what may have changed since the job
# was submitted, and what only the node knows, the card itself and who else uses it. Where no other
# hook is installed this is the only check: the job fails at once, with exit code 3.
set -u
plan=${MEMPLAN_PLAN:-plan.json}

# The card's name as the table has it, by the cluster's name for it.
card_named() {
    case $1 in
    h100) echo "H100 80GB HBM3" ;;
    a100) echo "A100-SXM4-80GB" ;;
    *) echo "$1" ;;
    esac
}

# Cards of all nodes: --gpus gives them ("h100:8"), else each node has as many as this one.
count_cards() {
    if [ -n "${SLURM_GPUS:-}" ]; then
        echo "${SLURM_GPUS##*:}"
    elif [ -n "${SLURM_GPUS_ON_NODE:-}" ]; then
        echo $((SLURM_GPUS_ON_NODE * ${SLURM_JOB_NUM_NODES:-1}))
    fi
}

# What the job asked for by name; Slurm does not hand on what --gres said.
name_card() {
    for asked in "${SLURM_GPUS_PER_NODE:-}" "${SLURM_GPUS:-}" "${SLURM_GPUS_PER_TASK:-}"; do
        case $asked in
        *,*) ;;
        *:*) card_named "${asked%:*}" && return ;;
        esac
    done
}

# check OPTION...: no more than two seconds, whatever happens.
check() {
    timeout -s KILL 2 "${MEMPLAN:-memplan}" check "$@" -- "$plan"
}

count=$(count_cards)
set -- ${count:+"--gpus=$count"}
if command -v nvidia-smi >/dev/null || [ -e /dev/kfd ]; then
    check --gpu=auto "$@" # the card of this node, and what is free of it
else
    card=$(name_card)
    check ${card:+"--gpu=$card"} "$@"
fi
case $? in
0) ;;
3) exit 3 ;;
4) echo "memplan: inside of the margin; going on" >&2 ;;
*) echo "memplan: $plan was not checked; going on" >&2 ;;
esac

# The run itself.
# shellcheck disable=SC2086 # a command and its arguments
srun ${TRAIN:-torchrun --nproc-per-node="$SLURM_GPUS_ON_NODE" train.py}
