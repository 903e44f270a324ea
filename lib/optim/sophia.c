/* SPDX-License-Identifier: MIT */
/*
 * SophiaG: two states of the parameter's shape and dtype, in a loop. The ratio of one parameter
 * lives until that of the next one is there. update_hessian works in place; the pass over sampled
 * labels that its gradients come from is the training loop's (step/train.c).
 *
 * source: github.com/Liuhong99/Sophia, sophia.py (SophiaG.step, _single_tensor_sophiag,
 * update_hessian), commit a7e15722
 */
#include "optim/optim.h"

enum { EXP_AVG, HESSIAN, STATES };

/* (exp_avg.abs() / (rho * bs * hess + 1e-15)).clamp(None, 1) */
static struct mpl_tensor *ratio_of(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    struct mpl_tensor *size = mpl_hold(mpl_optim_like(tape, "abs.default", leaf));
    struct mpl_tensor *bound = mpl_hold(mpl_optim_like(tape, "mul.Tensor", leaf));
    struct mpl_tensor *quotient, *result;

    mpl_rebind(tape, &bound, mpl_optim_like(tape, "add.Tensor", leaf));
    quotient = mpl_hold(mpl_optim_like(tape, "div.Tensor", leaf));
    mpl_drop(tape, bound);
    mpl_drop(tape, size);
    result = mpl_optim_like(tape, "clamp.default", leaf);
    mpl_drop(tape, quotient);
    return result;
}

void mpl_sophia_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor *grad = NULL, *ratio = NULL;

    mpl_optim_init_zeros(tape, optim, STATES);
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, false, &grad);
        mpl_rebind(tape, &ratio, ratio_of(tape, leaf));
        mpl_consume(tape, mpl_optim_like(tape, "sign.default", leaf));
    }
    mpl_drop(tape, ratio);
    mpl_drop(tape, grad);
}
