/* SPDX-License-Identifier: MIT */
/*
 * RAdam: two moments of the parameter's shape and dtype. foreach takes the roots of all second
 * moments at once, after the gradients' copies have gone. The loop's update is rectified from step
 * six on (with beta2 = 0.999) and takes more then: that is what is booked in every step, so that
 * few steps show the peak of a long run.
 *
 * source: torch/optim/radam.py (_init_group, _multi_tensor_radam, _single_tensor_radam), 2.13
 */
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, STATES };

static bool adds_decay(const struct mpl_optim *optim)
{
    return optim->spec->weight_decay != 0 && !optim->spec->decoupled_weight_decay;
}

/* c / (exp_avg_sq.sqrt() + eps): the root is a local, its reciprocal a temporary */
static struct mpl_tensor *adaptive_lr(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    struct mpl_tensor *root = mpl_hold(mpl_optim_like(tape, "sqrt.default", leaf));
    struct mpl_tensor *inverse = mpl_hold(mpl_optim_like(tape, "reciprocal.default", leaf));
    struct mpl_tensor *result = mpl_optim_like(tape, "mul.Tensor", leaf);

    mpl_drop(tape, inverse);
    mpl_drop(tape, root);
    return result;
}

/* average * lr * adaptive_lr * rect: each product lives until the next one is there */
static void update(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    struct mpl_tensor *product = mpl_hold(mpl_optim_like(tape, "mul.Tensor", leaf));
    struct mpl_tensor *rate = mpl_hold(adaptive_lr(tape, leaf));

    mpl_rebind(tape, &product, mpl_optim_like(tape, "mul.Tensor", leaf));
    mpl_drop(tape, rate);
    mpl_rebind(tape, &product, mpl_optim_like(tape, "mul.Tensor", leaf));
    mpl_drop(tape, product);
}

static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *average = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, adds_decay(optim), &grad);
        mpl_rebind(tape, &average, mpl_optim_like(tape, "div.Tensor", leaf));
        update(tape, leaf);
    }
    mpl_drop(tape, average);
    mpl_drop(tape, grad);
}

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

void mpl_radam_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_init_zeros(tape, optim, STATES);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
