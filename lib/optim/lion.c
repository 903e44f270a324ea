/* SPDX-License-Identifier: MIT */
/*
 * Lion: one moment of the parameter's shape and dtype. The loop (lion_pytorch.Lion) takes the mix
 * of moment and gradient twice for one parameter, foreach (lion_pytorch.foreach.Lion) once for all.
 *
 * source: lion_pytorch/lion_pytorch.py (update_fn), lion_pytorch/foreach.py (Lion.step), 0.2.5
 */
#include "optim/optim.h"

enum { EXP_AVG, STATES };

/* update = exp_avg.clone().mul_(beta1).add(grad).sgn_(): the copy lives until the sum is there */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor *copy;

        if (!leaf)
            continue;
        copy = mpl_hold(mpl_optim_like(tape, "clone.default", leaf));
        mpl_consume(tape, mpl_optim_like(tape, "add.Tensor", leaf));
        mpl_drop(tape, copy);
    }
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **updates = mpl_optim_list(tape, optim);

    if (!updates)
        return;
    mpl_optim_take_list(tape, optim, "clone.default", updates);
    mpl_optim_drop_list(tape, optim, updates);
}

/* The loop makes a state right before its parameter's update, foreach all of them first: the peak
 * of the first step differs by the states that are not there yet. */
static void single_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_optim one = *optim;

    one.count = 1;
    for (uint32_t i = 0; i < optim->count; i++) {
        one.parameters = optim->parameters + i;
        one.states = optim->states + i;
        mpl_optim_init_zeros(tape, &one, STATES);
        single_tensor(tape, &one);
    }
}

void mpl_lion_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (!optim->is_foreach) {
        single_step(tape, optim);
        return;
    }
    mpl_optim_init_zeros(tape, optim, STATES);
    multi_tensor(tape, optim);
}
