/* SPDX-License-Identifier: MIT */
/* What transformers' decoders share before the first layer: positions, masks, rotary tables. */
#ifndef MPL_PART_MASKING_H
#define MPL_PART_MASKING_H

#include "tape/tape.h"

struct mpl_mask {
    struct mpl_tensor *tensor; /* held; NULL: none */
    bool is_causal;            /* no tensor: sdpa makes the triangle itself */
};

/** arange(s) + 0: int64 [s]; floating. */
struct mpl_tensor *mpl_position_ids(struct mpl_tape *tape, const struct mpl_tensor *input_ids);

/** A window, for mpl_causal_mask, that no token lies in: what a mask of sliding_window 0 is. */
#define MPL_WINDOW_EMPTY (-1)

/** create_causal_mask, and with a window of tokens create_sliding_window_causal_mask: for sdpa none
 * without padding and inside the window, else bool [b, 1, s, s]; for eager numbers of the dtype of
 * embeds [b, 1, s, s]; for flash attention the padding mask as bool [b, s]; for
 * flex attention a block mask. padding_mask [b, s] or
 * NULL; window 0: none. */
struct mpl_mask mpl_causal_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                const struct mpl_tensor *embeds, struct mpl_tensor *padding_mask,
                                int64_t window);

/** The same without positions, which are looked at for packed sequences. */
struct mpl_mask mpl_causal_mask_plain(struct mpl_tape *tape, const struct mpl_plan *plan,
                                      const struct mpl_tensor *embeds,
                                      struct mpl_tensor *padding_mask, int64_t window);

/** The same as mpl_causal_mask, but made even where sdpa could do without. */
struct mpl_mask mpl_causal_mask_always(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_tensor *embeds,
                                       struct mpl_tensor *padding_mask);

/** create_bidirectional_mask: none without padding. */
struct mpl_mask mpl_bidirectional_mask(struct mpl_tape *tape, const struct mpl_plan *plan,
                                       const struct mpl_tensor *embeds,
                                       struct mpl_tensor *padding_mask);

/** _get_alibi_slopes (bloom, falcon): [heads], float32; held. */
struct mpl_tensor *mpl_alibi_slopes(struct mpl_tape *tape, int64_t heads);

/** cos and sin [1, 1, s, head_dim] in dtype; held. */
void mpl_rotary_tables(struct mpl_tape *tape, int64_t head_dim, enum mpl_dtype dtype,
                       const struct mpl_tensor *positions, struct mpl_tensor **cos_out,
                       struct mpl_tensor **sin_out);

#endif
