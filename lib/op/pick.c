/* SPDX-License-Identifier: MIT */
/*
 * Rows along the first dimension: unbind takes them apart, stack joins them; and numbers put where
 * a mask says.
 *
 * source: tools/autograd/derivatives.yaml (unbind, stack, index_put_),
 * torch/csrc/autograd/FunctionsManual.cpp (unbind_backward, stack_tensors_backward),
 * functions/tensor.cpp (CopySlices); PyTorch 2.13.0
 */
#include <string.h>

#include "op/rule.h"

/* The stacked gradients; zeros for a part without one. */
static void unbind_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    (void)out;
    in[0] =
        mpl_hold(mpl_empty(tape, "stack.default", (enum mpl_dtype)node->edges[0].dtype, &shape));
}

static struct mpl_tensor *first_row(struct mpl_tape *tape, const struct mpl_tensor *a)
{
    struct mpl_tensor *view = mpl_alias(tape, a);

    if (view->is_void)
        return view;
    view->shape.ndim--;
    memmove(view->shape.dim, view->shape.dim + 1, sizeof(view->shape.dim[0]) * view->shape.ndim);
    memmove(view->stride, view->stride + 1, sizeof(view->stride[0]) * view->shape.ndim);
    view->is_view = true;
    return view;
}

void mpl_op_unbind(struct mpl_tape *tape, struct mpl_tensor *a, int count,
                   struct mpl_tensor **parts_out)
{
    struct mpl_node *node = mpl_node_new(tape, "UnbindBackward0", unbind_backward, &a, 1, count, 0);
    struct mpl_tensor *whole = mpl_hold(a);

    for (int i = 0; i < count; i++) {
        parts_out[i] = first_row(tape, whole);
        mpl_set_history(tape, parts_out[i], node, i);
    }
    mpl_drop(tape, whole);
}

/* Each part gets a selected view of the gradient. */
static void stack_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    for (int i = 0; i < node->edge_count; i++)
        if (mpl_needs(node, i))
            in[i] = mpl_hold(first_row(tape, out[0]));
}

struct mpl_tensor *mpl_op_stack(struct mpl_tape *tape, struct mpl_tensor **parts, int count)
{
    struct mpl_node *node =
        mpl_node_new(tape, "StackBackward0", stack_backward, parts, count, 1, 0);
    struct mpl_shape shape = parts[0]->shape;
    struct mpl_tensor *out;

    if (parts[0]->is_void)
        return parts[0];
    memmove(shape.dim + 1, shape.dim, sizeof(shape.dim[0]) * shape.ndim);
    shape.dim[0] = mpl_dim(count);
    shape.ndim++;
    out = mpl_empty(tape, "stack.default", (enum mpl_dtype)parts[0]->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    for (int i = 0; i < count; i++)
        mpl_consume(tape, parts[i]);
    return out;
}

/* CopySlices over the view's base: as_strided's zeros, a copy of the gradient laid out like the
 * base, and the view's own gradient with the positions put to zero. */
static void index_put_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);
    const struct mpl_shape flat = mpl_shape1(mpl_dim(mpl_numel(out[0])));
    const enum mpl_dtype dtype = (enum mpl_dtype)out[0]->dtype;
    struct mpl_tensor *zeros = mpl_hold(mpl_empty(tape, "new_zeros.default", dtype, &flat));
    struct mpl_tensor *copy, *put;

    (void)mpl_saved(tape, node, 0);
    in[0] = mpl_hold(mpl_empty(tape, "new_empty_strided.default", dtype, &shape));
    copy = mpl_hold(mpl_empty(tape, "clone.default", dtype, &out[0]->shape));
    put = mpl_hold(mpl_empty(tape, "index_put.default", dtype, &out[0]->shape));
    mpl_drop(tape, copy);
    mpl_drop(tape, put);
    mpl_drop(tape, zeros);
}

struct mpl_tensor *mpl_op_index_put_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                             struct mpl_tensor *mask)
{
    struct mpl_node *node = mpl_node_new(tape, "CopySlices", index_put_backward, &a, 1, 1, 1);
    struct mpl_tensor *out = mpl_alias(tape, a);

    mpl_save(tape, node, mask);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_consume(tape, mask);
    return out;
}
