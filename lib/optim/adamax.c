/* SPDX-License-Identifier: MIT */
/*
 * Adamax: a first moment and an infinity norm of the parameter's shape and dtype. foreach takes the
 * magnitudes of all gradients, or uses the copies that negation or weight decay made; the loop
 * those of one.
 *
 * source: torch/optim/adamax.py (_init_group, _multi_tensor_adamax, _single_tensor_adamax), 2.13
 */
#include "optim/optim.h"

enum { EXP_AVG, EXP_INF, STATES };

static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, optim->spec->weight_decay != 0, &grad);
        mpl_consume(tape, mpl_optim_like(tape, "abs.default", leaf));
    }
    mpl_drop(tape, grad);
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **list = mpl_optim_list(tape, optim);

    if (!list)
        return;
    if (!mpl_optim_take_gradients(tape, optim, optim->spec->weight_decay != 0, list))
        mpl_optim_take_list(tape, optim, "_foreach_abs.default", list);
    mpl_optim_drop_list(tape, optim, list);
}

void mpl_adamax_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_init_zeros(tape, optim, STATES);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
