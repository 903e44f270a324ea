/* SPDX-License-Identifier: MIT */
/*
 * LAMB: two moments of the parameter's shape and dtype, and a norm of the weights, one of the
 * update and their ratio. foreach takes the updates of all parameters at once and keeps the norms
 * stacked, the loop one after the other.
 *
 * source: pytorch_optimizer/optimizer/lamb.py (Lamb._step_foreach, update, init_group), 4.1.0
 */
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, STATES, WEIGHT_NORM = STATES, ADAM_NORM, TRUST_RATIO };

/* ---- one parameter after the other ------------------------------------------------------------
 */

/* wn / (pn + eps), where neither is zero: two comparisons that are read at once */
static struct mpl_tensor *ratio(struct mpl_tape *tape, enum mpl_dtype dtype)
{
    struct mpl_tensor *sum, *result;

    mpl_drop(tape, mpl_hold_scalar(tape, "eq.Scalar", MPL_BOOL));
    mpl_drop(tape, mpl_hold_scalar(tape, "eq.Scalar", MPL_BOOL));
    sum = mpl_hold_scalar(tape, "add.Tensor", dtype);
    result = mpl_hold_scalar(tape, "div.Tensor", dtype);
    mpl_drop(tape, sum);
    return result;
}

static void update_one(struct mpl_tape *tape, struct mpl_optim_state *state,
                       const struct mpl_tensor *leaf)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)leaf->dtype;
    struct mpl_tensor *update = mpl_hold(mpl_optim_like(tape, "sqrt.default", leaf));
    struct mpl_tensor *values[3];

    values[0] = mpl_hold_scalar(tape, "linalg_vector_norm.default", dtype);
    values[1] = mpl_hold_scalar(tape, "linalg_vector_norm.default", dtype);
    values[2] = ratio(tape, dtype);
    for (int k = 0; k < 3; k++) {
        mpl_drop(tape, state->tensors[WEIGHT_NORM + k]);
        state->tensors[WEIGHT_NORM + k] = values[k];
    }
    mpl_drop(tape, mpl_hold_scalar(tape, "mul.Tensor", dtype));
    mpl_drop(tape, update);
}

/* ---- all at once ------------------------------------------------------------------------------
 */

/* torch.stack(torch._foreach_norm(list)), held */
static struct mpl_tensor *stacked_norms(struct mpl_tape *tape, const struct mpl_optim *optim,
                                        enum mpl_dtype dtype, int64_t count)
{
    struct mpl_tensor **norms = mpl_optim_list(tape, optim), *stack;
    const struct mpl_shape shape = mpl_shape1(mpl_dim(count));

    for (uint32_t i = 0; norms && i < optim->count; i++)
        norms[i] =
            mpl_optim_leaf(optim, i) ? mpl_hold_scalar(tape, "_foreach_norm.Scalar", dtype) : NULL;
    stack = mpl_hold(mpl_empty(tape, "stack.default", dtype, &shape));
    if (norms)
        mpl_optim_drop_list(tape, optim, norms);
    return stack;
}

/* torch.where((wn != 0) & (pn != 0), wn / (pn + eps), 1.0), held */
static struct mpl_tensor *stacked_ratios(struct mpl_tape *tape, enum mpl_dtype dtype, int64_t count)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(count));
    struct mpl_tensor *one, *a = mpl_hold(mpl_empty(tape, "ne.Scalar", MPL_BOOL, &shape));
    struct mpl_tensor *b = mpl_hold(mpl_empty(tape, "ne.Scalar", MPL_BOOL, &shape));
    struct mpl_tensor *both = mpl_hold(mpl_empty(tape, "bitwise_and.Tensor", MPL_BOOL, &shape));
    struct mpl_tensor *sum, *quotient, *result;

    mpl_drop(tape, a);
    mpl_drop(tape, b);
    sum = mpl_hold(mpl_empty(tape, "add.Tensor", dtype, &shape));
    quotient = mpl_hold(mpl_empty(tape, "div.Tensor", dtype, &shape));
    mpl_drop(tape, sum);
    one = mpl_hold_scalar(tape, "scalar_tensor.default", dtype);
    result = mpl_hold(mpl_empty(tape, "where.self", dtype, &shape));
    mpl_drop(tape, one);
    mpl_drop(tape, quotient);
    mpl_drop(tape, both);
    return result;
}

/* Each parameter's state looks into the stacks: they are booked for the first one. */
static void multi_tensor(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor **updates = mpl_optim_list(tape, optim), *stacks[3];
    enum mpl_dtype dtype = MPL_FLOAT32;
    int64_t count = 0;

    if (!updates)
        return;
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        count += leaf != NULL;
        dtype = leaf ? (enum mpl_dtype)leaf->dtype : dtype;
    }
    if (!count)
        return;
    mpl_optim_take_list(tape, optim, "_foreach_sqrt.default", updates);
    stacks[0] = stacked_norms(tape, optim, dtype, count);
    stacks[1] = stacked_norms(tape, optim, dtype, count);
    stacks[2] = stacked_ratios(tape, dtype, count);
    for (int k = 0; k < 3; k++) {
        mpl_drop(tape, optim->states[0].tensors[WEIGHT_NORM + k]);
        optim->states[0].tensors[WEIGHT_NORM + k] = stacks[k];
    }
    mpl_optim_drop_list(tape, optim, updates);
}

void mpl_lamb_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_init_zeros(tape, optim, STATES);
    if (optim->is_foreach) {
        multi_tensor(tape, optim);
        return;
    }
    for (uint32_t i = 0; i < optim->count; i++)
        if (mpl_optim_leaf(optim, i))
            update_one(tape, &optim->states[i], mpl_optim_leaf(optim, i));
}
