/* SPDX-License-Identifier: MIT */
/* A run under way: what the files of the training loop share. */
#ifndef MPL_STEP_RUN_H
#define MPL_STEP_RUN_H

#include "optim/optim.h"
#include "part/loss_sampled.h"
#include "step/scaler.h"

#define MPL_MAX_BATCHES_AHEAD 65 /* training.prefetch_batches, and the one in use */

/* Everything one run needs, on the stack of mpl_trace_run. */
struct mpl_run {
    const struct mpl_plan *plan;
    struct mpl_plan *turn; /* the same at the length of the batch at hand; NULL: all have one */
    uint64_t made, taken;  /* batches */
    struct mpl_tape *tape;
    struct mpl_network network;
    struct mpl_optim optim; /* over all trained parameters */
    struct mpl_optim local; /* what this rank's step updates */
    struct mpl_scaler scaler;
    struct mpl_batch batch;
    struct mpl_batch ahead[MPL_MAX_BATCHES_AHEAD]; /* on the card before their turn, a ring */
    uint32_t ahead_count, ahead_first;
    struct mpl_tensor *last_loss;
    struct mpl_sampled sampled;                 /* of the last pass over sampled labels */
    struct mpl_tensor *kept_logits, *kept_loss; /* of an output object that outlives its step */
    bool traces_all;
};

/** The next batch becomes the run's; the one before it goes. (batch.c) */
void mpl_run_make_batch(struct mpl_run *run);
void mpl_run_drop_batch(struct mpl_run *run);

/** All steps of the plan; an evaluation after them. (loop.c) */
void mpl_run_loop(struct mpl_run *run);

#endif
