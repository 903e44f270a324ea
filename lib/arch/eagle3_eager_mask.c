/* SPDX-License-Identifier: MIT */
/*
 * Block masks of the drafter's flex_attention as eager code makes them: a dense mask [tokens,
 * tokens] first, then numbers and lists of blocks.
 *
 * source: speculators/models/eagle3/attention.py (create_combined_mask_mod, extend_mask_for_draft_
 * tokens), torch/nn/attention/flex_attention.py (create_mask, _convert_mask_to_block_mask,
 * _dense_to_ordered, _ordered_to_dense, BlockMask.from_kv_blocks), release 2.13
 */
#include "arch/eagle3.h"

#define KEPT 2 /* of the first mask, until the end of forward */

static const struct mpl_dim one = {1, 0};

static struct mpl_tensor *made(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               struct mpl_dim rows, struct mpl_dim cols)
{
    const struct mpl_shape shape = mpl_shape2(rows, cols);

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* Takes something and gives it back at once. */
static void pass(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype, struct mpl_dim rows,
                 struct mpl_dim cols)
{
    mpl_drop(tape, made(tape, op, dtype, rows, cols));
}

/* ---- the dense mask ---------------------------------------------------------------------------
 */

/* lengths.repeat_interleave, padded: int64 for each token; held */
static struct mpl_tensor *document_ids(struct mpl_tape *tape, const struct mpl_eagle3 *e)
{
    const struct mpl_dim n = e->sizes.tokens;
    const struct mpl_dim documents = mpl_dim(e->network->plan->training.documents);
    struct mpl_tensor *range = made(tape, "arange.default", MPL_INT64, one, documents);
    struct mpl_tensor *repeated = made(tape, "repeat_interleave.Tensor", MPL_INT64, one, n), *ids;

    mpl_drop(tape, range);
    ids = made(tape, "cat.default", MPL_INT64, one, n);
    mpl_drop(tape, repeated);
    return ids;
}

/* Same document, and neither of them padding: bool [n, m]; held */
static struct mpl_tensor *same_document(struct mpl_tape *tape, struct mpl_dim n, struct mpl_dim m)
{
    struct mpl_tensor *ids = made(tape, "index.Tensor", MPL_INT64, one, n);
    struct mpl_tensor *counts = made(tape, "ne.Scalar", MPL_BOOL, one, n), *wrapped, *others, *same,
                      *out;

    mpl_drop(tape, ids);
    ids = made(tape, "index.Tensor", MPL_INT64, one, n);
    wrapped = made(tape, "remainder.Scalar", MPL_INT64, one, m);
    others = made(tape, "index.Tensor", MPL_INT64, one, m);
    mpl_drop(tape, wrapped);
    same = made(tape, "eq.Tensor", MPL_BOOL, n, m);
    mpl_drop(tape, ids);
    mpl_drop(tape, others);
    out = made(tape, "logical_and.default", MPL_BOOL, n, m);
    mpl_drop(tape, counts);
    mpl_drop(tape, same);
    return out;
}

/* (causal & same document) | diagonal of a later step: bool [n, m]; held */
struct mpl_tensor *mpl_eagle3_dense_mask(struct mpl_tape *tape, struct mpl_dim n, struct mpl_dim m)
{
    struct mpl_tensor *rows = made(tape, "arange.default", MPL_INT64, one, n);
    struct mpl_tensor *cols = made(tape, "arange.default", MPL_INT64, one, m);
    struct mpl_tensor *zeros = made(tape, "new_zeros.default", MPL_BOOL, one, one);
    struct mpl_tensor *ones = made(tape, "new_ones.default", MPL_BOOL, one, one), *mask, *part,
                      *wrapped;

    mask = made(tape, "ge.Tensor", MPL_BOOL, n, m);
    mpl_eagle3_assign(tape, &mask, made(tape, "bitwise_and.Tensor", MPL_BOOL, n, m));
    mpl_drop(tape, ones);
    part = same_document(tape, n, m);
    {
        struct mpl_tensor *both = made(tape, "bitwise_and.Tensor", MPL_BOOL, n, m);

        mpl_drop(tape, part);
        mpl_eagle3_assign(tape, &mask, both);
    }
    mpl_eagle3_assign(tape, &mask, made(tape, "bitwise_or.Tensor", MPL_BOOL, n, m));
    mpl_drop(tape, zeros);
    wrapped = made(tape, "remainder.Scalar", MPL_INT64, one, n);
    part = made(tape, "eq.Tensor", MPL_BOOL, n, m);
    mpl_drop(tape, wrapped);
    {
        struct mpl_tensor *either = made(tape, "bitwise_or.Tensor", MPL_BOOL, n, m);

        mpl_drop(tape, part);
        mpl_eagle3_assign(tape, &mask, either);
    }
    mpl_drop(tape, rows);
    mpl_drop(tape, cols);
    return mask;
}

/* Which blocks are partly full and which are full: one byte (int8) [b, b] each; held */
static void to_blocks(struct mpl_tape *tape, struct mpl_dim b, struct mpl_tensor *parts[2])
{
    const struct mpl_dim padded = {b.n * MPL_EAGLE3_BLOCK, b.degree};
    struct mpl_tensor *mask = made(tape, "constant_pad_nd.default", MPL_BOOL, padded, padded);
    struct mpl_tensor *sum = made(tape, "sum.dim_IntList", MPL_INT64, b, b);
    struct mpl_tensor *full = made(tape, "eq.Scalar", MPL_BOOL, b, b);
    struct mpl_tensor *some = made(tape, "gt.Scalar", MPL_BOOL, b, b);
    struct mpl_tensor *less = made(tape, "lt.Scalar", MPL_BOOL, b, b);
    struct mpl_tensor *partly = made(tape, "bitwise_and.Tensor", MPL_BOOL, b, b);

    mpl_drop(tape, some);
    mpl_drop(tape, less);
    parts[0] = made(tape, "_to_copy.default", MPL_UINT8, b, b);
    mpl_drop(tape, partly);
    parts[1] = made(tape, "_to_copy.default", MPL_UINT8, b, b);
    mpl_drop(tape, full);
    mpl_drop(tape, mask);
    mpl_drop(tape, sum);
}

/* ---- numbers and lists ------------------------------------------------------------------------
 */

/* _dense_to_ordered: numbers int32 [rows], lists int32 [rows, cols]; held */
static void ordered(struct mpl_tape *tape, struct mpl_dim rows, struct mpl_dim cols,
                    struct mpl_tensor **numbers_out, struct mpl_tensor **lists_out)
{
    struct mpl_tensor *sum = made(tape, "sum.dim_IntList", MPL_INT64, one, rows);
    struct mpl_tensor *values = made(tape, "sort.stable", MPL_INT32, rows, cols);
    struct mpl_tensor *indices = made(tape, "sort.stable", MPL_INT64, rows, cols);

