/* SPDX-License-Identifier: MIT */
/*
 * Adagrad: a sum of squared gradients of the parameter's shape and dtype, made by the constructor.
 * A foreach step takes the roots and the scaled gradients of all tensors, the loop the root of one,
 * the fused kernel nothing.
 *
 * source: torch/optim/adagrad.py (__init__, _multi_tensor_adagrad, _single_tensor_adagrad,
 * _fused_adagrad)
 */
#include "optim/optim.h"

enum { SUM, STEP };

/* shape: of the parameter; step: a float32 scalar, on the device for the fused kernel only */
void mpl_adagrad_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const struct mpl_shape scalar = {0};

    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_optim_state *state = &optim->states[i];

        state->is_ready = true;
        if (mpl_optim_is_fused(optim))
            state->tensors[STEP] =
                mpl_optim_new_state_shaped(tape, "zeros.default", MPL_FLOAT32, &scalar);
        state->tensors[SUM] = mpl_optim_new_state(tape, "full_like.default",
                                                  mpl_parameter_leaf(optim->parameters[i]));
    }
}

/* std = state_sum.sqrt().add_(eps), a Python local; grad is the loop's own variable and bound to
 * the next gradient first. */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *std = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, optim->spec->weight_decay != 0, &grad);
        mpl_rebind(tape, &std, mpl_optim_like(tape, "sqrt.default", leaf));
    }
    mpl_drop(tape, std);
    mpl_drop(tape, grad);
}

/* The scaled gradients reuse the copies that negation or weight decay made. */
static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **grads = mpl_optim_list(tape, optim), **std = mpl_optim_list(tape, optim);
    bool has_copies;

    if (!grads || !std)
        return;
    has_copies = mpl_optim_take_gradients(tape, optim, optim->spec->weight_decay != 0, grads);
    mpl_optim_take_list(tape, optim, "_foreach_sqrt.default", std);
    if (!has_copies)
        mpl_optim_take_list(tape, optim, "_foreach_mul.ScalarList", grads);
    mpl_optim_drop_list(tape, optim, grads);
    mpl_optim_drop_list(tape, optim, std);
}

void mpl_adagrad_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    if (mpl_optim_is_fused(optim))
        return;
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
