/* SPDX-License-Identifier: MIT */
/*
 * SGD: with momentum one buffer, a copy of the first gradient; weight decay makes new gradients.
 *
 * source: torch/optim/sgd.py (_multi_tensor_sgd, _single_tensor_sgd, _fused_sgd)
 */
#include "optim/optim.h"

enum { MOMENTUM };

static void init_momentum(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i,
                          const struct mpl_tensor *leaf)
{
    struct mpl_optim_state *state = &optim->states[i];

    if (state->is_ready || optim->spec->momentum == 0)
        return;
    state->is_ready = true;
    state->tensors[MOMENTUM] = mpl_optim_new_state(
        tape, mpl_optim_is_fused(optim) ? "empty_like.default" : "clone.default", leaf);
}

/* The fused kernel changes gradients in registers. */
static void fused(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (leaf)
            init_momentum(tape, optim, i, leaf);
    }
}

/* One parameter after the other: the changed gradient is a Python local, which Nesterov binds to a
 * sum and plain momentum to the buffer. */
static void single_tensor(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const struct mpl_optimizer_spec *spec = optim->spec;
    struct mpl_tensor *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, spec->weight_decay != 0, &grad);
        init_momentum(tape, optim, i, leaf);
        if (spec->momentum != 0 && spec->nesterov == MPL_TRUE)
            mpl_rebind(tape, &grad, mpl_optim_like(tape, "add.Tensor", leaf));
        else if (spec->momentum != 0)
            mpl_optim_unbind(tape, &grad);
    }
    mpl_drop(tape, grad);
}

/* Nesterov's sum goes into the gradients, or their copies, in place. */
static void multi_tensor(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor **list = mpl_optim_list(tape, optim);

    if (!list)
        return;
    mpl_optim_take_gradients(tape, optim, optim->spec->weight_decay != 0, list);
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (leaf)
            init_momentum(tape, optim, i, leaf);
    }
    mpl_optim_drop_list(tape, optim, list);
}

void mpl_sgd_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (mpl_optim_is_fused(optim))
        fused(tape, optim);
    else if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
