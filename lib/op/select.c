/* SPDX-License-Identifier: MIT */
/*
 * Operators that choose elements: top-k, maximum, gather, rows by index, repeated rows.
 *
 * source: tools/autograd/derivatives.yaml (topk, max.dim, gather, index.Tensor, index_add),
 * torch/csrc/autograd/FunctionsManual.cpp (value_selecting_reduction_backward),
 * aten/src/ATen/native/Repeat.cpp, native/cuda/Nonzero.cu,
 * native/cuda/TensorTopK.cu; PyTorch 2.13.0
 */
#include <string.h>

#include "op/rule.h"
#include "op/scratch_book.h"

/* Zeros of the input's shape and dtype, into which the gradient is written. */
static void fill_backward(struct mpl_tape *tape, const char *op, struct mpl_node *node,
                          struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    for (int i = 0; i < node->saved_count; i++)
        (void)mpl_saved(tape, node, i);
    in[0] = mpl_hold(mpl_empty(tape, op, (enum mpl_dtype)node->edges[0].dtype, &shape));
}

static void choice_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    (void)out;
    fill_backward(tape, "zeros.default", node, in);
}

static void index_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    (void)out;
    fill_backward(tape, "new_zeros.default", node, in);
}

/* What topk and max keep: the indices; values carry the gradient. */
static void choose(struct mpl_tape *tape, const char *op, const char *name, struct mpl_tensor *a,
                   int64_t count, struct mpl_tensor *parts_out[2])
{
    struct mpl_node *node = mpl_node_new(tape, name, choice_backward, &a, 1, 1, 1);
    struct mpl_shape shape = a->shape;

    if (a->is_void) {
        parts_out[0] = parts_out[1] = a;
        return;
    }
    shape.dim[shape.ndim - 1] = mpl_dim(count);
    parts_out[0] = mpl_empty(tape, op, (enum mpl_dtype)a->dtype, &shape);
    parts_out[1] = mpl_empty(tape, op, MPL_INT64, &shape);
    mpl_save(tape, node, parts_out[1]);
    mpl_set_history(tape, parts_out[0], node, 0);
    mpl_consume(tape, a);
}

/* What the kernel takes for itself once its results are there. */
static void book_topk(struct mpl_tape *tape, const struct mpl_tensor *a, int64_t count)
{
    const struct mpl_scratch_card card = mpl_book_card(tape);
    const struct mpl_book book = {.op = "topk.default", .degree = MPL_LINEAR};
    const int64_t columns = mpl_rule_last(a).n;
    struct mpl_scratch list;

    mpl_scratch_topk(&card, columns ? mpl_numel(a) / columns : 0, columns, count,
                     (enum mpl_dtype)a->dtype, &list);
    mpl_book_run(tape, &list, &book);
}

void mpl_op_topk(struct mpl_tape *tape, struct mpl_tensor *a, int64_t count,
                 struct mpl_tensor *parts_out[2])
{
    struct mpl_tensor *argument = mpl_hold(a);

    choose(tape, "topk.default", "TopkBackward0", argument, count, parts_out);
    if (tape->has_kernel_scratch && !argument->is_void)
        book_topk(tape, argument, count);
    mpl_drop(tape, argument);
}

struct mpl_tensor *mpl_op_max_last(struct mpl_tape *tape, struct mpl_tensor *a)
{
    struct mpl_tensor *parts[2];

    choose(tape, "max.dim", "MaxBackward0", a, 1, parts);
    mpl_consume(tape, parts[1]);
    return parts[0];
}

struct mpl_tensor *mpl_op_gather_last(struct mpl_tape *tape, struct mpl_tensor *a,
                                      struct mpl_tensor *index)
{
    struct mpl_node *node = mpl_node_new(tape, "GatherBackward0", index_backward, &a, 1, 1, 2);
    struct mpl_tensor *out = tape->void_tensor;