    mpl_drop(tape, values);
    *numbers_out = made(tape, "_to_copy.default", MPL_INT32, one, rows);
    *lists_out = made(tape, "_to_copy.default", MPL_INT32, rows, cols);
    mpl_drop(tape, sum);
    mpl_drop(tape, indices);
}

/* _transpose_ordered of lists int32 [b, length]. */
static void transposed(struct mpl_tape *tape, struct mpl_dim b, struct mpl_dim length,
                       struct mpl_tensor **numbers_out, struct mpl_tensor **lists_out)
{
    const struct mpl_dim longer = {length.n + 1, length.degree};
    struct mpl_tensor *matrix = made(tape, "new_zeros.default", MPL_INT32, b, longer);
    struct mpl_tensor *rows = made(tape, "arange.default", MPL_INT32, one, b);
    struct mpl_tensor *cols = made(tape, "arange.default", MPL_INT32, one, length);
    struct mpl_tensor *valid = made(tape, "lt.Tensor", MPL_BOOL, b, length);
    struct mpl_tensor *low = made(tape, "scalar_tensor.default", MPL_INT32, one, one);
    struct mpl_tensor *where = made(tape, "where.self", MPL_INT32, b, length), *copy;

    mpl_drop(tape, low);
    pass(tape, "new_ones.default", MPL_INT32, one, one);
    copy = made(tape, "clone.default", MPL_INT32, b, length);
    mpl_drop(tape, matrix);
    mpl_drop(tape, rows);
    mpl_drop(tape, cols);
    mpl_drop(tape, valid);
    mpl_drop(tape, where);
    ordered(tape, length, b, numbers_out, lists_out);
    mpl_drop(tape, copy);
}

void mpl_eagle3_eager_mask_make(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    const struct mpl_dim b = mpl_eagle3_blocks(e);
    struct mpl_tensor *mask, *parts[2], *wide, *numbers[4], *lists[4], *ids;

    ids = document_ids(tape, e);
    mask = mpl_eagle3_dense_mask(tape, e->sizes.tokens, e->sizes.tokens);
    to_blocks(tape, b, parts);
    for (int i = 0; i < 2; i++) {
        wide = made(tape, "_to_copy.default", MPL_INT32, b, b);
        ordered(tape, b, b, &numbers[i], &lists[i]);
        mpl_drop(tape, wide);
    }
    for (int i = 2; i < 4; i++)
        transposed(tape, b, b, &numbers[i], &lists[i]);
    mpl_drop(tape, mask);
    mpl_drop(tape, parts[0]);
    mpl_drop(tape, parts[1]);
    e->mask = (struct mpl_eagle3_mask){{numbers[0], lists[0], lists[1], numbers[2], lists[2],
                                        numbers[3], lists[3], numbers[1], ids},
                                       9};
}

/* Lists int32 [b, length] with one more diagonal; held */
static struct mpl_tensor *longer_lists(struct mpl_tape *tape, struct mpl_dim b,
                                       struct mpl_dim length)
{
    struct mpl_tensor *zeros = made(tape, "new_zeros.default", MPL_INT32, b, b);
    struct mpl_tensor *lists = made(tape, "cat.default", MPL_INT32, b, length);

    mpl_drop(tape, zeros);
    return lists;
}

void mpl_eagle3_eager_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    const struct mpl_dim b = mpl_eagle3_blocks(e), length = {b.n * (e->ttt_step + 1), b.degree};
    struct mpl_eagle3_mask m = {.count = 7 + KEPT};
    struct mpl_tensor *range;

    m.tensors[0] = longer_lists(tape, b, length);
    range = made(tape, "arange.default", MPL_INT32, one, b);
    m.tensors[1] = made(tape, "add.Tensor", MPL_INT32, one, b);
    m.tensors[2] = longer_lists(tape, b, length);
    transposed(tape, b, length, &m.tensors[3], &m.tensors[4]);
    transposed(tape, b, length, &m.tensors[5], &m.tensors[6]);
    mpl_drop(tape, range);
    for (int i = 0; i < KEPT; i++) /* the mask function still sees these */
        m.tensors[7 + i] = mpl_hold(e->mask.tensors[7 + i]);
    mpl_eagle3_mask_drop(tape, &e->mask);
    e->mask = m;
}
