/* SPDX-License-Identifier: MIT */
/*
 * Parts of a decoder layer that families share, operator by operator.
 *
 * source: transformers/models/llama/modeling_llama.py, release 5.24.0
 */
#include "part/decoder.h"

#include "op/op.h"

struct mpl_tensor *mpl_rms_norm(struct mpl_tape *tape, struct mpl_tensor *norm_weight,
                                struct mpl_tensor *x)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *h = mpl_hold(mpl_op_to(tape, x, MPL_FLOAT32)), *out;
    struct mpl_tensor *variance = mpl_hold(mpl_op_mean_last(tape, mpl_op_square(tape, h)));

    mpl_rebind(tape, &h,
               mpl_op_mul(tape, h, mpl_op_rsqrt(tape, mpl_op_add_scalar(tape, variance))));
    out = mpl_op_mul(tape, norm_weight, mpl_op_to(tape, h, dtype));
    mpl_drop(tape, h);
    mpl_drop(tape, variance);
    return out;
}

/* cat((-x2, x1)) of the halves of the head */
static struct mpl_tensor *rotate_half(struct mpl_tape *tape, struct mpl_tensor *x)
{
    const struct mpl_dim half = mpl_dim(x->shape.ndim ? x->shape.dim[3].n / 2 : 0);
    struct mpl_tensor *x1 = mpl_hold(mpl_op_slice_last(tape, x, half));
    struct mpl_tensor *x2 = mpl_hold(mpl_op_slice_last(tape, x, half));
    struct mpl_tensor *out = mpl_op_cat(tape, mpl_op_neg(tape, x2), x1, 3);

    mpl_drop(tape, x1);
    mpl_drop(tape, x2);
    return out;
}

struct mpl_tensor *mpl_rotate(struct mpl_tape *tape, struct mpl_tensor *x, struct mpl_tensor *cos,
                              struct mpl_tensor *sin)
{
    struct mpl_tensor *straight = mpl_op_mul(tape, x, cos);

    return mpl_op_add(tape, straight, mpl_op_mul(tape, rotate_half(tape, x), sin));
}

struct mpl_tensor *mpl_split_heads(struct mpl_tape *tape, struct mpl_tensor *x, int64_t heads,
                                   int64_t head_dim)
{
    if (x->is_void)
        return x;
    x = mpl_op_reshape(
        tape, x, mpl_shape4(x->shape.dim[0], x->shape.dim[1], mpl_dim(heads), mpl_dim(head_dim)));
    return mpl_op_transpose(tape, x, 1, 2);
}
