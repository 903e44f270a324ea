/* SPDX-License-Identifier: MIT */
/*
 * What a trainer makes of the model's output between forward and backward.
 *
 * source: accelerate/utils/operations.py (convert_outputs_to_fp32), release 1.15.0;
 * trl/trainer/sft_trainer.py (compute_loss), releases 0.18.2, 0.24.0
 */
#include "step/trainer_metrics.h"

#include "op/op.h"
#include "part/loss.h"

/* Logits without the last token are copied; the largest is the guess: held [b, s - 1, v] and int64
 * [b, s - 1]. */
static void guess(struct mpl_tape *tape, struct mpl_tensor *logits, struct mpl_tensor *out[2])
{
    struct mpl_dim rest = logits->shape.dim[1];
    struct mpl_shape each;

    rest.n--;
    each = mpl_shape2(logits->shape.dim[0], rest);
    out[0] = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, logits, 1, rest)));
    out[1] = mpl_hold(mpl_empty(tape, "argmax.default", MPL_INT64, &each));
}

void mpl_trainer_metrics(struct mpl_tape *tape, const struct mpl_training *training,
                         struct mpl_tensor **logits)
{
    const bool was_grad_enabled = tape->is_grad_enabled;
    struct mpl_tensor *entropy = NULL, *guessed[2] = {NULL, NULL};

    if (!*logits || (*logits)->is_void || (*logits)->shape.ndim != 3 || tape->is_stopped)
        return;
    mpl_network_convert_outputs(tape, training, logits);
    if (training->metrics == MPL_METRICS_NONE)
        return;
    tape->is_grad_enabled = false;
    if (training->metrics == MPL_METRICS_ENTROPY)
        entropy = mpl_loss_entropy(tape, *logits);
    guess(tape, *logits, guessed);
    mpl_drop(tape, guessed[1]);
    mpl_drop(tape, guessed[0]);
    mpl_drop(tape, entropy);
    tape->is_grad_enabled = was_grad_enabled;
}
