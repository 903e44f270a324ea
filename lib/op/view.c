/* SPDX-License-Identifier: MIT */
/* Views and copies: reshape, transpose, slices, cat. */
#include <string.h>

#include "op/rule.h"

/* ---- strides --------------------------------------------------------------------------------- */

/* Strides of a view of a with another shape; false when only a copy will do.
 * source: aten/src/ATen/TensorUtils.cpp, computeStride */
static bool view_strides(const struct mpl_tensor *a, const struct mpl_shape *shape, int64_t *stride)
{
    int at = shape->ndim - 1;
    int64_t chunk_numel = 1, view_numel = 1;
    int64_t base = a->shape.ndim ? a->stride[a->shape.ndim - 1] : 1;

    for (int i = a->shape.ndim - 1; i >= 0; i--) {
        chunk_numel *= a->shape.dim[i].n;
        if (i && (a->shape.dim[i - 1].n == 1 || a->stride[i - 1] == chunk_numel * base))
            continue;
        while (at >= 0 && (view_numel < chunk_numel || shape->dim[at].n == 1)) {
            stride[at] = view_numel * base;
            view_numel *= shape->dim[at].n;
            at--;
        }
        if (view_numel != chunk_numel)
            return false;
        if (i) {
            base = a->stride[i - 1];
            chunk_numel = view_numel = 1;
        }
    }
    return at < 0;
}

static bool has_contiguous_strides(const struct mpl_tensor *t)
{
    int64_t step = 1;

    for (int i = t->shape.ndim - 1; i >= 0; i--) {
        if (t->shape.dim[i].n == 1)
            continue;
        if (t->stride[i] != step)
            return false;
        step *= t->shape.dim[i].n;
    }
    return true;
}

static void set_layout(struct mpl_tensor *t, const struct mpl_shape *shape, const int64_t *stride)
{
    if (t->is_void)
        return;
    t->shape = *shape;
    memcpy(t->stride, stride, sizeof(t->stride));
    t->is_contiguous = has_contiguous_strides(t);
    t->is_view = true;
}

struct mpl_tensor *mpl_rule_view(struct mpl_tape *tape, const struct mpl_tensor *a,
                                 const struct mpl_shape *shape)
{
    struct mpl_tensor *view = mpl_hold(mpl_alias(tape, a));
    int64_t stride[MPL_MAX_DIMS] = {0}, step = 1;

    for (int i = shape->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape->dim[i].n;
    }
    set_layout(view, shape, stride);
    return view;
}

struct mpl_tensor *mpl_rule_strided(struct mpl_tape *tape, const struct mpl_tensor *a,
                                    const struct mpl_shape *shape, const int64_t *stride)
{
    struct mpl_tensor *view = mpl_hold(mpl_alias(tape, a));

    set_layout(view, shape, stride);
    return view;
}

struct mpl_tensor *mpl_rule_reshape(struct mpl_tape *tape, struct mpl_tensor *grad,
                                    const struct mpl_shape *shape)
{
    int64_t stride[MPL_MAX_DIMS] = {0};
    struct mpl_tensor *view, *copy;

    if (grad->is_void)
        return grad;
    if (view_strides(grad, shape, stride)) {
        view = mpl_hold(mpl_alias(tape, grad));
        set_layout(view, shape, stride);
        return view;
    }
    copy = mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)grad->dtype, &grad->shape));
    view = mpl_rule_view(tape, copy, shape);
    mpl_drop(tape, copy);
    return view;
}

/* ---- reshape and its kin --------------------------------------------------------------------- */

struct mpl_shape mpl_rule_edge_shape(const struct mpl_node *node, int i)
{
    struct mpl_shape shape = {.ndim = node->edges[i].ndim};

    memcpy(shape.dim, node->edges[i].dim, sizeof(shape.dim));
    return shape;
}

static void view_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    in[0] = mpl_rule_reshape(tape, out[0], &shape);
}

static struct mpl_tensor *make_view(struct mpl_tape *tape, struct mpl_tensor *a,
                                    struct mpl_node *node, const struct mpl_shape *shape,
                                    const int64_t *stride)
{
    struct mpl_tensor *view = mpl_alias(tape, a);

    set_layout(view, shape, stride);
    mpl_set_history(tape, view, node, 0);
    mpl_consume(tape, a);
    return view;
}

static void clone_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    (void)tape;
    (void)node;
    in[0] = mpl_hold(out[0]);
}

struct mpl_tensor *mpl_op_clone(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_node *node = mpl_node_new(tape, "CloneBackward0", clone_backward, &a, 1, 1, 0);
    struct mpl_tensor *copy = mpl_empty(tape, "clone.default", (enum mpl_dtype)a->dtype, &a->shape);

    mpl_set_history(tape, copy, node, 0);
    mpl_consume(tape, a);
    return copy;
}

