/* SPDX-License-Identifier: MIT */
/* Cross-entropy of logits and labels that are drawn from them. */
#ifndef MPL_PART_LOSS_SAMPLED_H
#define MPL_PART_LOSS_SAMPLED_H

#include "tape/tape.h"

/** Names of a training loop, held, or NULL: samp_dist's normalised logits and probabilities, and
 * y_sample. */
struct mpl_sampled {
    struct mpl_tensor *logits, *probs, *labels;
};

/** samp_dist = Categorical(logits=logits), y_sample = samp_dist.sample(), F.cross_entropy of logits
 * [b, s, v] and y_sample: a floating scalar. Logits are borrowed; names are bound anew. */
struct mpl_tensor *mpl_sampled_loss(struct mpl_tape *tape, struct mpl_sampled *names,
                                    struct mpl_tensor *logits);

/** The names end. */
void mpl_sampled_drop(struct mpl_tape *tape, struct mpl_sampled *names);

#endif
