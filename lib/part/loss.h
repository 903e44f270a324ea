/* SPDX-License-Identifier: MIT */
/* Losses of causal language models: from a batch to a scalar, one file a kind of code. */
#ifndef MPL_PART_LOSS_H
#define MPL_PART_LOSS_H

#include "part/causal_lm.h"

/** Runs the model and its loss: a floating scalar. *logits_out is a held tensor that lives as long
 * as the model's output object, or stays NULL. */
typedef struct mpl_tensor *mpl_loss_rule(struct mpl_tape *tape, struct mpl_lm *lm,
                                         struct mpl_batch *batch, struct mpl_tensor **logits_out);

mpl_loss_rule *mpl_loss_rule_of(const struct mpl_plan *plan);

mpl_loss_rule mpl_loss_causal_lm, mpl_loss_label_smoothing; /* loss_causal.c */
mpl_loss_rule mpl_loss_chunked, mpl_loss_torchtitan;        /* loss_chunked.c */
mpl_loss_rule mpl_loss_dpo;                                 /* loss_preference.c */
mpl_loss_rule mpl_loss_forward_kl;                          /* loss_distillation.c */
mpl_loss_rule mpl_loss_fused_linear;                        /* loss_fused.c */
mpl_loss_rule mpl_loss_chunked_nll;                         /* loss_chunked_nll.c */
mpl_loss_rule mpl_loss_fused_lm_head;                       /* loss_fused_lm_head.c */
mpl_loss_rule mpl_loss_classification;                      /* loss_classification.c */

/** The model without labels: its logits. (loss_causal.c) */
mpl_loss_rule mpl_loss_none;
mpl_loss_rule mpl_loss_grpo; /* loss_grpo.c */

/** TRL's selective_log_softmax(logits [b, s, v], index [b, s]): floating [b, s]. */
struct mpl_tensor *mpl_loss_selective(struct mpl_tape *tape, struct mpl_tensor *logits,
                                      struct mpl_tensor *index);

/** TRL's entropy_from_logits, 128 rows at a time, without gradient: held [b * s]. */
struct mpl_tensor *mpl_loss_entropy(struct mpl_tape *tape, const struct mpl_tensor *logits);

/** nn.functional.pad(labels, (0, 1))[..., 1:].contiguous(), flat: held int64 [b * s]. padded_out
 * takes a held tensor: the padded labels. */
struct mpl_tensor *mpl_loss_shifted_labels(struct mpl_tape *tape, struct mpl_tensor *labels,
                                           struct mpl_tensor **padded_out);

/** loss / num_items_in_batch, if the plan says that the trainer gives that count. */
struct mpl_tensor *mpl_loss_by_items(struct mpl_tape *tape, const struct mpl_lm *lm,
                                     struct mpl_batch *batch, struct mpl_tensor *loss);

#endif
