/* SPDX-License-Identifier: MIT */
/*
 * attn_implementation="flash_attention_2" and "flash_attention_3": what transformers does around
 * the packages flash-attn and flash-attn-3.
 *
 * source: transformers/integrations/flash_attention.py (flash_attention_forward),
 * modeling_flash_attention_utils.py (_flash_attention_forward, _upad_input, _is_packed_sequence);
 * release 5.24.0
 */
#include "op/op.h"
#include "part/attention.h"

static const struct mpl_shape scalar = {0};

/* Looks for packed sequences in the positions of one sequence of s tokens, which encoders do not
 * hand over; finds none. */
static void look_for_packing(struct mpl_tape *tape, struct mpl_dim s)
{
    const struct mpl_shape line = mpl_shape2(mpl_dim(1), s);
    struct mpl_tensor *range = mpl_hold_empty(tape, "arange.default", MPL_INT64, mpl_shape1(s));
    struct mpl_tensor *least = mpl_hold_empty(tape, "min.default", MPL_INT64, scalar);
    struct mpl_tensor *expected = mpl_hold_empty(tape, "add.Tensor", MPL_INT64, mpl_shape1(s));
    struct mpl_tensor *off, *distance, *sum, *found;

    mpl_drop(tape, range);
    mpl_drop(tape, least);
    off = mpl_hold_empty(tape, "sub.Tensor", MPL_INT64, line);
    distance = mpl_hold_empty(tape, "abs.default", MPL_INT64, line);
    mpl_drop(tape, off);
    sum = mpl_hold_empty(tape, "sum.default", MPL_INT64, scalar);
    mpl_drop(tape, distance);
    found = mpl_hold_empty(tape, "_to_copy.default", MPL_BOOL, scalar);
    mpl_drop(tape, sum);
    mpl_drop(tape, expected);
    mpl_drop(tape, found);
}

/* _get_unpad_data: indices of the tokens that count, int64, and the running sums of their number
 * by sequence, int32 [b + 1]; both held. How many count is in the data: all b * s are taken, which
 * is the most. */
static struct mpl_tensor *find_tokens(struct mpl_tape *tape, struct mpl_dim b, struct mpl_dim s,
                                      struct mpl_tensor **lengths_out)
{
    struct mpl_tensor *counts = mpl_hold_empty(tape, "sum.dim_IntList", MPL_INT32, mpl_shape1(b)),
                      *sums;
    struct mpl_tensor *indices =
        mpl_hold_empty(tape, "nonzero.default", MPL_INT64, mpl_shape1(mpl_dim_mul(b, s)));

    mpl_drop(tape, mpl_hold_empty(tape, "max.default", MPL_INT32, scalar));
    sums = mpl_hold_empty(tape, "cumsum.default", MPL_INT32, mpl_shape1(b));
    *lengths_out =
        mpl_hold_empty(tape, "constant_pad_nd.default", MPL_INT32, mpl_shape1(mpl_dim(b.n + 1)));
    mpl_drop(tape, sums);
    mpl_drop(tape, counts);
    return indices;
}

/* _index_first_axis: the rows [n, heads, d] of x [b, s, heads, d]; held */
static struct mpl_tensor *gather(struct mpl_tape *tape, struct mpl_tensor *x,
                                 struct mpl_tensor *indices)
{
    const struct mpl_dim *dim = x->shape.dim;
    const struct mpl_shape rows = mpl_shape3(mpl_dim_mul(dim[0], dim[1]), dim[2], dim[3]);

    return mpl_hold(mpl_op_index(tape, mpl_op_reshape(tape, x, rows), indices));
}

static struct mpl_tensor *run(struct mpl_tape *tape, const struct mpl_plan *plan,
                              struct mpl_tensor *const states[3],
                              const struct mpl_flash_attn_options *options)
{
    return (plan->training.attention == MPL_ATTENTION_FLASH_3
                ? mpl_op_flash_attn_3
                : mpl_op_flash_attn)(tape, states[0], states[1], states[2], options);
}

/* Tokens without padding, as one row of joined sequences; floating [b, s, heads, d] */
static struct mpl_tensor *attend_joined(struct mpl_tape *tape, const struct mpl_plan *plan,
                                        struct mpl_tensor *const states[3],
                                        struct mpl_flash_attn_options options)
{
    const struct mpl_shape shape = states[0]->shape;
    struct mpl_tensor *indices = find_tokens(tape, shape.dim[0], shape.dim[1], &options.lengths);
    struct mpl_tensor *k = gather(tape, states[1], indices), *v = gather(tape, states[2], indices);
    struct mpl_tensor *q = gather(tape, states[0], indices), *joined, *out;

    options.longest = shape.dim[1].n;
    joined = mpl_hold(run(tape, plan, (struct mpl_tensor *[]){q, k, v}, &options));
    out = mpl_op_put_rows(tape, joined, indices, mpl_dim_mul(shape.dim[0], shape.dim[1]));
    out = mpl_op_reshape(tape, out, shape);
    mpl_drop(tape, joined);
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    mpl_drop(tape, options.lengths);
    mpl_drop(tape, indices);
    return out;
}

/* Wide states are cast. */
struct mpl_tensor *mpl_flash_attention_rows(struct mpl_tape *tape, const struct mpl_plan *plan,
                                            const struct mpl_attention_call *call,
                                            struct mpl_tensor *const qkv[3])
{
    const struct mpl_flash_attn_options options = {
        .dropout = call->dropout,
        .is_causal = call->is_causal,
        .is_local = call->window > 0 && qkv[1]->shape.dim[1].n > call->window,
        .is_capped = call->is_capped};
    const enum mpl_dtype target =
        tape->autocast != MPL_DTYPE_NONE ? tape->autocast : plan->training.parameter_dtype;
    const bool is_wide = qkv[0]->dtype == MPL_FLOAT32;
    struct mpl_tensor *states[3], *out;

    for (int i = 0; i < 3; i++)
        states[i] =
            mpl_hold(is_wide ? mpl_op_to(tape, qkv[i], target) : mpl_return(mpl_hold(qkv[i])));
    if (call->mask) {
        out = attend_joined(tape, plan, states, options);
    } else {
        if (call->past)
            mpl_past_look_for_joined(tape, call->past, qkv[0]->shape.dim[1]);
        else if (call->is_causal && qkv[0]->shape.dim[0].n == 1 && qkv[0]->shape.dim[1].n > 1)
            look_for_packing(tape, qkv[0]->shape.dim[1]);
        out = run(tape, plan, states, &options);
    }
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, states[i]);
    return out;
}

struct mpl_tensor *mpl_flash_attention(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_attention_call *call)
{
    struct mpl_tensor *const inputs[3] = {call->q, call->k, call->v};
    struct mpl_dim width, size;
    struct mpl_tensor *qkv[3], *out;

    if (call->q->is_void || call->k->is_void || call->v->is_void ||
        (call->mask && call->mask->is_void))
        return tape->void_tensor;
    width = call->v->shape.dim[3];
    size = call->q->shape.dim[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = mpl_hold(mpl_op_transpose(tape, inputs[i], 1, 2));
    if (width.n != size.n) /* values are padded, and what comes out is cut */
        mpl_rebind(tape, &qkv[2], mpl_op_pad_last(tape, qkv[2], size.n));
    out = mpl_flash_attention_rows(tape, plan, call, qkv);
    if (width.n != size.n)
        out = mpl_op_slice_last(tape, out, width);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, qkv[i]);
    return out;
}
