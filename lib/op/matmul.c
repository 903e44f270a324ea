/* SPDX-License-Identifier: MIT */
/* Matrix products: linear (mm, addmm) and batched (bmm), with the workspace of cuBLAS. */
#include <string.h>

#include "op/rule.h"

void mpl_cublas_workspace(struct mpl_tape *tape)
{
    struct mpl_shape shape = mpl_shape1(mpl_dim((int64_t)tape->workspace_bytes));
    enum mpl_category category = tape->category;

    if (!tape->workspace_bytes || tape->is_stopped || tape->has_workspace[tape->is_in_backward])
        return;
    tape->has_workspace[tape->is_in_backward] = true;
    tape->category = MPL_CATEGORY_WORKSPACE;
    mpl_hold(mpl_empty(tape, "cublas_workspace", MPL_UINT8, &shape)); /* kept for good */
    tape->category = category;
}

/* ---- linear ---------------------------------------------------------------------------------- */

enum layout { LINEAR, CONV1D, FUNCTION };

/* mm: the weight's gradient, then the input's (mat2 before self). addmm: input, weight, bias
 * (mat1, mat2, self); the bias's is the incoming one, which the engine sums. A weight that lies as
 * [in, out] (conv1d) gets its gradient as it is, the other one as a view; a Python function gives
 * that of the input first, and no view, and saves both whatever is asked of it. */
static void product_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in, enum layout layout)
{
    const bool has_bias = node->edge_count == 3, is_conv1d = layout == CONV1D;
    const bool is_function = layout == FUNCTION, is_input_first = has_bias || is_function;
    struct mpl_tensor *a = NULL, *weight = NULL, *grad;
    struct mpl_shape flat = mpl_shape2(mpl_rule_rows(out[0]), mpl_rule_last(out[0])), in_shape;
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    int slot = 0;

    in_shape.ndim = 0;
    if (mpl_needs(node, 1))
        a = mpl_saved(tape, node, slot++);
    if (mpl_needs(node, 0))
        weight = mpl_saved(tape, node, is_function ? 1 : slot);
    grad = mpl_rule_reshape(tape, out[0], &flat); /* the view that mm's result got */
    for (int pass = 0; pass < 2; pass++) {
        const bool is_weight_turn = (pass == 0) != is_input_first;

        if (is_weight_turn && a && !a->is_void) {
            struct mpl_shape shape = is_conv1d ? mpl_shape2(mpl_rule_last(a), mpl_rule_last(grad))
                                               : mpl_shape2(mpl_rule_last(grad), mpl_rule_last(a));

            in[1] = mpl_hold(mpl_empty(tape, "mm.default", dtype, &shape));
            in[1]->is_view |= layout == LINEAR;
            mpl_cublas_workspace(tape);
        } else if (!is_weight_turn && weight && !weight->is_void) {
            struct mpl_shape shape =
                mpl_shape2(flat.dim[0], is_conv1d ? weight->shape.dim[0] : mpl_rule_last(weight));

            in[0] = mpl_hold(mpl_empty(tape, "mm.default", dtype, &shape));
            mpl_cublas_workspace(tape);
        }
    }
    if (in[0] && !in[0]->is_void) {
        in_shape.ndim = node->edges[0].ndim;
        memcpy(in_shape.dim, node->edges[0].dim, sizeof(in_shape.dim));
        if (in_shape.ndim != 2) {
            struct mpl_tensor *view = mpl_rule_view(tape, in[0], &in_shape);

            mpl_drop(tape, in[0]);
            in[0] = view;
            view->is_view &= layout != FUNCTION; /* matmul's own view has no base */
        }
    }
    if (has_bias && mpl_needs(node, 2))
        in[2] = mpl_hold(grad);
    mpl_drop(tape, grad);
}

static void linear_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    product_backward(tape, node, out, in, LINEAR);
}

static void function_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                              struct mpl_tensor **in)
{
    product_backward(tape, node, out, in, FUNCTION);
}

static void conv1d_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    product_backward(tape, node, out, in, CONV1D);
}

/* x [.., k] times w, plus bias or NULL, all in one dtype; columns is the width of the result. */
static struct mpl_tensor *product(struct mpl_tape *tape, struct mpl_tensor *x, struct mpl_tensor *w,
                                  struct mpl_tensor *bias, mpl_backward_rule *backward,
                                  struct mpl_dim columns)
{
    struct mpl_tensor *out;
    struct mpl_node *node = mpl_node_new(tape, bias ? "AddmmBackward0" : "MmBackward0", backward,
                                         (struct mpl_tensor *[]){x, w, bias}, bias ? 3 : 2, 1, 2);
    struct mpl_shape flat, shape = x->shape;

