/* SPDX-License-Identifier: MIT */
/*
 * RMSprop: an average of squared gradients, with momentum a buffer, centered an average of
 * gradients; each of the parameter's shape and dtype. A step takes the roots, and new gradients
 * when weights decay.
 *
 * source: torch/optim/rmsprop.py (_init_group, _multi_tensor_rmsprop, _single_tensor_rmsprop)
 */
#include "optim/optim.h"

enum { SQUARE_AVG, MOMENTUM, GRAD_AVG };

static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];

        if (!leaf || state->is_ready)
            continue;
        state->is_ready = true;
        state->tensors[SQUARE_AVG] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        if (optim->spec->momentum > 0)
            state->tensors[MOMENTUM] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        if (optim->spec->centered)
            state->tensors[GRAD_AVG] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

/* The root avg is a Python local, gone when the next one is there; grad is bound to the gradient
 * itself first, so the old copy is gone before the new one. */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    const char *op = optim->spec->centered ? "addcmul.default" : "sqrt.default";
    struct mpl_tensor *avg = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, optim->spec->weight_decay != 0, &grad);
        mpl_rebind(tape, &avg, mpl_optim_like(tape, op, leaf));
    }
    mpl_drop(tape, avg);
    mpl_drop(tape, grad);
}

/* Copies of the gradients and the roots live until the function returns. */
static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    const char *op = optim->spec->centered ? "_foreach_addcmul.Scalar" : "_foreach_sqrt.default";
    struct mpl_tensor **grads = mpl_optim_list(tape, optim), **avg = mpl_optim_list(tape, optim);

    if (!grads || !avg)
        return;
    mpl_optim_take_gradients(tape, optim, optim->spec->weight_decay != 0, grads);
    mpl_optim_take_list(tape, optim, op, avg);
    mpl_optim_drop_list(tape, optim, avg);
    mpl_optim_drop_list(tape, optim, grads);
}

void mpl_rmsprop_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    init_states(tape, optim);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
