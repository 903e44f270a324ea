/* SPDX-License-Identifier: MIT */
/*
 * Sequence classification: a head of num_labels on every token, the last real token's row, and
 * cross-entropy; or a head on what the family makes of the first token.
 *
 * source: transformers/modeling_layers.py (GenericForSequenceClassification), loss/loss_utils.py
 * (ForSequenceClassificationLoss); release 5.24.0
 */
#include "op/op.h"
#include "part/loss.h"

/* Where the last token stands that is no padding: held int64 [b]; all are locals of forward. */
struct last_token {
    struct mpl_tensor *non_pad, *indices, *last;
};

static struct last_token find_last(struct mpl_tape *tape, struct mpl_tensor *ids)
{
    const struct mpl_shape positions = mpl_shape1(ids->shape.dim[1]);
    const struct mpl_shape rows = mpl_shape1(ids->shape.dim[0]);
    struct last_token found;
    struct mpl_tensor *product;

    found.non_pad =
        mpl_hold(mpl_op_to(tape, mpl_op_map(tape, "ne.Scalar", MPL_BOOL, ids, NULL), MPL_INT32));
    found.indices = mpl_hold(mpl_empty(tape, "arange.default", MPL_INT32, &positions));
    product = mpl_hold(mpl_op_map(tape, "mul.Tensor", MPL_INT32, found.non_pad, found.indices));
    found.last = mpl_hold(mpl_empty(tape, "argmax.default", MPL_INT64, &rows));
    mpl_drop(tape, product);
    return found;
}

/* logits[arange(b), last]: [b, num_labels] */
static struct mpl_tensor *pool(struct mpl_tape *tape, struct mpl_tensor *logits,
                               struct mpl_tensor *last)
{
    const struct mpl_shape rows = mpl_shape1(logits->shape.dim[0]);
    const struct mpl_shape shape = mpl_shape2(logits->shape.dim[0], logits->shape.dim[2]);
    struct mpl_tensor *keys[2] = {mpl_empty(tape, "arange.default", MPL_INT64, &rows), last};

    return mpl_op_index_keys(tape, logits, keys, last ? 2 : 1, &shape);
}

/* ...ForSequenceClassification of the family's own: the model's result lives until it returns. */
static struct mpl_tensor *classify_pooled(struct mpl_tape *tape, struct mpl_lm *lm,
                                          struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *pooled, *loss;

    pooled = mpl_hold(lm->family->pool(tape, lm, h));
    *logits_out = mpl_hold(mpl_lm_logits(tape, lm, pooled));
    loss = (*logits_out)->is_void ? tape->void_tensor
                                  : mpl_op_cross_entropy(tape, *logits_out, batch->labels);
    mpl_drop(tape, pooled);
    mpl_drop(tape, h);
    return loss;
}

struct mpl_tensor *mpl_loss_classification(struct mpl_tape *tape, struct mpl_lm *lm,
                                           struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const bool has_pad = lm->network->plan->model.pad_token_id >= 0;
    struct mpl_tensor *h, *logits, *loss;
    struct last_token found = {NULL, NULL, NULL};

    if (mpl_lm_pools(lm))
        return classify_pooled(tape, lm, batch, logits_out);
    h = mpl_hold(mpl_lm_hidden(tape, lm, batch));
    logits = mpl_hold(mpl_lm_logits(tape, lm, h));
    if (logits->is_void)
        return logits;
    if (has_pad)
        found = find_last(tape, batch->input_ids);
    *logits_out = mpl_hold(pool(tape, logits, found.last));
    loss = mpl_op_cross_entropy(tape, *logits_out, batch->labels);
    mpl_drop(tape, found.last);
    mpl_drop(tape, found.indices);
    mpl_drop(tape, found.non_pad);
    mpl_drop(tape, logits);
    mpl_drop(tape, h);
    return loss;
}
