/* SPDX-License-Identifier: MIT */
/*
 * What a trainer makes of the model's output between forward and backward.
 *
 * source: accelerate/utils/operations.py (convert_outputs_to_fp32), release 1.15.0;
 * trl/trainer/sft_trainer.py (compute_loss), trl/trainer/utils.py (entropy_from_logits), releases
 * 0.18.2, 0.24.0
 */
#include "step/trainer_metrics.h"

#include "op/op.h"

#define ENTROPY_ROWS INT64_C(128) /* chunk_size */

/* entropy_from_logits: a few rows at a time; each name is bound to its next value before it lets go
 * of the last. Floating [b * s]. */
static struct mpl_tensor *entropy_of(struct mpl_tape *tape, const struct mpl_tensor *logits)
{
    const struct mpl_dim tokens = mpl_dim_mul(logits->shape.dim[0], logits->shape.dim[1]);
    const enum mpl_dtype dtype = (enum mpl_dtype)logits->dtype;
    struct mpl_tensor *scores = NULL;
    struct mpl_shape each = mpl_shape1(tokens);

    for (int64_t at = 0; at < tokens.n && !tape->is_stopped; at += ENTROPY_ROWS) {
        const int64_t rows = tokens.n - at < ENTROPY_ROWS ? tokens.n - at : ENTROPY_ROWS;
        const struct mpl_shape chunk = mpl_shape2(mpl_dim(rows), logits->shape.dim[2]);
        struct mpl_tensor *last = scores, *product;

        scores = mpl_hold(mpl_empty(tape, "_log_softmax.default", dtype, &chunk));
        mpl_drop(tape, last);
        product = mpl_op_mul(tape, mpl_op_exp(tape, scores), scores);
        mpl_consume(tape, product);
    }
    mpl_drop(tape, scores);
    return mpl_empty(tape, "cat.default", dtype, &each);
}

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
    if (training->outputs_to_float32 && training->autocast != MPL_DTYPE_NONE)
        mpl_rebind(tape, logits, mpl_op_to(tape, *logits, MPL_FLOAT32));
    if (training->metrics == MPL_METRICS_NONE)
        return;
    tape->is_grad_enabled = false;
    if (training->metrics == MPL_METRICS_ENTROPY)
        entropy = mpl_hold(entropy_of(tape, *logits));
    guess(tape, *logits, guessed);
    mpl_drop(tape, guessed[1]);
    mpl_drop(tape, guessed[0]);
    mpl_drop(tape, entropy);
    tape->is_grad_enabled = was_grad_enabled;
}