struct mpl_tensor *mpl_op_contiguous(struct mpl_tape *tape, struct mpl_tensor *a)
{
    if (!a->is_contiguous)
        return mpl_op_clone(tape, a);
    return a->is_floating || a->is_void ? a : mpl_return(mpl_hold(a));
}

struct mpl_tensor *mpl_op_reshape(struct mpl_tape *tape, struct mpl_tensor *a,
                                  struct mpl_shape shape)
{
    int64_t stride[MPL_MAX_DIMS] = {0};
    struct mpl_node *node;

    if (a->is_void)
        return a;
    if (!view_strides(a, &shape, stride)) {
        a = mpl_op_clone(tape, a);
        if (a->is_void || !view_strides(a, &shape, stride))
            return a;
    }
    node = mpl_node_new(tape, "ViewBackward0", view_backward, &a, 1, 1, 0);
    return make_view(tape, a, node, &shape, stride);
}

struct mpl_tensor *mpl_op_unsqueeze(struct mpl_tape *tape, struct mpl_tensor *a, int at)
{
    struct mpl_shape shape = a->shape;

    if (a->is_void)
        return a;
    for (int i = shape.ndim; i > at; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[at] = mpl_dim(1);
    shape.ndim++;
    return mpl_op_reshape(tape, a, shape);
}

static void swap_dims(struct mpl_tensor *t, int i, int j)
{
    struct mpl_dim dim = t->shape.dim[i];
    int64_t stride = t->stride[i];

    t->shape.dim[i] = t->shape.dim[j];
    t->shape.dim[j] = dim;
    t->stride[i] = t->stride[j];
    t->stride[j] = stride;
    t->is_contiguous = has_contiguous_strides(t);
    t->is_view = true;
}

static void transpose_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    in[0] = mpl_hold(mpl_alias(tape, out[0]));
    if (!in[0]->is_void)
        swap_dims(in[0], (int)node->arg[0], (int)node->arg[1]);
}

struct mpl_tensor *mpl_op_transpose(struct mpl_tape *tape, struct mpl_tensor *a, int i, int j)
{
    struct mpl_node *node =
        mpl_node_new(tape, "TransposeBackward0", transpose_backward, &a, 1, 1, 0);
    struct mpl_tensor *view = mpl_alias(tape, a);

    if (node) {
        node->arg[0] = i;
        node->arg[1] = j;
    }
    if (!view->is_void)
        swap_dims(view, i, j);
    mpl_set_history(tape, view, node, 0);
    mpl_consume(tape, a);
    return view;
}

/* The gradient goes on as it is; the engine sums it over the dimensions that were repeated. */
static void expand_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    (void)tape;
    (void)node;
    in[0] = mpl_hold(out[0]);
}

struct mpl_tensor *mpl_op_expand(struct mpl_tape *tape, struct mpl_tensor *a,
                                 struct mpl_shape shape)
{
    struct mpl_node *node = mpl_node_new(tape, "ExpandBackward0", expand_backward, &a, 1, 1, 0);
    int64_t stride[MPL_MAX_DIMS] = {0};

    for (int i = 0; i < shape.ndim; i++)
        stride[i] = a->shape.dim[i].n == 1 && shape.dim[i].n != 1 ? 0 : a->stride[i];
    return make_view(tape, a, node, &shape, stride);
}

/* ---- slices and cat -------------------------------------------------------------------------- */

