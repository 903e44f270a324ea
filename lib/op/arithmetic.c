/* SPDX-License-Identifier: MIT */
/*
 * Quotients, bounds, masks, complex products; operators that write over their input.
 *
 * source: tools/autograd/derivatives.yaml (div, clamp, masked_fill, copy),
 * torch/csrc/autograd/FunctionsManual.cpp (div_tensor_other_grad, clamp_backward),
 * functions/tensor.cpp (CopySlices, CopyBackwards), tools/autograd/gen_variable_type.py (what an
 * operator in place keeps of its input); PyTorch 2.13.0
 */
#include <string.h>

#include "op/rule.h"

/* The wider floating format of two. */
static enum mpl_dtype wider(const struct mpl_tensor *a, const struct mpl_tensor *b)
{
    return (enum mpl_dtype)(mpl_dtype_size((enum mpl_dtype)b->dtype) >
                                    mpl_dtype_size((enum mpl_dtype)a->dtype)
                                ? b->dtype
                                : a->dtype);
}

/* ---- quotient ------------------------------------------------------------------------------ */

/* other: -grad * ((self / other) / other); self: grad / other */
static void div_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_tensor *other = mpl_saved(tape, node, 0);

    if (mpl_needs(node, 1)) {
        struct mpl_tensor *self = mpl_saved(tape, node, 1);
        struct mpl_tensor *once = mpl_rule_like(tape, "div.Tensor", self, other);
        struct mpl_tensor *twice = mpl_rule_like(tape, "div.Tensor", once, other);
        struct mpl_tensor *minus = mpl_rule_like(tape, "neg.default", out[0], NULL);

        in[1] = mpl_rule_like(tape, "mul.Tensor", minus, twice);
        mpl_drop(tape, minus);
        mpl_drop(tape, twice);
        mpl_drop(tape, once);
    }
    if (mpl_needs(node, 0))
        in[0] = mpl_rule_like(tape, "div.Tensor", out[0], other);
}

struct mpl_tensor *mpl_op_div(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node =
        mpl_node_new(tape, "DivBackward0", div_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 2);

    mpl_save(tape, node, b);
    if (mpl_needs(node, 1))
        mpl_save(tape, node, a);
    return mpl_rule_finish(tape, mpl_empty_like(tape, "div.Tensor", wider(a, b), a, b), node, a, b);
}

/* The divisor's gradient needs what a was: a copy. */
struct mpl_tensor *mpl_op_div_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                       struct mpl_tensor *b)
{
    struct mpl_node *node =
        mpl_node_new(tape, "DivBackward0", div_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 2);

    mpl_save(tape, node, b);
    if (mpl_needs(node, 1)) {
        struct mpl_tensor *was =
            mpl_empty_like(tape, "clone.default", (enum mpl_dtype)a->dtype, a, NULL);

        mpl_save(tape, node, was);
        mpl_consume(tape, was);
    }
    return mpl_rule_finish(tape, mpl_alias(tape, a), node, a, b);
}

/* ---- complex numbers, counted as pairs of float32 ----------------------------------------------
 */

/* view_as_real wants the gradient contiguous. */
static void real_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    (void)node;
    in[0] = out[0]->is_contiguous
                ? mpl_hold(out[0])
                : mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)out[0]->dtype,
                                     &out[0]->shape));
}

/* grad * other.conj(), of which a copy is made */
static void complex_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    struct mpl_tensor *other = mpl_saved(tape, node, 0);
    struct mpl_tensor *conj = mpl_rule_like(tape, "clone.default", other, NULL);

    in[0] = mpl_rule_like(tape, "mul.Tensor", out[0], NULL);
    mpl_drop(tape, conj);
}

struct mpl_tensor *mpl_op_complex_mul(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "MulBackward0", complex_backward, &a, 1, 1, 1);
    struct mpl_tensor *out, *real;

    mpl_save(tape, node, b);
    out =
        mpl_rule_finish(tape, mpl_empty_like(tape, "mul.Tensor", MPL_FLOAT32, a, NULL), node, a, b);
    if (out->is_void)
        return out;
    node = mpl_node_new(tape, "ViewAsRealBackward0", real_backward, &out, 1, 1, 0);
    real = mpl_alias(tape, out);
    if (!real->is_void)
        real->is_view = true;
    return mpl_rule_finish(tape, real, node, out, NULL);
}

