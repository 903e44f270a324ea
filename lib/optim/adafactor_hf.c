/* SPDX-License-Identifier: MIT */
/*
 * Adafactor of transformers, as its Trainer makes it (no first moment, a learning rate that is
 * given): of a matrix's second moment a row and a column, of a vector's the whole, and a norm, all
 * in float32. It loops, in float32 whatever the parameter's format is.
 *
 * source: transformers/optimization.py (Adafactor.step, _approx_sq_grad, _rms),
 * transformers/trainer_optimizer.py (_get_adafactor), 5.24
 */
#include "optim/optim.h"

enum { ROW, COL, RMS, WHOLE = ROW };

static bool is_matrix(const struct mpl_tensor *leaf)
{
    return leaf->shape.ndim > 1;
}

static struct mpl_tensor *like(struct mpl_tape *tape, const char *op, const struct mpl_tensor *leaf)
{
    return mpl_empty(tape, op, MPL_FLOAT32, &leaf->shape);
}

static struct mpl_tensor *scalar(struct mpl_tape *tape, const char *op)
{
    const struct mpl_shape shape = {0};

    return mpl_empty(tape, op, MPL_FLOAT32, &shape);
}

/* [.., m] of [.., m, n], or [.., n] */
static struct mpl_shape row_shape(const struct mpl_tensor *leaf)
{
    struct mpl_shape shape = leaf->shape;

    shape.ndim--;
    return shape;
}

static struct mpl_shape col_shape(const struct mpl_tensor *leaf)
{
    struct mpl_shape shape = row_shape(leaf);

    shape.dim[shape.ndim - 1] = leaf->shape.dim[leaf->shape.ndim - 1];
    return shape;
}

static void init_state(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i,
                       const struct mpl_tensor *leaf)
{
    struct mpl_tensor **tensors = optim->states[i].tensors;
    struct mpl_shape shape;

    if (!mpl_optim_is_new(optim, i))
        return;
    if (!is_matrix(leaf)) {
        tensors[WHOLE] =
            mpl_optim_new_state_shaped(tape, "zeros_like.default", MPL_FLOAT32, &leaf->shape);
        return;
    }
    shape = row_shape(leaf);
    tensors[ROW] = mpl_optim_new_state_shaped(tape, "_to_copy.default", MPL_FLOAT32, &shape);
    shape = col_shape(leaf);
    tensors[COL] = mpl_optim_new_state_shaped(tape, "_to_copy.default", MPL_FLOAT32, &shape);
}

/* x.norm(2) / n */
static struct mpl_tensor *rms_of(struct mpl_tape *tape)
{
    struct mpl_tensor *norm = mpl_hold(scalar(tape, "linalg_vector_norm.default"));
    struct mpl_tensor *result = scalar(tape, "div.Tensor");

    mpl_drop(tape, norm);
    return result;
}

/* state["RMS"]: the old one stays until the new one is there */
static void set_rms(struct mpl_tape *tape, struct mpl_optim_state *state)
{
    struct mpl_tensor *value;

    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    value = rms_of(tape);
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_rebind(tape, &state->tensors[RMS], value);
}

/* The estimate of a matrix's second moment from its row and its column: their factors are locals */
static struct mpl_tensor *approximate(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    const struct mpl_shape row = row_shape(leaf), col = col_shape(leaf);
    struct mpl_shape mean_shape = row;
    struct mpl_tensor *mean, *row_factor, *col_factor, *result;

    mean_shape.dim[mean_shape.ndim - 1] = mpl_dim(1);
    mean = mpl_hold(mpl_empty(tape, "mean.dim", MPL_FLOAT32, &mean_shape));
    row_factor = mpl_hold(mpl_empty(tape, "div.Tensor", MPL_FLOAT32, &row));
    mpl_drop(tape, mean);
    col_factor = mpl_hold(mpl_empty(tape, "rsqrt.default", MPL_FLOAT32, &col));
    result = like(tape, "mul.Tensor", leaf);
    mpl_drop(tape, row_factor);
    mpl_drop(tape, col_factor);
    return result;
}

static void set_update(struct mpl_tape *tape, const struct mpl_tensor *leaf,
                       struct mpl_tensor **update)
{
    const struct mpl_shape row = row_shape(leaf);
    struct mpl_tensor *square = mpl_hold(like(tape, "pow.Tensor_Scalar", leaf));
    struct mpl_shape col;

    mpl_rebind(tape, update, like(tape, "add.Tensor", leaf));
    mpl_drop(tape, square);
    if (!is_matrix(leaf)) {
        mpl_rebind(tape, update, like(tape, "rsqrt.default", leaf));
        return;
    }
    col = col_shape(leaf);
    mpl_consume(tape, mpl_empty(tape, "mean.dim", MPL_FLOAT32, &row));
    mpl_consume(tape, mpl_empty(tape, "mean.dim", MPL_FLOAT32, &col));
    mpl_rebind(tape, update, approximate(tape, leaf));
}

/* update.div_((rms(update) / threshold).clamp_(min=1.0)) */
static void clip_update(struct mpl_tape *tape)
{
    struct mpl_tensor *rms = mpl_hold(rms_of(tape));

    mpl_consume(tape, scalar(tape, "div.Tensor"));
    mpl_drop(tape, rms);
}

/* Python locals: float32 copies of gradient and parameter where they are of another format, and
 * the update; each lives until it is bound again. */
void mpl_adafactor_hf_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor *grad = NULL, *copy = NULL, *update = NULL;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        const bool is_half = leaf && leaf->dtype != MPL_FLOAT32;

        if (!leaf)
            continue;
        mpl_optim_unbind(tape, &grad);
        if (is_half)
            mpl_rebind(tape, &grad, like(tape, "_to_copy.default", leaf));
        init_state(tape, optim, i, leaf);
        mpl_optim_unbind(tape, &copy);
        if (is_half)
            mpl_rebind(tape, &copy, like(tape, "_to_copy.default", leaf));
        set_rms(tape, &optim->states[i]);
        set_update(tape, leaf, &update);
        clip_update(tape);
        mpl_consume(tape, like(tape, "neg.default", leaf));
    }
    mpl_drop(tape, grad);
    mpl_drop(tape, copy);
    mpl_drop(tape, update);
}
