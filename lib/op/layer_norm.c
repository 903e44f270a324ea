/* SPDX-License-Identifier: MIT */
/*
 * Layer normalisation over the last dimension.
 *
 * source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (layer_norm_cuda,
 * layer_norm_backward_cuda), ATen/autocast_mode.h (layer_norm runs in float32); PyTorch 2.13.0
 */
#include "op/rule.h"

/* The kernel reads a dense copy of what is not dense; held, NULL where there is none. */
static struct mpl_tensor *dense_copy(struct mpl_tape *tape, const struct mpl_tensor *x,
                                     const char *op)
{
    if (!tape->has_kernel_scratch || x->is_void || x->is_contiguous)
        return NULL;
    return mpl_hold(mpl_empty(tape, op, (enum mpl_dtype)x->dtype, &x->shape));
}

/* Gradients of input, weight and bias, made in this order; a saved weight and bias come after the
 * input, mean and rstd last. */
static void layer_norm_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct mpl_tensor *x = mpl_saved(tape, node, 0), *dense;

    for (int i = 1; i < node->saved_count; i++)
        (void)mpl_saved(tape, node, i); /* a checkpoint gives up what is asked for */
    dense = dense_copy(tape, x, "native_layer_norm_backward.default");
    for (int i = 0; i < node->edge_count; i++) {
        struct mpl_shape shape = {
            .ndim = 1, .dim = {x->is_void ? mpl_dim(1) : x->shape.dim[x->shape.ndim - 1]}};

        if (!mpl_needs(node, i))
            continue;
        in[i] = i == 0 ? mpl_rule_like(tape, "native_layer_norm_backward.default", x, NULL)
                       : mpl_hold(mpl_empty(tape, "native_layer_norm_backward.default",
                                            (enum mpl_dtype)node->edges[i].dtype, &shape));
    }
    mpl_drop(tape, dense);
    (void)out;
}

static struct mpl_tensor *cast(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return a && tape->autocast != MPL_DTYPE_NONE ? mpl_op_to(tape, a, MPL_FLOAT32) : a;
}

struct mpl_tensor *mpl_op_layer_norm(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *weight, struct mpl_tensor *bias)
{
    struct mpl_tensor *b = cast(tape, bias), *w = cast(tape, weight);
    struct mpl_tensor *x = cast(tape, a), *out, *mean, *rstd, *dense;
    struct mpl_node *node = mpl_node_new(tape, "NativeLayerNormBackward0", layer_norm_backward,
                                         (struct mpl_tensor *[]){x, w, b}, 3, 1, 5);
    struct mpl_shape rows = x->shape;

    if (x->is_void)
        return tape->void_tensor;
    rows.dim[rows.ndim - 1] = mpl_dim(1);
    dense = dense_copy(tape, x, "native_layer_norm.default");
    out = mpl_empty(tape, "native_layer_norm.default", (enum mpl_dtype)x->dtype, &x->shape);
    mean = mpl_empty(tape, "native_layer_norm.default", MPL_FLOAT32, &rows);
    rstd = mpl_empty(tape, "native_layer_norm.default", MPL_FLOAT32, &rows);
    mpl_drop(tape, dense);
    mpl_save(tape, node, x);
    if (w)
        mpl_save(tape, node, w);
    if (b)
        mpl_save(tape, node, b);
    mpl_save_output(tape, node, mean);
    mpl_save_output(tape, node, rstd);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, mean);
    mpl_consume(tape, rstd);
    mpl_consume(tape, x);
    mpl_consume(tape, w);
    mpl_consume(tape, b);
    return out;
}
