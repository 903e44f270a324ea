/* SPDX-License-Identifier: MIT */
/*
 * Rotary frequencies that the forward pass itself may change.
 *
 * source: transformers/modeling_rope_utils.py (dynamic_rope_update, _compute_longrope_parameters,
 * _compute_dynamic_ntk_parameters); release 5.24.0
 */
#include "part/rope_update.h"

static const struct mpl_shape scalar = {0};

static struct mpl_tensor *made(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               const struct mpl_shape *shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, shape));
}

/* value = op(value), for a name held */
static void become(struct mpl_tape *tape, struct mpl_tensor **name, const char *op,
                   const struct mpl_shape *shape)
{
    mpl_rebind(tape, name, mpl_empty(tape, op, MPL_FLOAT32, shape));
}

/* torch.max(position_ids) + 1 */
static struct mpl_tensor *sequence_length(struct mpl_tape *tape)
{
    struct mpl_tensor *last = made(tape, "max.default", MPL_INT64, &scalar);
    struct mpl_tensor *length = made(tape, "add.Tensor", MPL_INT64, &scalar);

    mpl_drop(tape, last);
    return length;
}

/* arange(0, dim, 2).float() / dim, float32 [half] */
static struct mpl_tensor *exponents(struct mpl_tape *tape, const struct mpl_shape *shape)
{
    struct mpl_tensor *range = made(tape, "arange.start_step", MPL_INT64, shape);
    struct mpl_tensor *out = made(tape, "_to_copy.default", MPL_FLOAT32, shape);

    mpl_drop(tape, range);
    become(tape, &out, "div.Tensor", shape);
    return out;
}

/* 1.0 / (factors * base ** exponents), float32 [half] */
static struct mpl_tensor *long_frequencies(struct mpl_tape *tape, const struct mpl_shape *shape)
{
    struct mpl_tensor *factors = made(tape, "_to_copy.default", MPL_FLOAT32, shape);
    struct mpl_tensor *powers = exponents(tape, shape);
    struct mpl_tensor *out = made(tape, "pow.Scalar", MPL_FLOAT32, shape);

    become(tape, &out, "mul.Tensor", shape);
    become(tape, &out, "reciprocal.default", shape);
    become(tape, &out, "mul.Tensor", shape);
    mpl_drop(tape, powers);
    mpl_drop(tape, factors);
    return out;
}

/* The long set is made once; each call picks a set and copies it over the buffer. */
static void update_long(struct mpl_tape *tape, struct mpl_rope_state *state,
                        const struct mpl_shape *shape)
{
    struct mpl_tensor *length = sequence_length(tape), *is_longer, *picked;

    if (!state->long_frequencies)
        state->long_frequencies = long_frequencies(tape, shape);
    is_longer = made(tape, "gt.Scalar", MPL_BOOL, &scalar);
    picked = made(tape, "where.self", MPL_FLOAT32, shape);
    mpl_drop(tape, is_longer);
    mpl_drop(tape, picked);
    mpl_drop(tape, length);
}

/* base * ((factor * length / max) - (factor - 1)) ** e, a scalar; then 1.0 / base ** exponents */
static struct mpl_tensor *grown_frequencies(struct mpl_tape *tape, const struct mpl_shape *shape)
{
    static const char *const steps[] = {"mul.Tensor", "div.Tensor", "sub.Tensor",
                                        "pow.Tensor_Scalar", "mul.Tensor"};
    struct mpl_tensor *limit = made(tape, "_to_copy.default", MPL_INT64, &scalar);
    struct mpl_tensor *length = made(tape, "maximum.default", MPL_INT64, &scalar);
    struct mpl_tensor *base = made(tape, steps[0], MPL_FLOAT32, &scalar), *powers, *out;

    mpl_drop(tape, limit);
    for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]); i++)
        become(tape, &base, steps[i], &scalar);
    powers = exponents(tape, shape);
    out = made(tape, "pow.Tensor_Tensor", MPL_FLOAT32, shape);
    mpl_drop(tape, powers);
    become(tape, &out, "reciprocal.default", shape);
    become(tape, &out, "mul.Tensor", shape);
    mpl_drop(tape, base);
    mpl_drop(tape, length);
    return out;
}

/* The first sequence that is too long makes new frequencies, in the place of the buffer. All are of
 * one length, so none is made again and none goes back. */
static void update_dynamic(struct mpl_tape *tape, struct mpl_rope_state *state,
                           const struct mpl_shape *shape, bool is_longer)
{
    struct mpl_tensor *length = sequence_length(tape);

    mpl_drop(tape, made(tape, "gt.Scalar", MPL_BOOL, &scalar));
    if (is_longer && !state->longest) {
        mpl_drop(tape, grown_frequencies(tape, shape)); /* the old buffer goes, of the same size */
        state->longest = mpl_hold(mpl_return(mpl_hold(length)));
    }
    mpl_drop(tape, made(tape, "lt.Scalar", MPL_BOOL, &scalar));
    mpl_drop(tape, length);
}

void mpl_rope_update(struct mpl_tape *tape, enum mpl_rope_type type, struct mpl_rope_state *state,
                     struct mpl_dim half, bool is_longer)
{
    const struct mpl_shape shape = mpl_shape1(half);

    if (type == MPL_ROPE_LONGROPE)
        update_long(tape, state, &shape);
    else if (type == MPL_ROPE_DYNAMIC)
        update_dynamic(tape, state, &shape, is_longer);
}