    if (!x->is_void && !w->is_void) {
        if (mpl_needs(node, 1) || backward == function_backward)
            mpl_save(tape, node, x);
        if (mpl_needs(node, 0) || backward == function_backward)
            mpl_save(tape, node, w);
        flat = mpl_shape2(mpl_rule_rows(x), columns);
        out =
            mpl_empty(tape, bias ? "addmm.default" : "mm.default", (enum mpl_dtype)x->dtype, &flat);
        mpl_cublas_workspace(tape);
        mpl_cublas_workspace(tape);
        if (!out->is_void && shape.ndim != 2) {
            struct mpl_tensor *view;

            shape.dim[shape.ndim - 1] = columns;
            view = mpl_return(mpl_rule_view(tape, out, &shape));
            mpl_consume(tape, out);
            out = view;
        }
    } else {
        out = tape->void_tensor;
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, x);
    mpl_consume(tape, w);
    mpl_consume(tape, bias);
    return out;
}

/* Rows that do not lie evenly are copied first: matmul folds them with reshape. */
static bool has_even_rows(const struct mpl_tensor *t)
{
    for (int i = 0; i + 2 < t->shape.ndim; i++)
        if (t->shape.dim[i].n != 1 && t->stride[i] != t->stride[i + 1] * t->shape.dim[i + 1].n)
            return false;
    return true;
}

struct mpl_tensor *mpl_op_linear(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_tensor *weight, struct mpl_tensor *bias)
{
    struct mpl_tensor *cast_bias = bias ? mpl_autocast(tape, bias) : NULL;
    struct mpl_tensor *w = mpl_autocast(tape, weight), *x = mpl_autocast(tape, a);

    if (!bias && !x->is_void && !has_even_rows(x))
        x = mpl_op_contiguous(tape, x);

    return product(tape, x, w, cast_bias, linear_backward,
                   w->is_void ? mpl_dim(1) : w->shape.dim[0]);
}

struct mpl_tensor *mpl_op_linear_function(struct mpl_tape *tape, struct mpl_tensor *a,
                                          struct mpl_tensor *weight, struct mpl_tensor *bias)
{
    struct mpl_tensor *cast_bias = bias ? mpl_autocast(tape, bias) : NULL;
    struct mpl_tensor *w = mpl_autocast(tape, weight), *x = mpl_autocast(tape, a);

    if (!x->is_void && !has_even_rows(x))
        x = mpl_op_contiguous(tape, x);
    return product(tape, x, w, cast_bias, function_backward,
                   w->is_void ? mpl_dim(1) : w->shape.dim[0]);
}

struct mpl_tensor *mpl_op_conv1d(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_tensor *weight, struct mpl_tensor *bias)
{
    struct mpl_tensor *w = mpl_autocast(tape, weight), *x = mpl_autocast(tape, a);
    struct mpl_tensor *cast_bias = mpl_autocast(tape, bias);

    return product(tape, x, w, cast_bias, conv1d_backward,
                   w->is_void ? mpl_dim(1) : w->shape.dim[1]);
}

struct mpl_tensor *mpl_op_mm(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_tensor *w = mpl_autocast(tape, b), *x = mpl_autocast(tape, a);

    return product(tape, x, w, NULL, conv1d_backward, w->is_void ? mpl_dim(1) : w->shape.dim[1]);
}

/* ---- batched ----------------------------------------------------------------------------------
 */

/* mat2's gradient first, then self's. */
static void bmm_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_tensor *self = NULL, *mat2 = NULL;
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    int slot = 0;

    if (mpl_needs(node, 1))
        self = mpl_saved(tape, node, slot++);
    if (mpl_needs(node, 0))
        mat2 = mpl_saved(tape, node, slot);
    if (self && !self->is_void) {
        struct mpl_shape shape =
            mpl_shape3(self->shape.dim[0], self->shape.dim[2], out[0]->shape.dim[2]);

        in[1] = mpl_hold(mpl_empty(tape, "bmm.default", dtype, &shape));
        mpl_cublas_workspace(tape);
    }
    if (mat2 && !mat2->is_void) {
        struct mpl_shape shape =
            mpl_shape3(mat2->shape.dim[0], out[0]->shape.dim[1], mat2->shape.dim[1]);

        in[0] = mpl_hold(mpl_empty(tape, "bmm.default", dtype, &shape));
        mpl_cublas_workspace(tape);
    }
}