    if (!a->is_void && !index->is_void) {
        mpl_save(tape, node, index);
        mpl_save(tape, node, a); /* gather_backward asks for its sizes */
        out = mpl_empty(tape, "gather.default", (enum mpl_dtype)a->dtype, &index->shape);
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_consume(tape, index);
    return out;
}

struct mpl_tensor *mpl_op_index_keys(struct mpl_tape *tape, struct mpl_tensor *a,
                                     struct mpl_tensor *const *keys, int count,
                                     const struct mpl_shape *shape)
{
    struct mpl_node *node = mpl_node_new(tape, "IndexBackward0", index_backward, &a, 1, 1, 2);
    struct mpl_tensor *out;

    if (a->is_void)
        return a;
    for (int i = 0; i < count; i++)
        mpl_save(tape, node, keys[i]);
    out = mpl_empty(tape, "index.Tensor", (enum mpl_dtype)a->dtype, shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    for (int i = 0; i < count; i++)
        mpl_consume(tape, keys[i]);
    return out;
}

struct mpl_tensor *mpl_op_index(struct mpl_tape *tape, struct mpl_tensor *a,
                                struct mpl_tensor *index)
{
    struct mpl_shape shape = a->shape;

    if (a->is_void || index->is_void)
        return tape->void_tensor;
    shape.dim[0] = index->shape.dim[0];
    return mpl_op_index_keys(tape, a, &index, 1, &shape);
}

/* A number on the card while the kernels count: cub's own scratch, a few kilobytes, is not in. */
struct mpl_tensor *mpl_op_nonzero(struct mpl_tape *tape, const struct mpl_tensor *a,
                                  struct mpl_dim count)
{
    const struct mpl_shape number = mpl_shape1(mpl_dim(1));
    struct mpl_tensor *flat = NULL, *counted = NULL, *out;
    struct mpl_shape shape;

    if (a->is_void)
        return tape->void_tensor;
    shape = mpl_shape2(count, mpl_dim(a->shape.ndim));
    if (!a->is_contiguous)
        flat = mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)a->dtype, &a->shape));
    if (tape->has_kernel_scratch)
        counted = mpl_hold(mpl_empty(tape, "nonzero.default", MPL_INT32, &number));
    out = mpl_empty(tape, "nonzero.default", MPL_INT64, &shape);
    mpl_drop(tape, counted);
    mpl_drop(tape, flat);
    return out;
}

/* saved: index, source */
static void index_add_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 1);

    for (int i = 0; i < node->saved_count; i++)
        (void)mpl_saved(tape, node, i);
    if (mpl_needs(node, 0))
        in[0] = mpl_hold(out[0]);
    if (mpl_needs(node, 1))
        in[1] = mpl_hold(
            mpl_empty(tape, "index_select.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_index_add_in_place(struct mpl_tape *tape, struct mpl_tensor *a,
                                             struct mpl_tensor *index, struct mpl_tensor *source)
{
    struct mpl_node *node = mpl_node_new(tape, "IndexAddBackward0", index_add_backward,
                                         (struct mpl_tensor *[]){a, source}, 2, 1, 2);

    if (a->is_void || index->is_void || source->is_void)
        return tape->void_tensor;
    if (mpl_needs(node, 1)) {
        mpl_save(tape, node, index);
        mpl_save(tape, node, source);
    }
    return mpl_rule_finish(tape, mpl_alias(tape, a), node, a, source);
}

struct mpl_tensor *mpl_op_repeat_rows(struct mpl_tape *tape, struct mpl_tensor *a, int64_t count)
{
    struct mpl_shape wide, flat = a->shape;

    if (a->is_void)
        return a;
    wide = mpl_shape3(flat.dim[0], mpl_dim(count), flat.dim[1]);
    flat.dim[0].n *= count;
    a = mpl_op_expand(tape, mpl_op_unsqueeze(tape, a, 1), wide);
    return mpl_op_reshape(tape, mpl_op_clone(tape, a), flat);
}

void mpl_op_sort(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *parts_out[2])
{
    for (int i = 0; i < 2; i++)
        parts_out[i] =
            mpl_empty(tape, "sort.default", i ? MPL_INT64 : (enum mpl_dtype)a->dtype, &a->shape);
    mpl_consume(tape, a);
}
