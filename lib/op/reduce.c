/* SPDX-License-Identifier: MIT */
/* Reductions: mean, sum, logsumexp, softmax. */
#include <string.h>

#include "op/rule.h"
#include "op/scratch_book.h"

/* grad.expand(sizes) / n */
static void mean_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct mpl_shape shape = {.ndim = node->edges[0].ndim};

    memcpy(shape.dim, node->edges[0].dim, sizeof(shape.dim));
    in[0] = mpl_hold(mpl_empty(tape, "div.Scalar", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_mean_last(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "MeanBackward1", mean_backward, &a, 1, 1, 0);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    if (a->is_void)
        return a;
    shape.dim[shape.ndim - 1] = mpl_dim(1);
    out = mpl_empty(tape, "mean.dim", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

/* The gradient repeated along the dimension that was summed; arg: that dimension, and whether the
 * result kept it. */
static void sum_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_shape shape = {.ndim = node->edges[0].ndim};
    int64_t stride[MPL_MAX_DIMS] = {0};

    memcpy(shape.dim, node->edges[0].dim, sizeof(shape.dim));
    for (int i = 0; i < shape.ndim; i++)
        if (node->arg[0] < 0 || i == node->arg[0])
            stride[i] = 0;
        else
            stride[i] = out[0]->stride[i > node->arg[0] && !node->arg[1] ? i - 1 : i];
    in[0] = mpl_rule_strided(tape, out[0], &shape, stride);
}

/* The format of a sum where the call names none: integers are summed in int64. */
static enum mpl_dtype sum_dtype(const struct mpl_tape *tape, const struct mpl_tensor *a)
{
    if (!mpl_dtype_is_floating((enum mpl_dtype)a->dtype))
        return MPL_INT64;
    return tape->autocast != MPL_DTYPE_NONE && mpl_dtype_size(a->dtype) < 4
               ? MPL_FLOAT32
               : (enum mpl_dtype)a->dtype;
}

/* dim: the dimension that goes, or stays as 1; -1: all. */
static struct mpl_tensor *sum(struct mpl_tape *tape, struct mpl_tensor *a, int dim, bool keeps,
                              enum mpl_dtype dtype)
{
    struct mpl_node *node = mpl_node_new(tape, "SumBackward1", sum_backward, &a, 1, 1, 0);
    struct mpl_shape shape = {0};
    struct mpl_tensor *out;

    if (a->is_void)
        return a;
    if (node) {
        node->arg[0] = dim;
        node->arg[1] = keeps;
    }
    if (dim >= 0) {
        shape = a->shape;
        shape.dim[dim] = mpl_dim(1);
        for (int i = dim; !keeps && i + 1 < shape.ndim; i++)
            shape.dim[i] = shape.dim[i + 1];
        shape.ndim = (uint8_t)(shape.ndim - !keeps);
    }
    out = mpl_empty(tape, dim < 0 ? "sum.default" : "sum.dim_IntList", dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

struct mpl_tensor *mpl_op_sum_dim(struct mpl_tape *tape, struct mpl_tensor *a, int dim, bool keeps)
{
    return sum(tape, a, dim, keeps, sum_dtype(tape, a));
}

struct mpl_tensor *mpl_op_sum_last(struct mpl_tape *tape, struct mpl_tensor *a, bool keeps,
                                   enum mpl_dtype dtype)
{
    return sum(tape, a, a->is_void ? 0 : a->shape.ndim - 1, keeps, dtype);
}

struct mpl_tensor *mpl_op_sum_all(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return sum(tape, a, -1, false, sum_dtype(tape, a));
}

struct mpl_tensor *mpl_op_mean_all(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "MeanBackward0", mean_backward, &a, 1, 1, 0);
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *out = mpl_empty(tape, "mean.default", (enum mpl_dtype)a->dtype, &scalar);

    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

/* grad * (self - result).exp() */
static void logsumexp_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct mpl_tensor *self = mpl_saved(tape, node, 0);
    struct mpl_tensor *difference = mpl_rule_like(tape, "sub.Tensor", self, NULL);
    struct mpl_tensor *power = mpl_rule_like(tape, "exp.default", difference, NULL);

    (void)out;
    in[0] = mpl_rule_like(tape, "mul.Tensor", power, NULL);
    mpl_drop(tape, power);
    mpl_drop(tape, difference);
}

/* Kernels of their own: the rows' maxima, their finiteness, then exp(self - maxima), in whose place
 * nothing stays but its sums. source: aten/src/ATen/native/ReduceOps.cpp (logsumexp_out_impl); seen
 * with PyTorch 2.14.1 */
static struct mpl_tensor *sum_of_powers(struct mpl_tape *tape, const struct mpl_tensor *a,
                                        const struct mpl_shape *shape)
{
    static const char *const op = "logsumexp.default";
    const enum mpl_dtype dtype = (enum mpl_dtype)a->dtype;
    const struct mpl_dim last = a->shape.dim[a->shape.ndim - 1];
    const uint64_t numel = (uint64_t)mpl_numel(a), rows = numel / (uint64_t)last.n;
    uint8_t degree = 0;
    struct mpl_tensor *maxima, *sizes, *are_infinite, *powers, *out;

    if (!tape->has_kernel_scratch)
        return mpl_empty(tape, op, dtype, shape);
    for (int i = 0; i + 1 < a->shape.ndim; i++)
        degree = (uint8_t)(degree + a->shape.dim[i].degree);
    maxima = mpl_book_buffer(tape, op, mpl_dtype_bytes(dtype, rows), degree);
    sizes = mpl_book_buffer(tape, op, mpl_dtype_bytes(dtype, rows), degree);
    are_infinite = mpl_book_buffer(tape, op, rows, degree);
    mpl_drop(tape, are_infinite);
    mpl_drop(tape, sizes);
    powers =
        mpl_book_buffer(tape, op, mpl_dtype_bytes(dtype, numel), (uint8_t)(degree + last.degree));
    out = mpl_empty(tape, op, dtype, shape);
    mpl_drop(tape, powers);
    mpl_drop(tape, maxima);
    return out;
}

static struct mpl_tensor *logsumexp(struct mpl_tape *tape, struct mpl_tensor *a, bool keeps)
{
    struct mpl_node *node =
        mpl_node_new(tape, "LogsumexpBackward0", logsumexp_backward, &a, 1, 1, 2);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    if (a->is_void)
        return a;
    if (keeps)
        shape.dim[shape.ndim - 1] = mpl_dim(1);
    else
        shape.ndim--;
    out = sum_of_powers(tape, a, &shape);
    mpl_save(tape, node, a);
    mpl_save_output(tape, node, out);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

struct mpl_tensor *mpl_op_logsumexp(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return logsumexp(tape, a, false);
}

struct mpl_tensor *mpl_op_logsumexp_keep(struct mpl_tape *tape, struct mpl_tensor *a)
{
    return logsumexp(tape, a, true);
}

static void softmax_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    struct mpl_tensor *result = mpl_saved(tape, node, 0);

    in[0] = mpl_hold(mpl_empty_like(tape, "_softmax_backward_data.default",
                                    (enum mpl_dtype)node->edges[0].dtype, out[0], NULL));
    mpl_book_softmax_backward(tape, result);
}

void mpl_book_softmax_backward(struct mpl_tape *tape, const struct mpl_tensor *result)
{
    if (!tape->has_kernel_scratch || result->is_void)
        return;
    mpl_drop(tape, mpl_book_buffer(tape, "_softmax_backward_data.default",
                                   mpl_scratch_softmax_backward(mpl_numel(result),
                                                                (enum mpl_dtype)result->dtype),
                                   MPL_QUADRATIC));
}

/* ---- sums of the engine -----------------------------------------------------------------------
 */

/* How many leading dimensions are summed to one, or 0 when the sum is of another kind. */
static int leading_sums(const struct mpl_tensor *grad, const struct mpl_shape *kept)
{
    int leading = 0;

    while (leading < kept->ndim && kept->dim[leading].n == 1)
        leading++;
    for (int i = leading; i < kept->ndim; i++)
        if (kept->dim[i].n != grad->shape.dim[i].n)
            return 0;
    return leading;
}

struct mpl_tensor *mpl_sum_to(struct mpl_tape *tape, struct mpl_tensor *grad,
                              const struct mpl_shape *kept)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)grad->dtype;
    struct mpl_tensor *sum = mpl_hold(mpl_empty(tape, "sum.dim_IntList", dtype, kept));
    const struct mpl_book book = {.op = "sum.dim_IntList"};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const int leading = grad->is_void ? 0 : leading_sums(grad, kept);
    struct mpl_scratch list;
    int64_t columns = 1;

    if (!tape->has_kernel_scratch || !leading)
        return sum;
    for (int i = leading; i < kept->ndim; i++)
        columns *= kept->dim[i].n;
    mpl_scratch_reduce_rows(&card, dtype, dtype, mpl_numel(grad) / columns, columns, &list);
    mpl_book_run(tape, &list, &book);
    return sum;
}

struct mpl_tensor *mpl_op_norm_last(struct mpl_tape *tape, struct mpl_tensor *a)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)a->dtype;
    const struct mpl_book book = {.op = "linalg_vector_norm.default"};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    struct mpl_scratch list;
    struct mpl_shape shape;
    struct mpl_tensor *norm;

    if (a->is_void)
        return a;
    shape = mpl_shape1(a->shape.dim[0]);
    norm = mpl_empty(tape, book.op, dtype, &shape);
    if (tape->has_kernel_scratch && a->is_contiguous) {
        mpl_scratch_reduce_columns(&card, dtype, dtype, a->shape.dim[0].n, a->shape.dim[1].n,
                                   &list);
        mpl_book_run(tape, &list, &book);
    }
    mpl_consume(tape, a);
    return norm;
}

/* Autocast runs softmax in float32 unless the call names a dtype (autocast_mode.h). From float16 to
 * float32 is one kernel, there and back (SoftMax.cpp, half_to_float). */
struct mpl_tensor *mpl_op_softmax(struct mpl_tape *tape, struct mpl_tensor *a, enum mpl_dtype to)
{
    const enum mpl_dtype own =
        tape->autocast != MPL_DTYPE_NONE ? MPL_FLOAT32 : (enum mpl_dtype)a->dtype;
    const enum mpl_dtype dtype = to == MPL_DTYPE_NONE ? own : to;
    const bool is_fused = a->dtype == MPL_FLOAT16 && dtype == MPL_FLOAT32;
    struct mpl_tensor *wide = is_fused ? a : mpl_op_to(tape, a, dtype), *out;
    struct mpl_node *node =
        mpl_node_new(tape, "SoftmaxBackward0", softmax_backward, &wide, 1, 1, 1);

    out = mpl_empty_like(tape, "_softmax.default", dtype, wide, NULL);
    mpl_save_output(tape, node, out);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, wide);
    return out;
}
