/* SPDX-License-Identifier: MIT */
/* What operator files share when they write rules. */
#ifndef MPL_OP_RULE_H
#define MPL_OP_RULE_H

#include "op/op.h"

/** A held result of a pointwise kernel inside a backward rule: shape and layout of a (and b). */
static inline struct mpl_tensor *mpl_rule_like(struct mpl_tape *tape, const char *op,
                                               const struct mpl_tensor *a,
                                               const struct mpl_tensor *b)
{
    enum mpl_dtype dtype = (enum mpl_dtype)a->dtype;

    if (b && mpl_dtype_size((enum mpl_dtype)b->dtype) > mpl_dtype_size(dtype))
        dtype = (enum mpl_dtype)b->dtype;
    return mpl_hold(mpl_empty_like(tape, op, dtype, a, b));
}

/** The end of an operator: out is the node's first result, a and b (may be the same, or NULL) are
 * used up. Gives out. */
static inline struct mpl_tensor *mpl_rule_finish(struct mpl_tape *tape, struct mpl_tensor *out,
                                                 struct mpl_node *node, struct mpl_tensor *a,
                                                 struct mpl_tensor *b)
{
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    if (b != a)
        mpl_consume(tape, b);
    return out;
}

/** A rule: the incoming gradient goes on unchanged, to every input that needs one. */
void mpl_rule_pass_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in);

/** The saved tensor number i of a node, brought back if it was forgotten. */
static inline struct mpl_tensor *mpl_saved(struct mpl_tape *tape, struct mpl_node *node, int i)
{
    return mpl_unpack(tape, &node->saved[i]);
}

/** The last dimension of a tensor, and all others as one: how products see it as a matrix. */
static inline struct mpl_dim mpl_rule_last(const struct mpl_tensor *t)
{
    return t->shape.dim[t->shape.ndim - 1];
}

static inline struct mpl_dim mpl_rule_rows(const struct mpl_tensor *t)
{
    struct mpl_dim rows = mpl_dim(1);

    for (int i = 0; i + 1 < t->shape.ndim; i++)
        rows = mpl_dim_mul(rows, t->shape.dim[i]);
    return rows;
}

/** A held view of the same storage with another shape; strides are made contiguous. */
struct mpl_tensor *mpl_rule_view(struct mpl_tape *tape, const struct mpl_tensor *a,
                                 const struct mpl_shape *shape);

/** A held view of the same storage with another shape and strides. */
struct mpl_tensor *mpl_rule_strided(struct mpl_tape *tape, const struct mpl_tensor *a,
                                    const struct mpl_shape *shape, const int64_t *stride);

/** The shape of a node's input. */
struct mpl_shape mpl_rule_edge_shape(const struct mpl_node *node, int i);

/** grad.reshape(shape) inside a backward rule: held; a copy where strides demand it. */
struct mpl_tensor *mpl_rule_reshape(struct mpl_tape *tape, struct mpl_tensor *grad,
                                    const struct mpl_shape *shape);

/** What _softmax_backward_data keeps while it runs, right after its result was made. */
void mpl_book_softmax_backward(struct mpl_tape *tape, const struct mpl_tensor *result);

#endif
