/* SPDX-License-Identifier: MIT */
/*
 * Cross-entropy of whole logits, inside the model or with the Trainer's label smoothing outside it.
 *
 * source: transformers/loss/loss_utils.py (ForCausalLMLoss, fixed_cross_entropy),
 * trainer_pt_utils.py (LabelSmoother); releases 4.48.3, 4.49.0, 5.24.0
 */
#include "op/op.h"
#include "part/loss.h"
#include "spec/text.h"

struct mpl_tensor *mpl_loss_by_items(struct mpl_tape *tape, const struct mpl_lm *lm,
                                     struct mpl_batch *batch, struct mpl_tensor *loss)
{
    return lm->network->plan->training.loss.num_items_in_batch
               ? mpl_op_div_constant(tape, loss, batch->item_count)
               : loss;
}

struct mpl_tensor *mpl_loss_shifted_labels(struct mpl_tape *tape, struct mpl_tensor *labels,
                                           struct mpl_tensor **padded_out)
{
    struct mpl_shape shape = labels->shape;
    struct mpl_tensor *padded, *shifted, *flat;

    shape.dim[1].n += 1;
    padded = mpl_hold(mpl_empty(tape, "constant_pad_nd.default", MPL_INT64, &shape));
    *padded_out = padded;
    shifted =
        mpl_hold(mpl_op_contiguous(tape, mpl_op_slice_last(tape, padded, labels->shape.dim[1])));
    flat = mpl_hold(mpl_op_reshape(
        tape, shifted, mpl_shape1(mpl_dim_mul(labels->shape.dim[0], labels->shape.dim[1]))));
    mpl_drop(tape, shifted);
    return flat;
}

/* ForCausalLMLoss: float32 logits, labels moved by one, cross-entropy. */
static struct mpl_tensor *for_causal_lm_loss(struct mpl_tape *tape, const struct mpl_lm *lm,
                                             struct mpl_batch *batch, struct mpl_tensor *logits,
                                             struct mpl_tensor *labels)
{
    struct mpl_tensor *wide = mpl_hold(mpl_op_to(tape, logits, MPL_FLOAT32)), *loss;
    struct mpl_tensor *padded, *flat, *targets;

    if (wide->is_void)
        return wide;
    targets = mpl_loss_shifted_labels(tape, labels, &padded);
    flat = mpl_hold(mpl_op_reshape(
        tape, wide,
        mpl_shape2(mpl_dim_mul(wide->shape.dim[0], wide->shape.dim[1]), wide->shape.dim[2])));
    loss = mpl_loss_by_items(tape, lm, batch, mpl_op_cross_entropy(tape, flat, targets));
    mpl_drop(tape, flat);
    mpl_drop(tape, wide);
    mpl_drop(tape, padded);
    mpl_drop(tape, targets);
    return loss;
}

/* Before 4.49: logits, float32 but for a few old families, are cut by the last token and copied. */
static struct mpl_tensor *copied_loss(struct mpl_tape *tape, const struct mpl_lm *lm,
                                      struct mpl_batch *batch, struct mpl_tensor *logits,
                                      struct mpl_tensor *labels)
{
    struct mpl_tensor *wide = mpl_hold(mpl_return(mpl_hold(logits))), *loss, *flat, *targets;
    struct mpl_dim rest, rows;

    if (wide->is_void)
        return wide;
    rest = wide->shape.dim[1];
    rest.n--;
    rows = mpl_dim_mul(wide->shape.dim[0], rest);
    flat = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, wide, 1, rest)));
    targets = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, labels, 1, rest)));
    mpl_rebind(tape, &flat, mpl_op_reshape(tape, flat, mpl_shape2(rows, wide->shape.dim[2])));
    mpl_rebind(tape, &targets, mpl_op_reshape(tape, targets, mpl_shape1(rows)));
    loss = mpl_loss_by_items(tape, lm, batch, mpl_op_cross_entropy(tape, flat, targets));
    mpl_drop(tape, targets);
    mpl_drop(tape, flat);
    mpl_drop(tape, wide);
    return loss;
}

/* ForCausalLMLoss; before it the forward itself, which had bound its logits to the wide ones. */
static struct mpl_tensor *loss_before_4_49(struct mpl_tape *tape, const struct mpl_lm *lm,
                                           struct mpl_batch *batch, struct mpl_tensor **logits,
                                           struct mpl_tensor *labels)
{
    const struct mpl_past *facts = lm->past.facts;
    struct mpl_tensor *wide, *loss;

    if (!facts || mpl_past_has(&lm->past, facts->loss_function)) {
        wide = mpl_hold(mpl_op_to(tape, *logits, MPL_FLOAT32));
        loss = copied_loss(tape, lm, batch, wide, labels);
        mpl_drop(tape, wide);
        return loss;
    }
    if (facts->logits == MPL_PAST_LOGITS_WIDE)
        mpl_rebind(tape, logits, mpl_op_to(tape, *logits, MPL_FLOAT32));
    return copied_loss(tape, lm, batch, *logits, labels);
}

