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

/** Adam's states of this rank, from the checkpoint: is_on_card: with the number of steps. */
void mpl_resume_states(struct mpl_tape *tape, struct mpl_optim *optim, bool is_on_card);

/** A checkpoint of the whole model on the card (map_location="cuda"): weights, then states. */
struct mpl_whole_checkpoint {
    struct mpl_tensor **of;
    uint32_t count, weights;
};

/** False: the tape has failed. */
bool mpl_whole_load(struct mpl_tape *tape, const struct mpl_network *network,
                    const struct mpl_optim *optim, struct mpl_whole_checkpoint *whole);
void mpl_whole_drop(struct mpl_tape *tape, struct mpl_whole_checkpoint *whole, bool only_weights);

/** The plan's training.evaluation, after a step; its phase has begun. */
void mpl_evaluate(struct mpl_tape *tape, struct mpl_network *network);

#endif
