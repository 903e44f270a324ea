/* SPDX-License-Identifier: MIT */
/*
 * The block mask of flex_attention, as compiled create_block_mask makes it.
 *
 * source: torch/nn/attention/flex_attention.py (create_block_mask, _create_sparse_block_from_block_
 * mask, _ordered_to_dense, BlockMask) and what Inductor makes of it; release 2.14.1
 */
#include "part/block_mask.h"

/* Held, [rows, cols]. */
static struct mpl_tensor *make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                               struct mpl_dim cols)
{
    const struct mpl_shape shape = mpl_shape2(rows, cols);

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

/* torch.sort of int32 [rows, cols]: values go, int64 indices stay; held. */
static struct mpl_tensor *sort(struct mpl_tape *tape, struct mpl_dim rows, struct mpl_dim cols)
{
    struct mpl_tensor *values = make(tape, MPL_INT32, rows, cols);
    struct mpl_tensor *indices = make(tape, MPL_INT64, rows, cols);

    mpl_drop(tape, values);
    return indices;
}

/* Numbers and lists of cols from a dense matrix. */
static void ordered(struct mpl_tape *tape, struct mpl_dim batch, struct mpl_dim blocks,
                    struct mpl_dim cols, struct mpl_tensor **out)
{
    struct mpl_tensor *indices = sort(tape, mpl_dim_mul(batch, blocks), cols);

    out[0] = make(tape, MPL_INT32, batch, blocks);
    out[1] = make(tape, MPL_INT32, mpl_dim_mul(batch, blocks), cols);
    mpl_drop(tape, indices);
}

void mpl_block_mask_make_wide(struct mpl_tape *tape, struct mpl_dim batch, struct mpl_dim blocks,
                              struct mpl_dim keys, struct mpl_block_mask *out)
{
    const struct mpl_dim rows = mpl_dim_mul(batch, blocks), back = mpl_dim_mul(batch, keys);
    const struct mpl_dim more = {keys.n + 1, keys.degree};
    struct mpl_tensor *dense_partial = make(tape, MPL_INT32, rows, more);
    struct mpl_tensor *dense_full = make(tape, MPL_INT32, rows, more), *lists[2];

    out->q_list = make(tape, MPL_INT32, rows, keys);
    out->full_q_list = make(tape, MPL_INT32, rows, keys);
    ordered(tape, batch, blocks, keys, lists);
    out->number = lists[0];
    out->list = lists[1];
    out->q_number = make(tape, MPL_INT32, batch, keys);
    mpl_drop(tape, dense_partial);
    mpl_drop(tape, sort(tape, back, blocks));
    ordered(tape, batch, blocks, keys, lists);
    out->full_number = lists[0];
    out->full_list = lists[1];
    out->full_q_number = make(tape, MPL_INT32, batch, keys);
    mpl_drop(tape, dense_full);
    mpl_drop(tape, sort(tape, back, blocks));
}

void mpl_block_mask_make(struct mpl_tape *tape, struct mpl_dim batch, struct mpl_dim blocks,
                         struct mpl_block_mask *out)
{
    mpl_block_mask_make_wide(tape, batch, blocks, blocks, out);
}

/* Nothing flows back into a mask. */
static void no_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                        struct mpl_tensor **in)
{
    (void)tape;
    (void)node;
    (void)out;
    (void)in;
}

struct mpl_tensor *mpl_block_mask_bundle(struct mpl_tape *tape, struct mpl_block_mask *mask,
                                         struct mpl_tensor *other)
{
    struct mpl_tensor *const parts[] = {mask->number,        mask->list,        mask->full_number,
                                        mask->full_list,     mask->q_number,    mask->q_list,
                                        mask->full_q_number, mask->full_q_list, other};
    const struct mpl_shape empty = mpl_shape1(mpl_dim(0));
    struct mpl_tensor *leaf = mpl_hold(mpl_empty(tape, "block_mask", MPL_INT32, &empty));
    struct mpl_tensor *bundle = mpl_empty(tape, "block_mask", MPL_INT32, &empty);
    struct mpl_node *node;

    if (!leaf->is_void)
        leaf->requires_grad = true;
    node = mpl_node_new(tape, "BlockMask", no_backward, &leaf, 1, 1, 9);
    for (int i = 0; i < 9; i++) {
        if (parts[i])
            mpl_save_output(tape, node, parts[i]);
        mpl_drop(tape, parts[i]);
    }
    mpl_set_history(tape, bundle, node, 0);
    mpl_drop(tape, leaf);
    return mpl_hold(bundle);
}
