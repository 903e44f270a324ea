/* SPDX-License-Identifier: MIT */
/*
 * Optimizer in backward: each parameter has an optimizer of its own, whose step runs in a hook as
 * soon as the gradient is there, and the gradient is freed right after.
 *
 * source: torchtune/training/memory.py (register_optim_in_bwd_hooks), 0.6; PyTorch's tutorial
 * "How to save memory by fusing the optimizer step into the backward pass";
 * torch/csrc/autograd/functions/accumulate_grad.cpp (post-accumulate hooks), 2.13
 */
#include "optim/optim.h"

/* The optimizer of one parameter, which the hook finds by its leaf's context. */
static void step_one(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_optim *one = leaf->grad_hook_context;

    one->row->step(tape, one);
    mpl_optim_unbind(tape, &leaf->grad);
}

void mpl_in_backward_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_optim *each = mpl_arena_zalloc(&tape->arena, (optim->count + 1) * sizeof(*each));

    if (!each) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

        each[i] = *optim;
        each[i].parameters += i;
        each[i].states += i;
        each[i].count = 1;
        leaf->grad_hook = step_one;
        leaf->grad_hook_context = &each[i];
    }
}
