/* SPDX-License-Identifier: MIT */
/* Embedding: rows of a table, and the dense gradient of the whole table. */
#include <string.h>

#include "op/rule.h"
#include "op/scratch_book.h"

static const char gradient_op[] = "embedding_dense_backward.default";

struct gradient {
    const struct mpl_shape *shape;
    enum mpl_dtype dtype;
};

static struct mpl_tensor *make_gradient(struct mpl_tape *tape, void *context, int which)
{
    const struct gradient *gradient = context;

    (void)which;
    return mpl_hold(mpl_empty(tape, gradient_op, gradient->dtype, gradient->shape));
}

/* The gradient is dense: all rows, in the dtype of the incoming one, however few were read. */
static void embedding_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct mpl_tensor *ids = mpl_saved(tape, node, 0);
    struct mpl_shape shape = {.ndim = node->edges[0].ndim};

    memcpy(shape.dim, node->edges[0].dim, sizeof(shape.dim));
    if (tape->has_kernel_scratch && !ids->is_void) {
        const struct mpl_scratch_card card = mpl_book_card(tape);
        struct gradient gradient = {&shape, (enum mpl_dtype)out[0]->dtype};
        const struct mpl_book book = {gradient_op, MPL_LINEAR, make_gradient, &gradient, in};
        struct mpl_scratch list;

        list.count = list.takes = 0;
        mpl_scratch_embedding_backward(&card, mpl_numel(ids), shape.dim[0].n, shape.dim[1].n,
                                       gradient.dtype, &list);
        mpl_book_run(tape, &list, &book);
        return;
    }
    in[0] = mpl_hold(mpl_empty(tape, gradient_op, (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_embedding(struct mpl_tape *tape, struct mpl_tensor *weight,
                                    struct mpl_tensor *ids)
{
    struct mpl_node *node =
        mpl_node_new(tape, "EmbeddingBackward0", embedding_backward, &weight, 1, 1, 1);
    struct mpl_tensor *out = tape->void_tensor;

    if (!weight->is_void && !ids->is_void) {
        struct mpl_shape shape =
            mpl_shape3(ids->shape.dim[0], ids->shape.dim[1], weight->shape.dim[1]);

        mpl_save(tape, node, ids);
        out = mpl_empty(tape, "embedding.default", (enum mpl_dtype)weight->dtype, &shape);
    }
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, ids);
    return out;
}
