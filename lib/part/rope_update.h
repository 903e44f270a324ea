/* SPDX-License-Identifier: MIT */
/* Rotary frequencies that the forward pass itself may change. */
#ifndef MPL_PART_ROPE_UPDATE_H
#define MPL_PART_ROPE_UPDATE_H

#include "tape/tape.h"

/** What a rotary module keeps between calls; NULL: nothing yet. */
struct mpl_rope_state {
    struct mpl_tensor *long_frequencies; /* longrope: float32 [half] */
    struct mpl_tensor *longest;          /* dynamic: the longest sequence so far, a scalar */
};

/** dynamic_rope_update, before cos and sin are made. half: frequencies of one head; is_longer: the
 * sequence is longer than the model was made for. Nothing for other kinds. */
void mpl_rope_update(struct mpl_tape *tape, enum mpl_rope_type type, struct mpl_rope_state *state,
                     struct mpl_dim half, bool is_longer);

#endif
