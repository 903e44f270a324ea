/* SPDX-License-Identifier: MIT */
/*
 * Adam and AdamW: two moments of the parameter's shape and dtype, three with amsgrad. foreach takes
 * the square roots of all second moments at once, the loop those of one tensor, the fused kernel
 * nothing. AdamW decays weights in place; Adam adds them to a copy of the gradient.
 *
 * source: torch/optim/adam.py (_init_group, _multi_tensor_adam, _single_tensor_adam, _fused_adam);
 * releases 2.0.1, 2.1.2, 2.13.0
 */
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, MAX_EXP_AVG_SQ, STEP };

static bool adds_decay(const struct mpl_optim *optim)
{
    return optim->spec->name == MPL_ADAM && optim->spec->weight_decay != 0;
}

/* shape: of the parameter; step: a float32 scalar, on the device for the fused kernel only */
static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const struct mpl_shape scalar = {0};

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];

        if (!leaf || state->is_ready)
            continue;
        state->is_ready = true;
        if (mpl_optim_is_fused(optim))
            state->tensors[STEP] =
                mpl_optim_new_state_shaped(tape, "zeros.default", MPL_FLOAT32, &scalar);
        state->tensors[EXP_AVG] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        state->tensors[EXP_AVG_SQ] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        if (optim->spec->amsgrad)
            state->tensors[MAX_EXP_AVG_SQ] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

/* denom = (exp_avg_sq.sqrt() / correction).add_(eps): a Python local, gone at the next one */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *denom = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor *root;

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, adds_decay(optim), &grad);
        root = mpl_hold(mpl_optim_like(tape, "sqrt.default", leaf));
        mpl_rebind(tape, &denom, mpl_optim_like(tape, "div.Tensor", leaf));
        mpl_drop(tape, root);
    }
    mpl_drop(tape, denom);
    mpl_drop(tape, grad);
}

/* Before PyTorch 2.1: denom = torch._foreach_add(exp_avg_sq_sqrt, eps), and the copies of the
 * gradients keep their name. */
static void multi_tensor_early(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **grads = mpl_optim_list(tape, optim);
    struct mpl_tensor **roots = mpl_optim_list(tape, optim);
    struct mpl_tensor **denom = mpl_optim_list(tape, optim);
    bool has_copies;

    if (!grads || !roots || !denom)
        return;
    has_copies = mpl_optim_take_gradients(tape, optim, adds_decay(optim), grads);
    mpl_optim_take_list(tape, optim, "_foreach_sqrt.default", roots);
    mpl_optim_take_list(tape, optim, "_foreach_add.Scalar", denom);
    mpl_optim_drop_list(tape, optim, denom);
    mpl_optim_drop_list(tape, optim, roots);
    if (has_copies)
        mpl_optim_drop_list(tape, optim, grads);
}

/* The copies of the gradients are gone (del device_grads) before the roots are taken. */
static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **list = mpl_optim_list(tape, optim);

    if (!list)
        return;
    if (mpl_optim_take_gradients(tape, optim, adds_decay(optim), list))
        mpl_optim_drop_list(tape, optim, list);
    mpl_optim_take_list(tape, optim, "_foreach_sqrt.default", list);
    mpl_optim_drop_list(tape, optim, list);
}

void mpl_adam_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    init_states(tape, optim);
    if (mpl_optim_is_fused(optim))
        return;
    if (optim->is_foreach)
        (optim->is_early ? multi_tensor_early : multi_tensor)(tape, optim);
    else
        single_tensor(tape, optim);
}
