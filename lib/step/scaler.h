/* SPDX-License-Identifier: MIT */
/* Loss scaling for float16: torch.amp.GradScaler. */
#ifndef MPL_STEP_SCALER_H
#define MPL_STEP_SCALER_H

#include "tape/tape.h"

/** Zero-initialized is a scaler that has not been used. */
struct mpl_scaler {
    struct mpl_tensor *scale, *growth; /* float32 and int32 scalars, made at first use */
    struct mpl_tensor *found_inf;      /* since gradients were unscaled, until update */
};

/** scaler.scale(loss): floating; loss is borrowed. */
struct mpl_tensor *mpl_scaler_scale(struct mpl_tape *tape, struct mpl_scaler *scaler,
                                    struct mpl_tensor *loss);
/** scaler.unscale_(optimizer): once a step, gradients change in place. */
void mpl_scaler_unscale(struct mpl_tape *tape, struct mpl_scaler *scaler);
/** scaler.update() */
void mpl_scaler_update(struct mpl_tape *tape, struct mpl_scaler *scaler);

#endif
