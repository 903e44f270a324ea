/* SPDX-License-Identifier: MIT */
/* The block mask of flex_attention, as compiled create_block_mask makes it. */
#ifndef MPL_PART_BLOCK_MASK_H
#define MPL_PART_BLOCK_MASK_H

#include "tape/tape.h"

/** Tokens of a block (_DEFAULT_SPARSE_BLOCK_SIZE). */
#define MPL_BLOCK_TOKENS 128

/** Numbers [batch, blocks] and lists [batch, blocks, blocks] of int32: key blocks of each query
 * block and back, those that are masked in part and those that are whole. */
struct mpl_block_mask {
    struct mpl_tensor *number, *list, *q_number, *q_list;
    struct mpl_tensor *full_number, *full_list, *full_q_number, *full_q_list;
};

/** create_block_mask over blocks x blocks for each of batch masks; all are held. */
void mpl_block_mask_make(struct mpl_tape *tape, struct mpl_dim batch, struct mpl_dim blocks,
                         struct mpl_block_mask *out);

/** The same over blocks of queries and more of keys. */
void mpl_block_mask_make_wide(struct mpl_tape *tape, struct mpl_dim batch, struct mpl_dim blocks,
                              struct mpl_dim keys, struct mpl_block_mask *out);

/** One tensor without bytes that keeps a block mask's tensors and one more (NULL: none), whose
 * names end here; held. */
struct mpl_tensor *mpl_block_mask_bundle(struct mpl_tape *tape, struct mpl_block_mask *mask,
                                         struct mpl_tensor *other);

#endif