static void slice_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    in[0] =
        mpl_hold(mpl_empty(tape, "slice_backward.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_slice_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_dim len)
{
    return mpl_op_narrow(tape, a, a->shape.ndim - 1, len);
}

static void select_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    in[0] =
        mpl_hold(mpl_empty(tape, "select_backward.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_select(struct mpl_tape *tape, struct mpl_tensor *a, int dim)
{
    struct mpl_node *node = mpl_node_new(tape, "SelectBackward0", select_backward, &a, 1, 1, 0);
    struct mpl_shape shape = a->shape;
    int64_t stride[MPL_MAX_DIMS] = {0};

    if (a->is_void)
        return a;
    shape.ndim--;
    for (int i = 0; i < shape.ndim; i++) {
        shape.dim[i] = a->shape.dim[i < dim ? i : i + 1];
        stride[i] = a->stride[i < dim ? i : i + 1];
    }
    return make_view(tape, a, node, &shape, stride);
}

struct mpl_tensor *mpl_op_narrow(struct mpl_tape *tape, struct mpl_tensor *a, int dim,
                                 struct mpl_dim len)
{
    struct mpl_node *node = mpl_node_new(tape, "SliceBackward0", slice_backward, &a, 1, 1, 0);
    struct mpl_shape shape = a->shape;

    if (a->is_void)
        return a;
    shape.dim[dim] = len;
    return make_view(tape, a, node, &shape, a->stride);
}

struct mpl_tensor *mpl_op_stride_last(struct mpl_tape *tape, struct mpl_tensor *a, int step)
{
    struct mpl_node *node = mpl_node_new(tape, "SliceBackward0", slice_backward, &a, 1, 1, 0);
    struct mpl_shape shape = a->shape;
    int64_t stride[MPL_MAX_DIMS];

    if (a->is_void)
        return a;
    memcpy(stride, a->stride, sizeof(stride));
    shape.dim[shape.ndim - 1].n = (shape.dim[shape.ndim - 1].n + step - 1) / step;
    stride[shape.ndim - 1] *= step;
    return make_view(tape, a, node, &shape, stride);
}

static void index_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    (void)mpl_saved(tape, node, 0);
    in[0] = mpl_hold(mpl_empty(tape, "new_zeros.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_index_one(struct mpl_tape *tape, struct mpl_tensor *a, int dim)
{
    struct mpl_node *node = mpl_node_new(tape, "IndexBackward0", index_backward, &a, 1, 1, 1);
    const struct mpl_shape one = mpl_shape1(mpl_dim(1));
    struct mpl_tensor *index, *out;
    struct mpl_shape shape = a->shape;

    if (a->is_void)
        return a;
    shape.dim[dim] = mpl_dim(1);
    index = mpl_empty(tape, "_to_copy.default", MPL_INT64, &one);
    mpl_save(tape, node, index);
    out = mpl_empty(tape, "index.Tensor", (enum mpl_dtype)a->dtype, &shape);
    mpl_consume(tape, index);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    return out;
}

/* Each input gets every second element of the gradient. */
static void interleave_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    for (int i = 0; i < 2; i++) {
        const struct mpl_shape shape = mpl_rule_edge_shape(node, i);
        int64_t stride[MPL_MAX_DIMS];

        if (!mpl_needs(node, i))
            continue;
        memcpy(stride, out[0]->stride, sizeof(stride));
        stride[shape.ndim - 1] *= 2;
        in[i] = mpl_hold(mpl_alias(tape, out[0]));
        set_layout(in[i], &shape, stride);
    }
}

struct mpl_tensor *mpl_op_interleave(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "StackBackward0", interleave_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    if (!a->is_void)
        shape.dim[shape.ndim - 1].n *= 2;
    out = mpl_empty(tape, "stack.default", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_consume(tape, b);
    return out;
}

/* One tensor of all gradients; a part without one counts as zeros, made for the time of the copy.
 */
static void split_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);
    const enum mpl_dtype dtype = (enum mpl_dtype)node->edges[0].dtype;
    struct mpl_tensor *zeros[MPL_MAX_PARTS] = {NULL};

    for (int i = 0; i < node->grad_count; i++) {
        struct mpl_shape part = shape;

        part.dim[part.ndim - 1].n = node->arg[i];
        if (!out[i])
            zeros[i] = mpl_hold(mpl_empty(tape, "zeros.default", dtype, &part));
    }
    in[0] = mpl_hold(mpl_empty(tape, "cat.default", dtype, &shape));
    for (int i = 0; i < node->grad_count; i++)
        mpl_drop(tape, zeros[i]);
}

void mpl_op_split_last(struct mpl_tape *tape, struct mpl_tensor *a, int count,
                       const int64_t *widths, struct mpl_tensor **parts_out)
{
    struct mpl_node *node = mpl_node_new(tape, "SplitBackward0", split_backward, &a, 1, count, 0);
    struct mpl_tensor *whole = mpl_hold(a);

    for (int i = 0; i < count; i++) {
        struct mpl_shape shape = whole->shape;

        parts_out[i] = mpl_alias(tape, whole);
        if (!parts_out[i]->is_void) {
            shape.dim[shape.ndim - 1].n = widths ? widths[i] : shape.dim[shape.ndim - 1].n / count;
            set_layout(parts_out[i], &shape, whole->stride);
            if (node)
                node->arg[i] = shape.dim[shape.ndim - 1].n;
        }
        mpl_set_history(tape, parts_out[i], node, i);
    }
    mpl_drop(tape, whole);
}

/* The same for equal parts along any dimension. */
static void chunk_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);
    const enum mpl_dtype dtype = (enum mpl_dtype)node->edges[0].dtype;
    struct mpl_tensor *zeros[MPL_MAX_CHUNKS] = {NULL};
    struct mpl_shape part = shape;

    part.dim[node->arg[0]].n /= node->grad_count;
    for (int i = 0; i < node->grad_count; i++)
        if (!out[i])
            zeros[i] = mpl_hold(mpl_empty(tape, "zeros.default", dtype, &part));
    in[0] = mpl_hold(mpl_empty(tape, "cat.default", dtype, &shape));
    for (int i = 0; i < node->grad_count; i++)
        mpl_drop(tape, zeros[i]);
}

void mpl_op_chunk(struct mpl_tape *tape, struct mpl_tensor *a, int dim, int count,
                  struct mpl_tensor **parts_out)
{
    struct mpl_node *node = mpl_node_new(tape, "SplitBackward0", chunk_backward, &a, 1, count, 0);
    struct mpl_tensor *whole = mpl_hold(a);
    struct mpl_shape shape = whole->shape;

    shape.dim[dim].n /= count;
    if (node)
        node->arg[0] = dim;
    for (int i = 0; i < count; i++) {
        parts_out[i] = mpl_alias(tape, whole);
        set_layout(parts_out[i], &shape, whole->stride);
        mpl_set_history(tape, parts_out[i], node, i);
    }
    mpl_drop(tape, whole);
}

/* Each input gets a narrowed view of the gradient. */
static void cat_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    for (int i = 0; i < 2; i++) {
        struct mpl_shape shape = mpl_rule_edge_shape(node, i);

        if (!mpl_needs(node, i))
            continue;
        in[i] = mpl_hold(mpl_alias(tape, out[0]));
        set_layout(in[i], &shape, out[0]->stride);
    }
}

struct mpl_tensor *mpl_op_cat(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b,
                              int dim)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CatBackward0", cat_backward, (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    shape.dim[dim].n += b->shape.dim[dim].n;
    if (b->shape.dim[dim].degree > shape.dim[dim].degree)
        shape.dim[dim].degree = b->shape.dim[dim].degree;
    out = mpl_empty(tape, "cat.default", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    if (b != a)
        mpl_consume(tape, b);
    return out;
}

/* One tensor of all gradients, as cat makes it. */
static void split_heads_backward(struct mpl_tape *tape, struct mpl_node *node,
                                 struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    (void)out;
    in[0] = mpl_hold(mpl_empty(tape, "cat.default", (enum mpl_dtype)node->edges[0].dtype, &shape));
}

void mpl_op_split_heads(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor **parts_out)
{
    const int heads = a->is_void ? 0 : (int)a->shape.dim[1].n;
    struct mpl_node *node =
        mpl_node_new(tape, "SplitBackward0", split_heads_backward, &a, 1, heads, 0);
    struct mpl_shape shape = a->shape;

    shape.dim[1] = mpl_dim(1);
    for (int i = 0; i < heads; i++) {
        parts_out[i] = mpl_alias(tape, a);
        set_layout(parts_out[i], &shape, a->stride);
        mpl_set_history(tape, parts_out[i], node, i);
    }
    mpl_consume(tape, a);
}

static void cat_heads_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    for (int i = 0; i < node->edge_count; i++) {
        struct mpl_shape shape = mpl_rule_edge_shape(node, i);

        if (!mpl_needs(node, i))
            continue;
        in[i] = mpl_hold(mpl_alias(tape, out[0]));
        set_layout(in[i], &shape, out[0]->stride);
    }
}

struct mpl_tensor *mpl_op_cat_heads(struct mpl_tape *tape, struct mpl_tensor *const *parts,
                                    int count)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CatBackward0", cat_heads_backward, parts, count, 1, 0);
    struct mpl_shape shape = parts[0]->shape;
    struct mpl_tensor *out;

    shape.dim[1].n = count;
    out = mpl_empty(tape, "cat.default", (enum mpl_dtype)parts[0]->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    for (int i = 0; i < count; i++)
        mpl_consume(tape, parts[i]);
    return out;
}

/* unbind: a view of every second element for each */
static void stack_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    for (int i = 0; i < 2; i++) {
        struct mpl_shape shape = mpl_rule_edge_shape(node, i);

        if (!mpl_needs(node, i))
            continue;
        in[i] = mpl_hold(mpl_alias(tape, out[0]));
        set_layout(in[i], &shape, out[0]->stride);
    }
}

struct mpl_tensor *mpl_op_stack_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "StackBackward0", stack_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_shape shape = a->shape;
    struct mpl_tensor *out;

    shape.dim[shape.ndim++] = mpl_dim(2);
    out = mpl_empty(tape, "stack.default", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    if (b != a)
        mpl_consume(tape, b);
    return out;
}
