/* SPDX-License-Identifier: MIT */
/* What a trainer makes of the model's output between forward and backward. */
#ifndef MPL_STEP_TRAINER_METRICS_H
#define MPL_STEP_TRAINER_METRICS_H

#include "step/network.h"

/** Casts *logits, held or NULL, as accelerate does, and computes the metrics that the plan asks
 * for. Autocast is over. */
void mpl_trainer_metrics(struct mpl_tape *tape, const struct mpl_training *training,
                         struct mpl_tensor **logits);

#endif