struct mpl_tensor *mpl_loss_causal_lm(struct mpl_tape *tape, struct mpl_lm *lm,
                                      struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const int64_t kept = lm->network->plan->training.loss.logits_to_keep;
    const bool is_cut = kept && kept < lm->network->plan->training.sequence_length;
    const struct mpl_lm_family *family = lm->family;
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *loss, *labels;

    labels = mpl_hold(is_cut ? mpl_op_narrow(tape, batch->labels, 1, mpl_dim(kept))
                             : mpl_return(mpl_hold(batch->labels)));
    *logits_out =
        mpl_hold(mpl_lm_logits(tape, lm, is_cut ? mpl_op_narrow(tape, h, 1, mpl_dim(kept)) : h));
    if (family->has_joined_head)
        mpl_rebind(tape, &h, tape->void_tensor);
    if (family->loss)
        loss = family->loss(tape, *logits_out, labels);
    else if (mpl_version_at_least(&lm->network->plan->transformers, 4, 49, 0))
        loss = for_causal_lm_loss(tape, lm, batch, *logits_out, labels);
    else
        loss = loss_before_4_49(tape, lm, batch, logits_out, labels);
    if (family->finish_loss)
        loss = family->finish_loss(tape, lm, batch->attention_mask, loss);
    mpl_drop(tape, labels);
    mpl_drop(tape, h);
    return loss;
}

struct mpl_tensor *mpl_loss_none(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch,
                                 struct mpl_tensor **logits_out)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch));

    *logits_out = mpl_hold(mpl_lm_logits(tape, lm, h));
    mpl_drop(tape, h);
    return mpl_return(mpl_hold(*logits_out));
}

/* What LabelSmoother makes of the log-probabilities: nll.sum() / count + smooth.sum() / count. Its
 * labels are a name that is bound anew. */
static struct mpl_tensor *smooth(struct mpl_tape *tape, struct mpl_tensor *scores,
                                 struct mpl_tensor **labels)
{
    struct mpl_tensor *mask = mpl_hold(mpl_op_map(tape, "eq.Scalar", MPL_BOOL, *labels, NULL));
    struct mpl_tensor *nll, *all, *count, *loss;

    mpl_rebind(tape, labels, mpl_op_map(tape, "clamp.default", MPL_INT64, *labels, NULL));
    nll = mpl_hold(mpl_op_gather_last(tape, scores, *labels));
    all = mpl_hold(mpl_op_sum_last(tape, scores, true, MPL_FLOAT32));
    mpl_rebind(tape, &nll, mpl_op_masked_fill_in_place(tape, nll, mask));
    mpl_rebind(tape, &all, mpl_op_masked_fill_in_place(tape, all, mask));
    count = mpl_op_sum_all(tape, mpl_op_to(tape, mask, MPL_INT64));
    count = mpl_hold(mpl_op_map(tape, "rsub.Scalar", MPL_INT64, count, NULL));
    mpl_rebind(tape, &nll, mpl_op_div_constant(tape, mpl_op_sum_all(tape, nll), count));
    mpl_rebind(tape, &all,
               mpl_op_div_constant(tape, mpl_op_sum_all(tape, all),
                                   mpl_op_map(tape, "mul.Tensor", MPL_INT64, count, NULL)));
    loss = mpl_op_add(tape, mpl_op_mul_number(tape, nll), mpl_op_mul_number(tape, all));
    mpl_drop(tape, count);
    mpl_drop(tape, all);
    mpl_drop(tape, nll);
    mpl_drop(tape, mask);
    return loss;
}

/* The model runs without labels; logits and labels are cut, not padded. */
struct mpl_tensor *mpl_loss_label_smoothing(struct mpl_tape *tape, struct mpl_lm *lm,
                                            struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *logits, *labels, *scores;
    struct mpl_tensor *loss;
    struct mpl_dim rest;

    *logits_out = mpl_hold(mpl_lm_logits(tape, lm, h));
    mpl_drop(tape, h);
    mpl_network_leave(tape, lm->network, logits_out, 1);
    if ((*logits_out)->is_void)
        return *logits_out;
    rest = (*logits_out)->shape.dim[1];
    rest.n--;
    logits = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, *logits_out, 1, rest)));
    labels = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, batch->labels, 1, rest)));
    scores = mpl_hold(mpl_op_neg(tape, mpl_op_log_softmax(tape, logits)));
    mpl_rebind(tape, &labels, mpl_op_unsqueeze(tape, labels, 2));
    loss = smooth(tape, scores, &labels);
    mpl_drop(tape, scores);
    mpl_drop(tape, labels);
    mpl_drop(tape, logits);
    return loss;
}
