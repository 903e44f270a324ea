/* SPDX-License-Identifier: MIT */
/* Stage "step": what a training program does around its steps: resuming, evaluating. */
#ifndef MPL_STEP_AROUND_H
#define MPL_STEP_AROUND_H

#include "optim/optim.h"

/**
 * torch.load(path, map_location), model.load_state_dict(), optimizer.load_state_dict(), as the
 * plan's checkpoint.resume says; after the optimizer is made. States that were loaded onto the card
 * are taken over as they are; weights are copied into the model's.
 */
void mpl_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

/** The plan's training.evaluation, after a step; its phase has begun. */
void mpl_evaluate(struct mpl_tape *tape, struct mpl_network *network);

#endif
