/* SPDX-License-Identifier: MIT */
/*
 * Rprop: the gradient before and a step size for each element, of the parameter's shape and dtype.
 * foreach takes the signs of all gradients twice, one after the other, with masks of one tensor at
 * a time; the loop a sign, a gradient and a mask of one parameter.
 *
 * source: torch/optim/rprop.py (_init_group, _multi_tensor_rprop, _single_tensor_rprop), 2.13
 */
#include "optim/optim.h"

enum { PREV, STEP_SIZE };

static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];

        if (!leaf || !mpl_optim_is_new(optim, i))
            continue;
        state->tensors[PREV] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        state->tensors[STEP_SIZE] = mpl_optim_new_state(tape, "full_like.default", leaf);
    }
}

/* sign[sign.gt(0)] = value: a mask of one byte an element */
static void set_where(struct mpl_tape *tape, const char *op, const struct mpl_tensor *leaf)
{
    mpl_consume(tape, mpl_empty(tape, op, MPL_BOOL, &leaf->shape));
}

static void set_signs(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    set_where(tape, "gt.Scalar", leaf);
    set_where(tape, "lt.Scalar", leaf);
    set_where(tape, "eq.Scalar", leaf);
}

static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor *sign = NULL, *grad = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor *product;

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        mpl_optim_bind_gradient(tape, optim, leaf, false, &grad);
        product = mpl_hold(mpl_optim_like(tape, "mul.Tensor", leaf));
        mpl_rebind(tape, &sign, mpl_optim_like(tape, "sign.default", leaf));
        mpl_drop(tape, product);
        set_signs(tape, leaf);
        mpl_rebind(tape, &grad, mpl_optim_like(tape, "clone.default", leaf));
        set_where(tape, "eq.Scalar", leaf);
        mpl_consume(tape, mpl_optim_like(tape, "sign.default", leaf));
    }
    mpl_drop(tape, sign);
    mpl_drop(tape, grad);
}

/* The gradients are kept in the state, in place: torch.where(sign.eq(etaminus), 0, grad). The zero
 * becomes a tensor on the device. */
static void clear_turned(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)leaf->dtype;
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *mask = mpl_hold(mpl_empty(tape, "eq.Scalar", MPL_BOOL, &leaf->shape));
    struct mpl_tensor *zero = mpl_hold(mpl_empty(tape, "scalar_tensor.default", dtype, &scalar));

    mpl_consume(tape, mpl_optim_like(tape, "where.self", leaf));
    mpl_drop(tape, zero);
    mpl_drop(tape, mask);
}

static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct mpl_tensor **signs = mpl_optim_list(tape, optim);

    if (!signs)
        return;
    mpl_optim_take_list(tape, optim, "_foreach_mul.List", signs);
    for (uint32_t i = 0; i < optim->count; i++)
        if (signs[i])
            set_signs(tape, signs[i]);
    for (uint32_t i = 0; i < optim->count; i++)
        if (signs[i])
            clear_turned(tape, signs[i]);
    mpl_optim_drop_list(tape, optim, signs);
    mpl_optim_take_list(tape, optim, "sign.default", signs);
    mpl_optim_drop_list(tape, optim, signs);
}

void mpl_rprop_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    init_states(tape, optim);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
