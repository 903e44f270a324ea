/* SPDX-License-Identifier: MIT */
/*
 * Loss scaling for float16.
 *
 * source: torch/amp/grad_scaler.py (GradScaler: scale, unscale_, _unscale_grads_, update), release
 * 2.13.0. _amp_foreach_non_finite_check_and_unscale_ and _amp_update_scale_ work in place.
 */
#include "step/scaler.h"

#include "op/op.h"

struct mpl_tensor *mpl_scaler_scale(struct mpl_tape *tape, struct mpl_scaler *scaler,
                                    struct mpl_tensor *loss)
{
    if (!scaler->scale) {
        scaler->scale = mpl_hold_scalar(tape, "full.default", MPL_FLOAT32);
        scaler->growth = mpl_hold_scalar(tape, "full.default", MPL_INT32);
    }
    return mpl_op_mul(tape, loss, scaler->scale);
}

/* inv_scale = scale.double().reciprocal().float() */
void mpl_scaler_unscale(struct mpl_tape *tape, struct mpl_scaler *scaler)
{
    struct mpl_tensor *inverse;

    if (scaler->found_inf || !scaler->scale)
        return;
    inverse = mpl_op_map(tape, "_to_copy.default", MPL_FLOAT64, scaler->scale, NULL);
    inverse = mpl_op_map(tape, "reciprocal.default", MPL_FLOAT64, inverse, NULL);
    inverse = mpl_hold(mpl_op_to(tape, inverse, MPL_FLOAT32));
    scaler->found_inf = mpl_hold_scalar(tape, "full.default", MPL_FLOAT32);
    mpl_drop(tape, inverse);
}

void mpl_scaler_update(struct mpl_tape *tape, struct mpl_scaler *scaler)
{
    mpl_drop(tape, scaler->found_inf);
    scaler->found_inf = NULL;
}
