/* SPDX-License-Identifier: MIT */
/*
 * What transformers' decoders share before the first layer: positions, masks, rotary tables.
 *
 * source: transformers/masking_utils.py (create_causal_mask, find_packed_sequence_indices,
 * sdpa_mask, eager_mask), modeling_rope_utils.py; release 5.24.0
 */
#include "part/masking.h"

#include "op/op.h"
#include "part/block_mask.h"

static const struct mpl_shape scalar = {0};

struct mpl_tensor *mpl_position_ids(struct mpl_tape *tape, const struct mpl_tensor *input_ids)
{
    struct mpl_shape shape;

    if (input_ids->is_void)
        return tape->void_tensor;
    shape = mpl_shape1(input_ids->shape.dim[1]);
    return mpl_op_map(tape, "add.Tensor", MPL_INT64,
                      mpl_empty(tape, "arange.default", MPL_INT64, &shape), NULL);
}

/* Looks for packed sequences in positions [b, s]; finds none. */
static void look_for_packing(struct mpl_tape *tape, struct mpl_dim b, struct mpl_dim s)
{
    struct mpl_dim longer = {s.n + 1, s.degree};
    struct mpl_tensor *first =
        mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, mpl_shape2(b, mpl_dim(1)));
    struct mpl_tensor *joined =
        mpl_hold_empty(tape, "cat.default", MPL_INT64, mpl_shape2(b, longer));
    struct mpl_tensor *steps = mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, mpl_shape2(b, s)),
                      *jumps, *groups, *last, *all;

    mpl_drop(tape, joined);
    jumps = mpl_hold_empty(tape, "ne.Scalar", MPL_BOOL, mpl_shape2(b, s));
    groups = mpl_hold_empty(tape, "cumsum.default", MPL_INT64, mpl_shape2(b, s));
    mpl_drop(tape, jumps);
    last = mpl_hold_empty(tape, "eq.Scalar", MPL_BOOL, mpl_shape1(b));
    all = mpl_hold_empty(tape, "all.default", MPL_BOOL, scalar);
    mpl_drop(tape, last);
    mpl_drop(tape, all);
    mpl_drop(tape, first);
    mpl_drop(tape, steps);
    mpl_drop(tape, groups);
}

static struct mpl_tensor *positions(struct mpl_tape *tape, struct mpl_dim s)
{
    struct mpl_tensor *range = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(s));
    struct mpl_tensor *shifted = mpl_hold_empty(tape, "add.Tensor", MPL_INT64, mpl_shape1(s));

    mpl_drop(tape, range);
    return shifted;
}

/* Which mask is made. */
struct kind {
    int64_t window;        /* 0: none */
    bool is_never_skipped; /* allow_is_causal_skip=False */
    bool is_bidirectional;
};

/* What a mask function sees. */
struct indices {
    struct mpl_dim b, s;
    const struct kind *kind;
};

static struct mpl_tensor *bool_of(struct mpl_tape *tape, const char *op, struct mpl_dim b,
                                  struct mpl_dim rows, struct mpl_dim columns)
{
    return mpl_hold_empty(tape, op, MPL_BOOL, mpl_shape4(b, mpl_dim(1), rows, columns));
}

/* result = result & mask(...), for both names held; gives the new one */
static struct mpl_tensor *both(struct mpl_tape *tape, struct mpl_tensor *result,
                               struct mpl_tensor *mask, struct mpl_dim b, struct mpl_dim s)
{
    struct mpl_tensor *out = bool_of(tape, "bitwise_and.Tensor", b, s, s);

    mpl_drop(tape, result);
    mpl_drop(tape, mask);
    return out;
}

/* causal_mask_function, or with a window and_masks(sliding_window_overlay, causal_mask_function):
 * bool [1, 1, s, s] */
static struct mpl_tensor *triangle(struct mpl_tape *tape, const struct indices *i)
{
    const struct mpl_dim one = mpl_dim(1);
    struct mpl_tensor *result, *edge, *mask;

    if (i->kind->is_bidirectional)
        return bool_of(tape, "ge.Scalar", one, i->s, one);
    if (!i->kind->window)
        return bool_of(tape, "le.Tensor", one, i->s, i->s);
    result = mpl_hold_empty(tape, "new_ones.default", MPL_BOOL, scalar);
    edge = mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, mpl_shape4(one, one, i->s, one));
    mask = bool_of(tape, "gt.Tensor", one, i->s, i->s);
    mpl_drop(tape, edge);
    result = both(tape, result, mask, one, i->s);
    mask = bool_of(tape, "le.Tensor", one, i->s, i->s);
    return both(tape, result, mask, one, i->s);
}

