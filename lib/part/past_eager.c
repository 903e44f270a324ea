/* SPDX-License-Identifier: MIT */
/*
 * Eager attention of GPT-2 and GPT-NeoX in transformers 4.40 to 4.47.
 *
 * source: transformers/models/gpt2/modeling_gpt2.py (GPT2Attention._attn),
 * gpt_neox/modeling_gpt_neox.py (GPTNeoXAttention._attn, eager_attention_forward); releases 4.40.2
 * to 4.47.1
 */
#include "op/op.h"
#include "part/attention.h"

static const struct mpl_shape scalar = {0};

/* A number as a tensor; held */
static struct mpl_tensor *number(struct mpl_tape *tape, const struct mpl_tensor *like)
{
    return mpl_hold(mpl_empty(tape, "full.default", (enum mpl_dtype)like->dtype, &scalar));
}

/* matmul(q, k) / full([], sqrt(d)); held */
static struct mpl_tensor *divided(struct mpl_tape *tape, const struct mpl_attention_call *call)
{
    struct mpl_tensor *product =
        mpl_hold(mpl_op_matmul(tape, call->q, mpl_op_transpose(tape, call->k, 2, 3)));

    if (!product->is_void)
        mpl_rebind(tape, &product,
                   mpl_op_div_constant(tape, product, mpl_return(number(tape, product))));
    return product;
}

/* [b, heads, s, d] as [b * heads, s, d]; floating */
static struct mpl_tensor *flat(struct mpl_tape *tape, struct mpl_tensor *x)
{
    const struct mpl_shape *s = &x->shape;

    return mpl_op_reshape(tape, x,
                          mpl_shape3(mpl_dim_mul(s->dim[0], s->dim[1]), s->dim[2], s->dim[3]));
}

/* baddbmm(zeros, q, k), whose arguments have names; held */
static struct mpl_tensor *added(struct mpl_tape *tape, const struct mpl_attention_call *call)
{
    const struct mpl_shape *s = &call->q->shape;
    struct mpl_tensor *q, *k, *scores;
    struct mpl_shape shape;

    if (call->q->is_void || call->k->is_void)
        return mpl_hold(tape->void_tensor);
    shape = mpl_shape4(s->dim[0], s->dim[1], s->dim[2], s->dim[2]);
    q = mpl_hold(flat(tape, call->q));
    k = mpl_hold(flat(tape, call->k));
    scores = mpl_hold(
        mpl_empty(tape, "zeros.default", (enum mpl_dtype)q->dtype,
                  &(struct mpl_shape){
                      3, {mpl_dim_mul(shape.dim[0], shape.dim[1]), shape.dim[2], shape.dim[3]}}));
    mpl_rebind(tape, &scores, mpl_op_baddbmm(tape, scores, q, mpl_op_transpose(tape, k, 1, 2)));
    mpl_rebind(tape, &scores, mpl_op_reshape(tape, scores, shape));
    mpl_drop(tape, q);
    mpl_drop(tape, k);
    return scores;
}

struct mpl_tensor *mpl_past_eager_gpt(struct mpl_tape *tape, const struct mpl_attention_call *call,
                                      struct mpl_tensor **weights_out)
{
    const struct mpl_past *facts = call->past->facts;
    const bool is_neox = facts->eager == MPL_PAST_EAGER_NEOX;
    struct mpl_tensor *scores = is_neox ? added(tape, call) : divided(tape, call);
    struct mpl_tensor *lowest = NULL, *weights, *out;

    if (!scores->is_void && !mpl_past_has(call->past, facts->attention_function)) {
        lowest = number(tape, scores);
        mpl_rebind(tape, &scores, mpl_op_where(tape, scores));
    }
    if (call->mask)
        mpl_rebind(tape, &scores, mpl_op_add(tape, scores, call->mask));
    weights = mpl_hold(mpl_op_softmax(tape, scores, MPL_DTYPE_NONE));
    if (!is_neox) { /* one name for both */
        mpl_drop(tape, scores);
        scores = NULL;
    }
    mpl_rebind(tape, &weights, mpl_op_to(tape, weights, (enum mpl_dtype)call->v->dtype));
    mpl_rebind(tape, &weights, mpl_op_dropout(tape, weights, call->dropout));
    out = mpl_hold(mpl_op_matmul(tape, weights, call->v));
    mpl_drop(tape, scores);
    mpl_drop(tape, lowest);
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    *weights_out = weights;
    return mpl_return(out);
}
