/* SPDX-License-Identifier: MIT */
/*
 * Block masks of the drafter's flex_attention, as the compiled functions make them.
 *
 * B blocks of 128 tokens. The first step's mask is causal inside documents; each later step adds
 * one diagonal of blocks to the lists, so that step t has lists of B * t key blocks.
 *
 * source: speculators/models/eagle3/attention.py (create_combined_mask_mod, extend_mask_for_draft_
 * tokens), torch/nn/attention/flex_attention.py (create_block_mask, _ordered_to_dense, BlockMask)
 */
#include "arch/eagle3.h"
#include "part/block_mask.h"

/* Held, [rows, cols]. */
static struct mpl_tensor *make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                               struct mpl_dim cols)
{
    const struct mpl_shape shape = mpl_shape2(rows, cols);

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

static struct mpl_dim times(struct mpl_dim a, int64_t b)
{
    return (struct mpl_dim){a.n * b, a.degree};
}

static struct mpl_dim plus_one(struct mpl_dim a)
{
    return (struct mpl_dim){a.n + 1, a.degree};
}

static void document_ids(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor **ids_out)
{
    const struct mpl_dim one = mpl_dim(1), n = e->sizes.tokens;
    const int64_t documents = e->network->plan->training.documents;
    struct mpl_tensor *range = make(tape, MPL_INT64, one, mpl_dim(documents)), *repeated;

    repeated = make(tape, MPL_INT64, one, n);
    mpl_drop(tape, range);
    *ids_out = make(tape, MPL_INT64, one, n);
    mpl_drop(tape, repeated);
}

void mpl_eagle3_mask_make(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    struct mpl_block_mask made;
    struct mpl_tensor *ids;

    if (e->sizes.release->has_autocast)
        ids = mpl_hold(e->batch.document_ids);
    else
        document_ids(tape, e, &ids);
    mpl_block_mask_make(tape, mpl_dim(1), mpl_eagle3_blocks(e), &made);
    e->mask =
        (struct mpl_eagle3_mask){{made.number, ids, made.full_number, made.full_list, made.q_number,
                                  made.q_list, made.full_q_number, made.full_q_list, made.list},
                                 9};
}

/* One step of _ordered_to_dense for lists [b, length]: numbers of the transposed lists. is_static:
 * the first compiled form, which reuses one dense buffer for both lists. */
static void extend(struct mpl_tape *tape, struct mpl_dim b, struct mpl_dim length, bool is_static,
                   struct mpl_eagle3_mask *mask)
{
    const struct mpl_dim one = mpl_dim(1);
    struct mpl_tensor *dense, *values, *indices, *first, *second, *third, *copy, *second_copy, *q,
        *q2;

    first = make(tape, MPL_INT32, b, length);
    second = make(tape, MPL_INT32, one, b);
    dense = make(tape, MPL_INT32, b, plus_one(length));
    copy = make(tape, MPL_INT32, b, length);
    if (!is_static)
        mpl_drop(tape, dense);
    q = make(tape, MPL_INT32, one, length);
    values = make(tape, MPL_INT32, b, length);
    indices = make(tape, MPL_INT64, b, length);
    mpl_drop(tape, values);
    mpl_drop(tape, indices);
    if (!is_static)
        dense = make(tape, MPL_INT32, b, plus_one(length));
    third = make(tape, MPL_INT32, b, length);
    second_copy = make(tape, MPL_INT32, b, length);
    if (!is_static)
        mpl_drop(tape, dense);
    q2 = make(tape, MPL_INT32, one, length);
    if (is_static)
        mpl_drop(tape, dense);
    values = make(tape, MPL_INT32, b, length);
    indices = make(tape, MPL_INT64, b, length);
    mpl_drop(tape, values);
    mpl_drop(tape, indices);
    *mask = (struct mpl_eagle3_mask){{first, second, third, q, copy, q2, second_copy}, 7};
}

void mpl_eagle3_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    const struct mpl_dim b = mpl_eagle3_blocks(e);
    const bool is_static = e->ttt_step == 1 && (e->is_first || e->sizes.steps == 1);
    struct mpl_eagle3_mask extended;

    extend(tape, b, times(b, e->ttt_step + 1), is_static, &extended);
    mpl_eagle3_mask_drop(tape, &e->mask);
    e->mask = extended;
}

void mpl_eagle3_mask_drop(struct mpl_tape *tape, struct mpl_eagle3_mask *mask)
{
    for (int i = 0; i < mask->count; i++)
        mpl_drop(tape, mask->tensors[i]);
    *mask = (struct mpl_eagle3_mask){0};
}
