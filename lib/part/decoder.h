/* SPDX-License-Identifier: MIT */
/* Parts of a decoder layer that families share, operator by operator. Results are floating. */
#ifndef MPL_PART_DECODER_H
#define MPL_PART_DECODER_H

#include "tape/tape.h"

/** LlamaRMSNorm.forward. x [b, s, h]: kept for backward are a float32 copy of x (x itself when it
 * is float32), the normalised copy when the weight trains, and the row's 1/rms. */
struct mpl_tensor *mpl_rms_norm(struct mpl_tape *tape, struct mpl_tensor *norm_weight,
                                struct mpl_tensor *x);

/** Rotary embedding of queries or keys x [b, heads, s, d]: x * cos + rotate_half(x) * sin. */
struct mpl_tensor *mpl_rotate(struct mpl_tape *tape, struct mpl_tensor *x, struct mpl_tensor *cos,
                              struct mpl_tensor *sin);

/** x [b, s, heads * d] as view(b, s, heads, d).transpose(1, 2); consumes a floating x. */
struct mpl_tensor *mpl_split_heads(struct mpl_tape *tape, struct mpl_tensor *x, int64_t heads,
                                   int64_t head_dim);

#endif
