/* SPDX-License-Identifier: MIT */
/*
 * NAdam: two moments of the parameter's shape and dtype; step and the product of momenta stay on
 * the host. foreach takes the square roots of all second moments at once and keeps the gradients'
 * copies beside them, the loop two tensors of one parameter.
 *
 * source: torch/optim/nadam.py (_init_group, _multi_tensor_nadam, _single_tensor_nadam), 2.13
 */
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, STATES };

static bool adds_decay(const struct mpl_optim *optim)
{
    return optim->spec->weight_decay != 0 && !optim->spec->decoupled_weight_decay;
}

/* denom = exp_avg_sq.div(correction).sqrt(), a Python local, gone at the next one */
static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *denom = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor *quotient;

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, adds_decay(optim), &grad);
        quotient = mpl_hold(mpl_optim_like(tape, "div.Tensor", leaf));
        mpl_rebind(tape, &denom, mpl_optim_like(tape, "sqrt.default", leaf));
        mpl_drop(tape, quotient);
    }
    mpl_drop(tape, denom);
    mpl_drop(tape, grad);
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **grads = mpl_optim_list(tape, optim), **roots = mpl_optim_list(tape, optim);

    if (!grads || !roots)
        return;
    mpl_optim_take_gradients(tape, optim, adds_decay(optim), grads);
    mpl_optim_take_list(tape, optim, "_foreach_sqrt.default", roots);
    mpl_optim_drop_list(tape, optim, grads);
    mpl_optim_drop_list(tape, optim, roots);
}

void mpl_nadam_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_init_zeros(tape, optim, STATES);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
