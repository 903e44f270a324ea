/* SPDX-License-Identifier: MIT */
/*
 * ASGD: an average of the parameter's shape and dtype, and three scalars on the device. foreach
 * takes a list of the size of all parameters twice, one after the other; the loop nothing. The
 * averaging that begins at t0, a million steps by default, is not booked.
 *
 * source: torch/optim/asgd.py (_init_group, _multi_tensor_asgd, _single_tensor_asgd), 2.13
 */
#include "optim/optim.h"

enum { STEP, ETA, MU, AX };

/* shape: scalars step, eta and mu of float32; ax as the parameter */
static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const struct mpl_shape scalar = {0};

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];
        struct mpl_tensor *rate;

        if (!leaf || !mpl_optim_is_new(optim, i))
            continue;
        state->tensors[STEP] =
            mpl_optim_new_state_shaped(tape, "zeros.default", MPL_FLOAT32, &scalar);
        rate = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &scalar));
        state->tensors[ETA] =
            mpl_optim_new_state_shaped(tape, "clone.default", MPL_FLOAT32, &scalar);
        mpl_drop(tape, rate);
        state->tensors[MU] = mpl_optim_new_state_shaped(tape, "ones.default", MPL_FLOAT32, &scalar);
        state->tensors[AX] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, optim->spec->weight_decay != 0, &grad);
    }
    mpl_drop(tape, grad);
}

/* lr / ((1 + lambd * lr * step) ** alpha), of a step on the device; held */
static struct mpl_tensor *new_eta(struct mpl_tape *tape)
{
    static const char *const ops[] = {"mul.Tensor", "add.Tensor", "pow.Tensor_Scalar",
                                      "reciprocal.default", "mul.Tensor"};
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *value = NULL;

    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
        mpl_rebind(tape, &value, mpl_empty(tape, ops[k], MPL_FLOAT32, &scalar));
    return value;
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **grads = mpl_optim_list(tape, optim), **list = mpl_optim_list(tape, optim),
                      **etas = mpl_optim_list(tape, optim), **mus = mpl_optim_list(tape, optim);
    const struct mpl_shape scalar = {0};

    if (!grads || !list || !etas || !mus)
        return;
    if (optim->spec->maximize)
        mpl_optim_take_list(tape, optim, "_foreach_neg.default", grads);
    if (!optim->spec->maximize || optim->spec->weight_decay == 0) {
        mpl_optim_take_list(tape, optim, "_foreach_add.List", list);
        mpl_optim_drop_list(tape, optim, list);
    }
    mpl_optim_take_list(tape, optim, "_foreach_sub.List", list);
    mpl_optim_drop_list(tape, optim, list);
    for (uint32_t i = 0; i < optim->count; i++)
        etas[i] = mpl_optim_leaf(optim, i) ? new_eta(tape) : NULL;
    for (uint32_t i = 0; i < optim->count; i++)
        if (mpl_optim_leaf(optim, i))
            mus[i] = mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &scalar));
    mpl_optim_drop_list(tape, optim, grads);
    mpl_optim_drop_list(tape, optim, etas);
    mpl_optim_drop_list(tape, optim, mus);
}

void mpl_asgd_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    init_states(tape, optim);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