/* The bool mask [1, 1, s, s], and with padding [b, 1, s, s]. */
static struct mpl_tensor *bool_mask(struct mpl_tape *tape, const struct indices *i, bool is_padded)
{
    const struct mpl_dim one = mpl_dim(1);
    struct mpl_tensor *rows = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(i->b));
    struct mpl_tensor *heads = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(one));
    struct mpl_tensor *q = positions(tape, i->s), *k = positions(tape, i->s), *mask;

    if (is_padded) {
        struct mpl_tensor *ones = mpl_hold_empty(tape, "new_ones.default", MPL_BOOL, scalar);

        if (i->kind->is_bidirectional) {
            struct mpl_tensor *each = triangle(tape, i);

            mask = bool_of(tape, "bitwise_and.Tensor", one, i->s, one);
            mpl_drop(tape, ones);
            mpl_drop(tape, each);
        } else {
            mask = both(tape, ones, triangle(tape, i), one, i->s);
        }
        mask = both(tape, mask, bool_of(tape, "index.Tensor", i->b, one, i->s), i->b, i->s);
    } else {
        mask = triangle(tape, i);
    }
    mpl_drop(tape, rows);
    mpl_drop(tape, heads);
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    return mask;
}

/* Reads whether every token counts: sums that come back to the host. */
static void look_for_padding(struct mpl_tape *tape, int times)
{
    for (int i = 0; i < times; i++) {
        struct mpl_tensor *sum = mpl_hold_empty(tape, "sum.default", MPL_INT64, scalar);
        struct mpl_tensor *same = mpl_hold_empty(tape, "eq.Scalar", MPL_BOOL, scalar);

        mpl_drop(tape, sum);
        mpl_drop(tape, same);
    }
}

/* flex_attention_mask: a block mask, which keeps the padding mask that its function reads */
static struct mpl_mask flex_mask(struct mpl_tape *tape, const struct mpl_tensor *embeds,
                                 struct mpl_tensor *padding)
{
    const struct mpl_dim s = embeds->shape.dim[1];
    const struct mpl_dim blocks = {(s.n + MPL_BLOCK_TOKENS - 1) / MPL_BLOCK_TOKENS, s.degree};
    struct mpl_block_mask mask;

    if (padding)
        look_for_padding(tape, 1);
    mpl_block_mask_make(tape, embeds->shape.dim[0], blocks, &mask);
    return (struct mpl_mask){mpl_block_mask_bundle(tape, &mask, padding), false};
}

static struct mpl_mask causal_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                   const struct mpl_tensor *embeds, struct mpl_tensor *padding_mask,
                                   const struct kind *kind)
{
    const int64_t window = kind->window;
    const bool is_eager = plan->training.attention == MPL_ATTENTION_EAGER;
    const enum mpl_dtype dtype = (enum mpl_dtype)embeds->dtype;
    const struct mpl_dim b = embeds->shape.dim[0], s = embeds->shape.dim[1];
    const struct indices indices = {b, s, kind};
    const struct mpl_shape whole = mpl_shape4(b, mpl_dim(1), s, s);
    const bool is_skipped = !kind->is_never_skipped && (!window || s.n < window);
    struct mpl_tensor *padding = NULL, *allowed, *zero, *low, *numbers;

    if (embeds->is_void) /* eager and flex attention take a mask, whatever it is */
        return (struct mpl_mask){is_eager || plan->training.attention == MPL_ATTENTION_FLEX
                                     ? mpl_hold(tape->void_tensor)
                                     : NULL,
                                 true};
    if (padding_mask)
        padding = mpl_hold_empty(tape, "_to_copy.default", MPL_BOOL, padding_mask->shape);
    if (mpl_is_flash(plan->training.attention)) { /* flash_attention_mask */
        if (padding)
            mpl_drop(tape, mpl_hold_empty(tape, "all.default", MPL_BOOL,
                                          scalar)); /* is any token masked? */
        return (struct mpl_mask){padding, !kind->is_bidirectional};
    }
    if (plan->training.attention == MPL_ATTENTION_FLEX)
        return flex_mask(tape, embeds, padding);
    if (kind->is_bidirectional ? !padding_mask : !is_eager && !padding_mask && is_skipped)
        return (struct mpl_mask){NULL, !kind->is_bidirectional};
    if (kind->is_bidirectional)
        mpl_drop(tape,
                 mpl_hold_empty(tape, "all.default", MPL_BOOL, scalar)); /* is any token masked? */
    else if (!is_eager && padding_mask && is_skipped)
        look_for_padding(tape, 2);
    allowed = bool_mask(tape, &indices, padding_mask != NULL);
    if (!is_eager) {
        /* one for the whole batch, until a kernel wants it as numbers */
        allowed = mpl_hold(mpl_op_expand(tape, mpl_return(allowed), whole));
        mpl_drop(tape, padding);
        return (struct mpl_mask){allowed, false};
    }
    zero = mpl_hold_empty(tape, "zeros.default", dtype, scalar);
    low = mpl_hold_empty(tape, "scalar_tensor.default", dtype, scalar);
    numbers = mpl_hold_empty(tape, "where.self", dtype, whole);
    mpl_drop(tape, low);
    mpl_drop(tape, zero);
    mpl_drop(tape, allowed);
    mpl_drop(tape, padding);
    return (struct mpl_mask){numbers, false};
}

