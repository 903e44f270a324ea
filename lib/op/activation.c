/* SPDX-License-Identifier: MIT */
/*
 * Activations and dropout.
 *
 * source: tools/autograd/derivatives.yaml, aten/src/ATen/native/cuda/Dropout.cu; PyTorch 2.13.0.
 * transformers/activations.py, release 5.24.0
 */
#include "op/rule.h"

/* Which of its two sides an activation keeps for backward. */
enum kept { KEEPS_INPUT, KEEPS_OUTPUT };

static struct mpl_tensor *activation(struct mpl_tape *tape, const char *op, struct mpl_tensor *a,
                                     struct mpl_node *node, enum kept kept)
{
    struct mpl_tensor *out;

    if (kept == KEEPS_INPUT)
        mpl_save(tape, node, a);
    out = mpl_empty_like(tape, op, (enum mpl_dtype)a->dtype, a, NULL);
    if (kept == KEEPS_OUTPUT)
        mpl_save_output(tape, node, out);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

static void slope_backward(struct mpl_tape *tape, const char *op, struct mpl_node *node,
                           struct mpl_tensor **out, struct mpl_tensor **in)
{
    in[0] = mpl_rule_like(tape, op, out[0], mpl_saved(tape, node, 0));
}

static void gelu_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    slope_backward(tape, "gelu_backward.default", node, out, in);
}

struct mpl_tensor *mpl_op_gelu(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return activation(tape, "gelu.default", a,
                      mpl_node_new(tape, "GeluBackward0", gelu_backward, &a, 1, 1, 1), KEEPS_INPUT);
}

static void tanh_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    slope_backward(tape, "tanh_backward.default", node, out, in);
}

struct mpl_tensor *mpl_op_tanh(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return activation(tape, "tanh.default", a,
                      mpl_node_new(tape, "TanhBackward0", tanh_backward, &a, 1, 1, 1),
                      KEEPS_OUTPUT);
}

static void sigmoid_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    slope_backward(tape, "sigmoid_backward.default", node, out, in);
}

struct mpl_tensor *mpl_op_sigmoid(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return activation(tape, "sigmoid.default", a,
                      mpl_node_new(tape, "SigmoidBackward0", sigmoid_backward, &a, 1, 1, 1),
                      KEEPS_OUTPUT);
}

static void relu_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    slope_backward(tape, "threshold_backward.default", node, out, in);
}

struct mpl_tensor *mpl_op_relu(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return activation(tape, "relu.default", a,
                      mpl_node_new(tape, "ReluBackward0", relu_backward, &a, 1, 1, 1),
                      KEEPS_OUTPUT);
}

/* 0.5 * x * (1 + tanh(c * (x + 0.044715 * x^3))) */
struct mpl_tensor *mpl_op_gelu_new(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_tensor *x = mpl_hold(a);
    struct mpl_tensor *half = mpl_op_mul_number(tape, x);
    struct mpl_tensor *cube = mpl_op_mul_number(tape, mpl_op_square(tape, x));
    struct mpl_tensor *inner = mpl_op_mul_number(tape, mpl_op_add(tape, x, cube));
    struct mpl_tensor *out =
        mpl_op_mul(tape, half, mpl_op_add_scalar(tape, mpl_op_tanh(tape, inner)));

    mpl_drop(tape, x);
    return out;
}

/* 0.5 * x * (1 + tanh(x * c * (1 + 0.044715 * x * x))) */
struct mpl_tensor *mpl_op_gelu_fast(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_tensor *x = mpl_hold(a);
    struct mpl_tensor *half = mpl_op_mul_number(tape, x);
    struct mpl_tensor *scaled = mpl_op_mul_number(tape, x);
    struct mpl_tensor *cubic =
        mpl_op_add_scalar(tape, mpl_op_mul(tape, mpl_op_mul_number(tape, x), x));
    struct mpl_tensor *inner = mpl_op_mul(tape, scaled, cubic);
    struct mpl_tensor *out =
        mpl_op_mul(tape, half, mpl_op_add_scalar(tape, mpl_op_tanh(tape, inner)));

    mpl_drop(tape, x);
    return out;
}

/* x * sigmoid(1.702 * x) */
struct mpl_tensor *mpl_op_quick_gelu(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_tensor *x = mpl_hold(a);
    struct mpl_tensor *out = mpl_op_mul(tape, x, mpl_op_sigmoid(tape, mpl_op_mul_number(tape, x)));

    mpl_drop(tape, x);
    return out;
}

/* where((self >= min).logical_and_(self <= max), grad, 0) */
static void clamp_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *self = mpl_saved(tape, node, 0);
    struct mpl_tensor *zero = mpl_hold(mpl_empty(tape, "scalar_tensor.default", dtype, &scalar));
    struct mpl_tensor *low = mpl_hold(mpl_empty_like(tape, "ge.Scalar", MPL_BOOL, self, NULL));
    struct mpl_tensor *high = mpl_hold(mpl_empty_like(tape, "le.Scalar", MPL_BOOL, self, NULL));

    in[0] = mpl_hold(mpl_empty_like(tape, "where.self", dtype, low, out[0]));
    mpl_drop(tape, high);
    mpl_drop(tape, low);
    mpl_drop(tape, zero);
}

struct mpl_tensor *mpl_op_clamp_in_place(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "ClampBackward1", clamp_backward, &a, 1, 1, 1);
    struct mpl_tensor *out, *before;

    if (node) {
        before = mpl_hold(mpl_empty_like(tape, "clone.default", (enum mpl_dtype)a->dtype, a, NULL));
        mpl_save(tape, node, before);
        mpl_drop(tape, before);
    }
    out = mpl_alias(tape, a);
    if (!out->is_void)
        out->is_view = a->is_view;
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

static void dropout_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    (void)mpl_saved(tape, node, 0);
    in[0] = mpl_rule_like(tape, "native_dropout_backward.default", out[0], NULL);
}

/* The result and a bool mask of the same shape, kept for backward. */
struct mpl_tensor *mpl_op_dropout(struct mpl_tape *tape, struct mpl_tensor *a, double p)
{
    struct mpl_node *node;
    struct mpl_tensor *out, *mask;

    if (a->is_void || !(p > 0))
        return a->is_floating ? a : mpl_return(mpl_hold(a));
    node = mpl_node_new(tape, "NativeDropoutBackward0", dropout_backward, &a, 1, 1, 1);
    mask = mpl_empty_like(tape, "native_dropout.default", MPL_BOOL, a, NULL);
    out = mpl_empty_like(tape, "native_dropout.default", (enum mpl_dtype)a->dtype, a, NULL);
    mpl_save_output(tape, node, mask);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, mask);
    mpl_consume(tape, a);
    return out;
}
