/* SPDX-License-Identifier: MIT */
/*
 * Group relative policy optimization, the training step: log-probabilities and entropies of the
 * completion's tokens, clipped ratios, loss_type dapo, as GRPOConfig has it: beta 0 (no reference),
 * ratios by token, one pass over what was generated, which happened elsewhere. The metrics that the
 * trainer takes afterwards have one number for each token, when the logits are gone; they are left
 * out.
 *
 * source: trl/trainer/grpo_trainer.py (_get_per_token_logps_and_entropies, _compute_loss); release
 * 0.29.0
 */
#include "op/op.h"
#include "part/loss.h"

static struct mpl_tensor *join(struct mpl_tape *tape, struct mpl_tensor *prompt,
                               struct mpl_tensor *completion)
{
    return mpl_hold(mpl_op_cat(tape, prompt, completion, 1));
}

/* Log-probabilities of the completion's tokens, held; their entropies, held, to entropies_out. */
static struct mpl_tensor *per_token(struct mpl_tape *tape, struct mpl_lm *lm,
                                    struct mpl_batch *batch, struct mpl_dim completion,
                                    struct mpl_tensor **entropies_out)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *logits, *index, *scores;
    struct mpl_tensor *entropies;
    struct mpl_dim more = completion;

    more.n++; /* the last one's logits are cut off again */
    logits = mpl_hold(mpl_lm_logits(tape, lm, mpl_op_narrow(tape, h, 1, more)));
    mpl_drop(tape, h);
    if (logits->is_void)
        return logits;
    mpl_network_leave(tape, lm->network, &logits, 1);
    mpl_rebind(tape, &logits, mpl_op_narrow(tape, logits, 1, completion));
    mpl_rebind(tape, &logits, mpl_op_narrow(tape, logits, 1, completion)); /* [-completion:] */
    mpl_rebind(tape, &logits, mpl_op_div_scalar(tape, logits));
    index = mpl_hold(mpl_op_narrow(tape, batch->input_ids, 1, completion));
    scores = mpl_hold(mpl_loss_selective(tape, logits, index));
    entropies = mpl_loss_entropy(tape, logits);
    mpl_rebind(tape, &scores, mpl_op_clone(tape, scores)); /* cat of one part, as the next */
    *entropies_out = mpl_hold(
        mpl_empty(tape, "cat.default", (enum mpl_dtype)entropies->dtype, &entropies->shape));
    mpl_drop(tape, entropies);
    mpl_drop(tape, index);
    mpl_drop(tape, logits);
    return scores;
}

/* -min(ratio * advantage, clipped ratio * advantage), masked and summed, by the count of tokens */
static struct mpl_tensor *clipped_loss(struct mpl_tape *tape, const struct mpl_batch *batch,
                                       struct mpl_tensor *scores)
{
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *advantages = mpl_hold(mpl_op_unsqueeze(tape, batch->advantages, 1));
    struct mpl_tensor *old = mpl_hold(mpl_alias(tape, scores));
    struct mpl_tensor *log_ratio = mpl_hold(mpl_op_sub(tape, scores, old));
    struct mpl_tensor *ratio = mpl_hold(mpl_op_exp(tape, log_ratio));
    struct mpl_tensor *clipped = mpl_hold(mpl_op_clamp(tape, ratio, true));
    struct mpl_tensor *first = mpl_hold(mpl_op_mul(tape, ratio, advantages));
    struct mpl_tensor *second = mpl_hold(mpl_op_mul(tape, clipped, advantages));
    struct mpl_tensor *each = mpl_hold(mpl_op_neg(tape, mpl_op_minimum(tape, first, second)));
    struct mpl_tensor *count = mpl_hold(mpl_empty(tape, "div.Tensor", MPL_FLOAT32, &scalar)), *loss;

    loss = mpl_op_sum_all(tape, mpl_op_mul(tape, each, batch->completion_mask));
    loss = mpl_op_div_constant(tape, loss, count);
    struct mpl_tensor *const locals[] = {advantages, old,    log_ratio, ratio, clipped,
                                         first,      second, each,      count};
    for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
        mpl_drop(tape, locals[i]);
    return loss;
}

struct mpl_tensor *mpl_loss_grpo(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch,
                                 struct mpl_tensor **logits_out)
{
    struct mpl_batch whole = {.input_ids = join(tape, batch->input_ids, batch->labels),
                              .attention_mask =
                                  join(tape, batch->attention_mask, batch->completion_mask)};
    struct mpl_tensor *entropies = NULL, *scores, *loss = tape->void_tensor;

    (void)logits_out;
    scores = per_token(tape, lm, &whole, batch->labels->shape.dim[1], &entropies);
    if (!scores->is_void)
        loss = clipped_loss(tape, batch, scores);
    mpl_drop(tape, scores);
    mpl_drop(tape, entropies);
    mpl_drop(tape, whole.attention_mask);
    mpl_drop(tape, whole.input_ids);
    return loss;
}