struct mpl_mask mpl_causal_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                const struct mpl_tensor *embeds, struct mpl_tensor *padding_mask,
                                int64_t window)
{
    const struct kind kind = {.window = window};

    if (!embeds->is_void && !padding_mask && plan->training.packing_check)
        look_for_packing(tape, embeds->shape.dim[0], embeds->shape.dim[1]);
    return causal_mask(tape, plan, embeds, padding_mask, &kind);
}

struct mpl_mask mpl_causal_mask_plain(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      const struct mpl_tensor *embeds,
                                      struct mpl_tensor *padding_mask, int64_t window)
{
    const struct kind kind = {.window = window};

    return causal_mask(tape, plan, embeds, padding_mask, &kind);
}

struct mpl_mask mpl_causal_mask_always(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_tensor *embeds,
                                       struct mpl_tensor *padding_mask)
{
    const struct kind kind = {.is_never_skipped = true};

    if (!embeds->is_void && !padding_mask && plan->training.packing_check)
        look_for_packing(tape, embeds->shape.dim[0], embeds->shape.dim[1]);
    return causal_mask(tape, plan, embeds, padding_mask, &kind);
}

struct mpl_mask mpl_bidirectional_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_tensor *embeds,
                                       struct mpl_tensor *padding_mask)
{
    const struct kind kind = {.is_bidirectional = true};

    return causal_mask(tape, plan, embeds, padding_mask, &kind);
}

/* base ** powers [count]; both names live on. Held. */
static struct mpl_tensor *powers(struct mpl_tape *tape, int64_t count, struct mpl_tensor *names[2])
{
    const struct mpl_shape line = mpl_shape1(mpl_dim(count));

    names[0] = mpl_hold_empty(tape, "full.default", MPL_FLOAT32, scalar);
    names[1] = mpl_hold_empty(tape, "arange.start_step", MPL_INT32, line);
    return mpl_hold_empty(tape, "pow.Tensor_Tensor", MPL_FLOAT32, line);
}

struct mpl_tensor *mpl_alibi_slopes(struct mpl_tape *tape, int64_t heads)
{
    struct mpl_tensor *names[4] = {NULL}, *slopes, *extra;
    int64_t closest = 1;

    while (2 * closest <= heads)
        closest *= 2;
    slopes = powers(tape, closest, names);
    if (closest != heads) {
        extra = powers(tape, heads - closest, names + 2);
        mpl_rebind(tape, &slopes,
                   mpl_return(mpl_hold_empty(tape, "cat.default", MPL_FLOAT32,
                                             mpl_shape1(mpl_dim(heads)))));
        mpl_drop(tape, extra);
    }
    for (int i = 0; i < 4; i++)
        mpl_drop(tape, names[i]);
    return slopes;
}

/* The table's function of the angles, scaled. */
static struct mpl_tensor *scaled(struct mpl_tape *tape, const char *function,
                                 struct mpl_shape shape)
{
    struct mpl_tensor *raw = mpl_hold_empty(tape, function, MPL_FLOAT32, shape);
    struct mpl_tensor *out = mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, shape);

    mpl_drop(tape, raw);
    return out;
}

static struct mpl_tensor *as_table(struct mpl_tape *tape, struct mpl_tensor *table,
                                   enum mpl_dtype dtype)
{
    return mpl_hold(mpl_op_unsqueeze(tape, mpl_op_to(tape, table, dtype), 1));
}

void mpl_rotary_tables(struct mpl_tape *tape, int64_t head_dim, enum mpl_dtype dtype,
                       const struct mpl_tensor *position_ids, struct mpl_tensor **cos_out,
                       struct mpl_tensor **sin_out)
{
    const struct mpl_dim s = position_ids->is_void ? mpl_dim(0) : position_ids->shape.dim[0];
    const struct mpl_dim one = mpl_dim(1), d = mpl_dim(head_dim);
    struct mpl_tensor *rows =
        mpl_hold_empty(tape, "_to_copy.default", MPL_FLOAT32, mpl_shape3(one, s, one));
    struct mpl_tensor *half =
        mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, mpl_shape3(one, s, mpl_dim(head_dim / 2)));
    struct mpl_tensor *angles, *cos, *sin;

    mpl_drop(tape, rows);
    angles = mpl_hold_empty(tape, "cat.default", MPL_FLOAT32, mpl_shape3(one, s, d));
    cos = scaled(tape, "cos.default", mpl_shape3(one, s, d));
    sin = scaled(tape, "sin.default", mpl_shape3(one, s, d));
    *cos_out = as_table(tape, cos, dtype);
    *sin_out = as_table(tape, sin, dtype);
    mpl_drop(tape, half);
    mpl_drop(tape, angles);
    mpl_drop(tape, cos);
    mpl_drop(tape, sin);
}
