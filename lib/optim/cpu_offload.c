/* SPDX-License-Identifier: MIT */
/*
 * AdamW with states in host memory (torchao's CPUOffloadOptimizer): weights and gradients are
 * copied between pinned host memory and the card, states and the step's temporaries are the host's.
 * Tensors of fewer than 4096 elements stay with a fused AdamW on the card. offload_gradients frees
 * a gradient when backward has it; its copy runs on a stream of its own, which is taken to keep up.
 *
 * source: torchao/optim/cpu_offload.py (CPUOffloadOptimizer.__init__, step, zero_grad), 0.18
 */
#include "optim/optim.h"

#define MIN_OFFLOAD 4096 /* elements */

enum { STEP, EXP_AVG, EXP_AVG_SQ };

static bool is_small(const struct mpl_tensor *leaf)
{
    return mpl_numel(leaf) < MIN_OFFLOAD;
}

static void free_gradient(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    mpl_optim_unbind(tape, &leaf->grad);
}

void mpl_cpu_offload_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    (void)tape;
    for (uint32_t i = 0; i < optim->count && optim->spec->offload_gradients; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

        if (!is_small(leaf))
            leaf->grad_hook = free_gradient;
    }
}

/* shape: of the small parameters, their dtype; step: a float32 scalar */
void mpl_cpu_offload_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const struct mpl_shape scalar = {0};

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor **tensors = optim->states[i].tensors;

        if (!leaf || !is_small(leaf) || !mpl_optim_is_new(optim, i))
            continue;
        tensors[STEP] = mpl_optim_new_state_shaped(tape, "zeros.default", MPL_FLOAT32, &scalar);
        tensors[EXP_AVG] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        tensors[EXP_AVG_SQ] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}