static struct mpl_tensor *bmm(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node =
        mpl_node_new(tape, "BmmBackward0", bmm_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 2);
    struct mpl_shape shape;
    struct mpl_tensor *out = tape->void_tensor;

    if (!a->is_void && !b->is_void) {
        if (mpl_needs(node, 1))
            mpl_save(tape, node, a);
        if (mpl_needs(node, 0))
            mpl_save(tape, node, b);
        shape = mpl_shape3(a->shape.dim[0], a->shape.dim[1], b->shape.dim[2]);
        out = mpl_empty(tape, "bmm.default", (enum mpl_dtype)a->dtype, &shape);
        mpl_cublas_workspace(tape);
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_consume(tape, b);
    return out;
}

/* a with its heads broadcast to those of other. */
static struct mpl_tensor *broadcast(struct mpl_tape *tape, struct mpl_tensor *a,
                                    const struct mpl_tensor *other)
{
    struct mpl_shape shape = a->shape;

    if (shape.dim[1].n == other->shape.dim[1].n || shape.dim[1].n != 1)
        return a;
    shape.dim[1] = other->shape.dim[1];
    return mpl_op_expand(tape, a, shape);
}

struct mpl_tensor *mpl_op_matmul(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_tensor *right = mpl_autocast(tape, b), *left = mpl_autocast(tape, a), *x, *y;
    struct mpl_shape shape;

    if (left->is_void || right->is_void) {
        mpl_consume(tape, left);
        mpl_consume(tape, right);
        return tape->void_tensor;
    }
    right = broadcast(tape, right, left);
    shape =
        mpl_shape4(left->shape.dim[0], left->shape.dim[1], left->shape.dim[2], right->shape.dim[3]);
    x = mpl_op_reshape(tape, left,
                       mpl_shape3(mpl_dim_mul(left->shape.dim[0], left->shape.dim[1]),
                                  left->shape.dim[2], left->shape.dim[3]));
    y = mpl_op_reshape(tape, right,
                       mpl_shape3(mpl_dim_mul(right->shape.dim[0], right->shape.dim[1]),
                                  right->shape.dim[2], right->shape.dim[3]));
    return mpl_op_reshape(tape, bmm(tape, x, y), shape);
}

/* Products as bmm's, each times alpha. */
static struct mpl_tensor *scaled_product(struct mpl_tape *tape, enum mpl_dtype dtype,
                                         struct mpl_dim n, struct mpl_dim rows,
                                         struct mpl_dim columns)
{
    const struct mpl_shape shape = mpl_shape3(n, rows, columns);
    struct mpl_tensor *raw = mpl_hold(mpl_empty(tape, "bmm.default", dtype, &shape)), *scaled;

    mpl_cublas_workspace(tape);
    scaled = mpl_rule_like(tape, "mul.Tensor", raw, NULL);
    mpl_drop(tape, raw);
    return scaled;
}

static void baddbmm_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    const struct mpl_shape *grad = &out[0]->shape;
    struct mpl_tensor *batch1 = NULL, *batch2 = NULL;
    int slot = 0;

    if (mpl_needs(node, 1))
        batch1 = mpl_saved(tape, node, slot++);
    if (mpl_needs(node, 0))
        batch2 = mpl_saved(tape, node, slot);
    if (batch2 && !batch2->is_void)
        in[0] = scaled_product(tape, dtype, grad->dim[0], grad->dim[1], batch2->shape.dim[1]);
    if (batch1 && !batch1->is_void)
        in[1] = scaled_product(tape, dtype, grad->dim[0], batch1->shape.dim[2], grad->dim[2]);
}

struct mpl_tensor *mpl_op_baddbmm(struct mpl_tape *tape, struct mpl_tensor *bias,
                                  struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_tensor *y = mpl_autocast(tape, b), *x = mpl_autocast(tape, a);
    struct mpl_tensor *self = mpl_autocast(tape, bias), *out = tape->void_tensor;
    struct mpl_node *node = mpl_node_new(tape, "BaddbmmBackward0", baddbmm_backward,
                                         (struct mpl_tensor *[]){x, y}, 2, 1, 2);

    if (!x->is_void && !y->is_void) {
        const struct mpl_shape shape =
            mpl_shape3(x->shape.dim[0], x->shape.dim[1], y->shape.dim[2]);

        if (mpl_needs(node, 1))
            mpl_save(tape, node, x);
        if (mpl_needs(node, 0))
            mpl_save(tape, node, y);
        out = mpl_empty(tape, "baddbmm.default", (enum mpl_dtype)x->dtype, &shape);
        mpl_cublas_workspace(tape);
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, self);
    mpl_consume(tape, x);
    mpl_consume(tape, y);
    return out;
}

struct mpl_tensor *mpl_op_bmm(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_tensor *right = mpl_autocast(tape, b), *left = mpl_autocast(tape, a);

    return bmm(tape, left, right);
}
