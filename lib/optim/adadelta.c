/* SPDX-License-Identifier: MIT */
/*
 * Adadelta: averages of squared gradients and of squared updates, of the parameter's shape and
 * dtype. foreach takes two lists of the size of all parameters, the loop two tensors of one
 * parameter beside those of the one before.
 *
 * source: torch/optim/adadelta.py (_init_group, _multi_tensor_adadelta, _single_tensor_adadelta),
 * 2.13
 */
#include "optim/optim.h"

enum { SQUARE_AVG, ACC_DELTA, STATES };

/* grad is the loop's own variable, bound to the next gradient first; std and delta are locals. */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *std = NULL, *delta = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, optim->spec->weight_decay != 0, &grad);
        mpl_rebind(tape, &std, mpl_optim_like(tape, "add.Tensor", leaf));
        mpl_rebind(tape, &delta, mpl_optim_like(tape, "add.Tensor", leaf));
    }
    mpl_drop(tape, std);
    mpl_drop(tape, delta);
    mpl_drop(tape, grad);
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **grads = mpl_optim_list(tape, optim), **std = mpl_optim_list(tape, optim),
                      **deltas = mpl_optim_list(tape, optim);

    if (!grads || !std || !deltas)
        return;
    mpl_optim_take_gradients(tape, optim, optim->spec->weight_decay != 0, grads);
    mpl_optim_take_list(tape, optim, "_foreach_add.Scalar", std);
    mpl_optim_take_list(tape, optim, "_foreach_add.Scalar", deltas);
    mpl_optim_drop_list(tape, optim, grads);
    mpl_optim_drop_list(tape, optim, std);
    mpl_optim_drop_list(tape, optim, deltas);
}

void mpl_adadelta_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_init_zeros(tape, optim, STATES);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