/* ---- masks and bounds ---------------------------------------------------------------------- */

static void masked_fill_backward(struct mpl_tape *tape, struct mpl_node *node,
                                 struct mpl_tensor **out, struct mpl_tensor **in)
{
    (void)mpl_saved(tape, node, 0);
    in[0] = mpl_rule_like(tape, "masked_fill.Scalar", out[0], NULL);
}

struct mpl_tensor *mpl_op_masked_fill(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *mask)
{
    struct mpl_node *node =
        mpl_node_new(tape, "MaskedFillBackward0", masked_fill_backward, &a, 1, 1, 1);

    mpl_save(tape, node, mask);
    return mpl_rule_finish(
        tape, mpl_empty_like(tape, "masked_fill.Scalar", (enum mpl_dtype)a->dtype, a, NULL), node,
        a, mask);
}

struct mpl_tensor *mpl_op_masked_fill_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                               struct mpl_tensor *mask)
{
    struct mpl_node *node =
        mpl_node_new(tape, "MaskedFillBackward0", masked_fill_backward, &a, 1, 1, 1);

    mpl_save(tape, node, mask);
    return mpl_rule_finish(tape, mpl_alias(tape, a), node, a, mask);
}

/* where(condition, grad, 0) */
static void where_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *zero =
        mpl_hold(mpl_empty(tape, "scalar_tensor.default", (enum mpl_dtype)out[0]->dtype, &scalar));

    (void)node;
    in[0] = mpl_rule_like(tape, "where.self", out[0], NULL);
    mpl_drop(tape, zero);
}

struct mpl_tensor *mpl_op_where(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "WhereBackward0", where_backward, &a, 1, 1, 0);

    return mpl_rule_finish(
        tape, mpl_empty_like(tape, "where.self", (enum mpl_dtype)a->dtype, a, NULL), node, a, NULL);
}

/* where(self == other, grad / 2, grad).masked_fill_(self < other, 0), one expression */
static void maximum_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    struct mpl_tensor *self = mpl_saved(tape, node, 0);
    struct mpl_tensor *half = mpl_rule_like(tape, "div.Tensor", out[0], NULL);
    struct mpl_tensor *same = mpl_hold(mpl_empty_like(tape, "eq.Tensor", MPL_BOOL, self, NULL));
    struct mpl_tensor *less;

    (void)mpl_saved(tape, node, 1);
    in[0] = mpl_rule_like(tape, "where.self", out[0], NULL);
    less = mpl_hold(mpl_empty_like(tape, "lt.Tensor", MPL_BOOL, self, NULL));
    mpl_drop(tape, less);
    mpl_drop(tape, same);
    mpl_drop(tape, half);
}

struct mpl_tensor *mpl_op_maximum(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "MaximumBackward0", maximum_backward, &a, 1, 1, 2);

    mpl_save(tape, node, a);
    mpl_save(tape, node, b);
    return mpl_rule_finish(
        tape, mpl_empty_like(tape, "maximum.default", (enum mpl_dtype)a->dtype, a, NULL), node, a,
        b);
}

/* where(mask, grad, 0): the mask is self <= max, or self >= min and that. */
static void clamp_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    struct mpl_tensor *self = mpl_saved(tape, node, 0), *zero, *above = NULL, *below;
    const struct mpl_shape scalar = {0};

    zero =
        mpl_hold(mpl_empty(tape, "scalar_tensor.default", (enum mpl_dtype)out[0]->dtype, &scalar));
    if (node->arg[0])
        above = mpl_hold(mpl_empty_like(tape, "ge.Scalar", MPL_BOOL, self, NULL));
    below = mpl_hold(mpl_empty_like(tape, "le.Scalar", MPL_BOOL, self, NULL));
    in[0] =
        mpl_hold(mpl_empty_like(tape, "where.self", (enum mpl_dtype)out[0]->dtype, below, out[0]));
    mpl_drop(tape, below);
    mpl_drop(tape, above);
    mpl_drop(tape, zero);
}

struct mpl_tensor *mpl_op_clamp(struct mpl_tape *tape, struct mpl_tensor *a, bool has_both)
{
    struct mpl_node *node = mpl_node_new(tape, "ClampBackward1", clamp_backward, &a, 1, 1, 1);

