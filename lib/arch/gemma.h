/* SPDX-License-Identifier: MIT */
/* What the three generations of Gemma share. */
#ifndef MPL_ARCH_GEMMA_H
#define MPL_ARCH_GEMMA_H

#include "part/causal_lm.h"

/** The buffer of the embedding's scale. */
void mpl_gemma_describe_embedding(struct mpl_lm *lm);

/** embedding(ids) * embed_scale.to(weight.dtype). context: struct mpl_lm. */
mpl_forward mpl_gemma_embed;

/** Before 4.48: hidden_states * normalizer, a number on the host. */
struct mpl_tensor *mpl_gemma_enter(struct mpl_tape *tape, struct mpl_lm *lm,
                                   struct mpl_tensor *embeds);

/** tanh(logits / cap) * cap, if there is a cap. */
struct mpl_tensor *mpl_gemma_cap_logits(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_tensor *logits);

/** Gemma 3's text model, for both of its configuration classes. */
extern const struct mpl_lm_family mpl_gemma3_family;
void mpl_gemma3_derive(struct mpl_plan *plan);
enum memplan_status mpl_gemma3_check(const struct mpl_plan *plan, struct memplan_error *err);

#endif
