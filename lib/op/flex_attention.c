/* SPDX-License-Identifier: MIT */
/*
 * torch.compile(flex_attention) with a block mask: what the compiled functions keep and allocate.
 *
 * source: torch/nn/attention/flex_attention.py, torch/_inductor/kernel/flex (flex_attention.py),
 * torch/_functorch/_aot_autograd/runtime_wrappers.py (tangents); release 2.14.1
 */
#include <string.h>

#include "op/rule.h"

enum { FLEX_Q, FLEX_K, FLEX_V, FLEX_MASK, FLEX_OUT, FLEX_LSE, FLEX_SAVES };

/* The list of saved tensors is the compiled function's own: it gives each up at its last use. */
static void give_up(struct mpl_tape *tape, struct mpl_node *node, int slot)
{
    mpl_drop(tape, node->saved[slot].tensor);
    node->saved[slot].tensor = NULL;
}

/* The gradient of the output, laid out as the output is; a copy where it is not. Held. */
static struct mpl_tensor *as_traced(struct mpl_tape *tape, struct mpl_tensor *grad,
                                    const struct mpl_tensor *out)
{
    if (!memcmp(grad->stride, out->stride, sizeof(grad->stride[0]) * out->shape.ndim))
        return mpl_hold(mpl_return(mpl_hold(grad)));
    return mpl_rule_like(tape, "empty_strided.default", out, NULL);
}

/* A gradient in the format that the input had before autocast; takes a held tensor, gives one, or
 * NULL where none is wanted. */
static struct mpl_tensor *as_input(struct mpl_tape *tape, const struct mpl_edge *edge,
                                   struct mpl_tensor *grad)
{
    struct mpl_tensor *wide = NULL;

    if (!edge->node || edge->dtype == grad->dtype) {
        if (edge->node)
            return grad;
    } else {
        wide = mpl_hold(
            mpl_empty_like(tape, "empty_strided_cuda", (enum mpl_dtype)edge->dtype, grad, NULL));
    }
    mpl_drop(tape, grad);
    return wide;
}

/* Gradients of query, value, key, in this order; the log-sum-exp has none: zeros stand for it. */
static void flex_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    static const int order[] = {FLEX_Q, FLEX_V, FLEX_K};
    struct mpl_tensor *saved[FLEX_SAVES], *grads[3], *zeros, *grad, *delta;

    for (int i = 0; i < FLEX_SAVES; i++)
        saved[i] = mpl_saved(tape, node, i);
    if (tape->is_stopped)
        return;
    zeros = node->arg[0] ? NULL : mpl_rule_like(tape, "zeros.default", saved[FLEX_LSE], NULL);
    grad = as_traced(tape, out[0], saved[FLEX_OUT]);
    delta = mpl_rule_like(tape, "empty_strided_cuda", saved[FLEX_LSE], NULL);
    give_up(tape, node, FLEX_OUT);
    mpl_drop(tape, zeros);
    for (int i = 0; i < 3; i++)
        grads[order[i]] = mpl_rule_like(tape, "empty_strided_cuda", saved[order[i]], NULL);
    mpl_drop(tape, delta);
    give_up(tape, node, FLEX_LSE);
    for (int i = FLEX_Q; i <= FLEX_V; i++)
        give_up(tape, node, i);
    mpl_drop(tape, grad);
    for (int i = FLEX_Q; i <= FLEX_V; i++)
        in[i] = as_input(tape, &node->edges[i], grads[i]);
}

/* The compiled function's own cast under autocast, or a itself; held, without history. */
static struct mpl_tensor *narrow(struct mpl_tape *tape, struct mpl_tensor *a)
{
    if (tape->autocast == MPL_DTYPE_NONE || a->dtype != MPL_FLOAT32)
        return mpl_hold(mpl_return(mpl_hold(a)));
    return mpl_hold(mpl_empty_like(tape, "empty_strided_cuda", tape->autocast, a, NULL));
}

/* Laid out as the query, its last dimension that of values. */
static struct mpl_tensor *attended(struct mpl_tape *tape, const struct mpl_tensor *q,
                                   const struct mpl_tensor *v)
{
    struct mpl_shape shape = q->shape;
    int64_t stride[MPL_MAX_DIMS] = {0};

    if (shape.dim[3].n == v->shape.dim[3].n)
        return mpl_empty_like(tape, "flex_attention", (enum mpl_dtype)q->dtype, q, NULL);
    shape.dim[3] = v->shape.dim[3];
    if (q->stride[1] > q->stride[2])
        return mpl_empty(tape, "flex_attention", (enum mpl_dtype)q->dtype, &shape);
    stride[3] = 1;
    stride[1] = shape.dim[3].n;
    stride[2] = stride[1] * shape.dim[1].n;
    stride[0] = stride[2] * shape.dim[2].n;
    return mpl_empty_strided(tape, "flex_attention", (enum mpl_dtype)q->dtype, &shape, stride);
}

struct mpl_tensor *mpl_op_flex_attention(struct mpl_tape *tape, struct mpl_tensor *q,
                                         struct mpl_tensor *k, struct mpl_tensor *v,
                                         struct mpl_tensor *mask, struct mpl_tensor **lse_out)
{
    struct mpl_tensor *const inputs[] = {q, k, v};
    struct mpl_tensor *states[3], *sums, *most, *out;
    struct mpl_shape rows;
    struct mpl_node *node;

    if (lse_out)
        *lse_out = tape->void_tensor;
    if (q->is_void || k->is_void || v->is_void || mask->is_void)
        return tape->void_tensor;
    node = mpl_node_new(tape, "CompiledFunctionBackward", flex_backward, inputs, 3, 2, FLEX_SAVES);
    rows = mpl_shape3(q->shape.dim[0], q->shape.dim[1], q->shape.dim[2]);
    for (int i = 0; i < 3; i++)
        states[i] = narrow(tape, inputs[i]);
    sums = mpl_hold_empty(tape, "flex_attention", MPL_FLOAT32, rows);
    most = mpl_hold_empty(tape, "flex_attention", MPL_FLOAT32, rows); /* the largest scores */
    out = attended(tape, states[FLEX_Q], states[FLEX_V]);
    for (int i = 0; i < 3; i++)
        mpl_save(tape, node, states[i]);
    mpl_save(tape, node, mask);
    mpl_save_output(tape, node, out);
    mpl_save_output(tape, node, sums);
    mpl_set_history(tape, out, node, 0);
    if (lse_out) {
        *lse_out = mpl_return(most);
        mpl_set_history(tape, *lse_out, node, 1);
    } else {
        mpl_drop(tape, most);
    }
    if (node)
        node->arg[0] = !lse_out;
    mpl_drop(tape, sums);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, states[i]);
    return out;
}