    if (node)
        node->arg[0] = has_both;
    mpl_save(tape, node, a);
    return mpl_rule_finish(tape,
                           mpl_empty_like(tape, "clamp.default", (enum mpl_dtype)a->dtype, a, NULL),
                           node, a, NULL);
}

/* where(self == other, grad / 2, grad), zero where it was the larger one, for each of the two */
static void minimum_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    struct mpl_tensor *self = mpl_saved(tape, node, 0);

    (void)mpl_saved(tape, node, 1);
    for (int i = 0; i < 2; i++) {
        struct mpl_tensor *half, *same;

        if (!mpl_needs(node, i))
            continue;
        half = mpl_rule_like(tape, "div.Tensor", out[0], NULL);
        same = mpl_hold(mpl_empty_like(tape, "eq.Tensor", MPL_BOOL, self, NULL));
        in[i] = mpl_rule_like(tape, "where.self", out[0], NULL);
        mpl_drop(tape, mpl_hold(mpl_empty_like(tape, "gt.Tensor", MPL_BOOL, self, NULL)));
        mpl_drop(tape, same);
        mpl_drop(tape, half);
    }
}

struct mpl_tensor *mpl_op_minimum(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "MinimumBackward0", minimum_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 2);

    mpl_save(tape, node, a);
    mpl_save(tape, node, b);
    return mpl_rule_finish(
        tape, mpl_empty_like(tape, "minimum.default", (enum mpl_dtype)a->dtype, a, b), node, a, b);
}

/* ---- in place ------------------------------------------------------------------------------ */

/* Of CopySlices: strides of the base, and whether the function in it makes zeros for the slice. */
enum { SLICE_MAKES_ZEROS = MPL_MAX_DIMS };

/* CopySlices: a copy of the base's gradient, of which the slice goes to the source; where the base
 * had a history, CopyBackwards makes zeros that are then written over the slice. */
static void slice_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    struct mpl_shape slice = {.ndim = node->edges[1].ndim};
    struct mpl_tensor *base = mpl_hold(
        mpl_empty_strided(tape, "new_empty_strided.default", dtype, &out[0]->shape, node->arg));

    memcpy(slice.dim, node->edges[1].dim, sizeof(slice.dim));
    in[1] = mpl_hold(mpl_empty(tape, "clone.default", dtype, &slice));
    if (mpl_needs(node, 0) && node->arg[SLICE_MAKES_ZEROS])
        mpl_drop(tape, mpl_hold(mpl_empty(tape, "zeros_like.default", dtype, &slice)));
    if (mpl_needs(node, 0))
        in[0] = base;
    else
        mpl_drop(tape, base);
    if (!mpl_needs(node, 1)) {
        mpl_drop(tape, in[1]);
        in[1] = NULL;
    }
}

static struct mpl_tensor *write_slice(struct mpl_tape *tape, struct mpl_tensor *base,
                                      struct mpl_tensor *source, bool makes_zeros)
{
    struct mpl_node *node = mpl_node_new(tape, "CopySlices", slice_backward,
                                         (struct mpl_tensor *[]){base, source}, 2, 1, 0);

    if (node && !base->is_void) {
        memcpy(node->arg, base->stride, sizeof(base->stride));
        node->arg[SLICE_MAKES_ZEROS] = makes_zeros;
    }
    return mpl_rule_finish(tape, mpl_alias(tape, base), node, base, source);
}

struct mpl_tensor *mpl_op_copy_into_slice(struct mpl_tape *tape, struct mpl_tensor *base,
                                          struct mpl_tensor *source)
{
    return write_slice(tape, base, source, true);
}

/* The history of a view that was written through: as_strided of the base. */
static void as_strided_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct mpl_shape shape = {.ndim = node->edges[0].ndim};

    memcpy(shape.dim, node->edges[0].dim, sizeof(shape.dim));
    in[0] = mpl_hold(mpl_empty(tape, "new_zeros.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_add_to_view(struct mpl_tape *tape, struct mpl_tensor *base,
                                      struct mpl_tensor *b)
{
    struct mpl_tensor *written = write_slice(tape, base, b, false), *view;
    struct mpl_node *node =
        mpl_node_new(tape, "AsStridedBackward0", as_strided_backward, &written, 1, 1, 0);

    if (written->is_void)
        return written;
    view = mpl_alias_shaped(tape, written, &b->shape);
    if (!view->is_void)
        view->is_view = true;
    return mpl_rule_finish(tape, view, node, written, NULL);
}
