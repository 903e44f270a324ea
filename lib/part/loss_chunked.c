/* SPDX-License-Identifier: MIT */
/*
 * Cross-entropy whose logits are made in parts of the sequence.
 *
 * source: torchtune/modules/transformer.py (chunked_output), modules/loss/ce_chunked_output_loss.py
 * (CEWithChunkedOutputLoss), recipes/full_finetune_single_device.py; release 0.6.1.
 * torchtitan/components/loss.py (ChunkedLossWrapper, GradAccumulator,
 * _DecoderOutputGradientBackProp, cross_entropy_loss); release 0.3.0
 */
#include "op/op.h"
#include "part/loss.h"

static int chunks_of(const struct mpl_lm *lm)
{
    return (int)lm->network->plan->training.loss.chunks;
}

/* ---- torchtune ---------------------------------------------------------------------------------
 */

/* torch.hstack((labels[..., 1:], ignored)): held; the batch lets go of the old ones. */
static struct mpl_tensor *shift_labels(struct mpl_tape *tape, struct mpl_batch *batch)
{
    struct mpl_tensor *labels =
        mpl_hold(mpl_empty(tape, "cat.default", MPL_INT64, &batch->labels->shape));

    mpl_drop(tape, batch->labels);
    batch->labels = NULL;
    return labels;
}

/* F.cross_entropy(logits.reshape(-1, v).float(), labels.reshape(-1)) for one part */
static struct mpl_tensor *part_loss(struct mpl_tape *tape, struct mpl_tensor *logits,
                                    struct mpl_tensor *labels)
{
    struct mpl_shape flat;

    if (logits->is_void)
        return logits;
    flat =
        mpl_shape2(mpl_dim_mul(logits->shape.dim[0], logits->shape.dim[1]), logits->shape.dim[2]);
    return mpl_op_cross_entropy(
        tape, mpl_op_to(tape, mpl_op_reshape(tape, logits, flat), MPL_FLOAT32), labels);
}

/* labels.chunk(count, dim=1), each flat: held */
static void chunk_labels(struct mpl_tape *tape, struct mpl_tensor *labels, int count,
                         struct mpl_tensor **parts)
{
    mpl_op_chunk(tape, labels, 1, count, parts);
    for (int i = 0; i < count; i++) {
        struct mpl_shape flat = mpl_shape1(
            parts[i]->is_void ? mpl_dim(1)
                              : mpl_dim_mul(parts[i]->shape.dim[0], parts[i]->shape.dim[1]));

        parts[i] = mpl_hold(mpl_op_reshape(tape, parts[i], flat));
    }
}

static void drop_all(struct mpl_tape *tape, struct mpl_tensor **parts, int count)
{
    for (int i = 0; i < count; i++)
        mpl_drop(tape, parts[i]);
}

struct mpl_tensor *mpl_loss_chunked(struct mpl_tape *tape, struct mpl_lm *lm,
                                    struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const int count = chunks_of(lm);
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *logits[MPL_MAX_CHUNKS], *targets[MPL_MAX_CHUNKS];
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *labels, *total, *loss = NULL;

    (void)logits_out;
    mpl_op_chunk(tape, h, 1, count, logits);
    for (int i = 0; i < count; i++)
        logits[i] = mpl_hold(mpl_lm_logits(tape, lm, logits[i]));
    mpl_drop(tape, h);
    mpl_network_leave(tape, lm->network, logits, count);
    labels = shift_labels(tape, batch);
    mpl_consume(tape, mpl_op_map(tape, "ne.Scalar", MPL_BOOL, labels, NULL));
    total = mpl_hold(mpl_empty(tape, "sum.default", MPL_INT64, &scalar));
    chunk_labels(tape, labels, count, targets);
    for (int i = 0; i < count; i++) {
        struct mpl_tensor *part = part_loss(tape, logits[i], targets[i]);

        if (!loss)
            loss = mpl_hold(mpl_op_add_scalar(tape, part)); /* 0.0 + part */
        else
            mpl_rebind(tape, &loss, mpl_op_add_in_place(tape, loss, part));
    }
    mpl_rebind(tape, &loss, mpl_op_div_constant(tape, loss, total));
    drop_all(tape, targets, count);
    drop_all(tape, logits, count);
    mpl_drop(tape, total);
    mpl_drop(tape, labels);
    return mpl_return(loss);
}

/* ---- torchtitan --------------------------------------------------------------------------------
 */

/* The gradient that was summed up is handed on. */
static void bridge_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    (void)out;
    in[0] = mpl_hold(mpl_unpack(tape, &node->saved[0]));
}

/* Locals of ChunkedLossWrapper.__call__: names of one part stay bound until the next part's. */
struct titan {
    struct mpl_tensor *h[MPL_MAX_CHUNKS], *labels[MPL_MAX_CHUNKS];
    struct mpl_tensor *count, *buffer, *total, *logits, *loss;
};

static void rebind_or_hold(struct mpl_tape *tape, struct mpl_tensor **name,
                           struct mpl_tensor *value)
{
    struct mpl_tensor *old = *name;

    *name = mpl_hold(value);
    mpl_drop(tape, old);
}

/* Contiguous parts; those of the hidden states are leaves. */
static void cut(struct mpl_tape *tape, struct titan *titan, struct mpl_tensor *h,
                struct mpl_tensor *labels, int count)
{
    struct mpl_tensor *parts[MPL_MAX_CHUNKS];

    mpl_op_chunk(tape, h, 1, count, parts);
    for (int i = 0; i < count; i++)
        parts[i] = mpl_hold(mpl_op_contiguous(tape, parts[i]));
    for (int i = 0; i < count; i++) {
        titan->h[i] = mpl_hold(mpl_alias(tape, parts[i]));
        if (!titan->h[i]->is_void)
            titan->h[i]->requires_grad = h->requires_grad;
    }
    drop_all(tape, parts, count);
    mpl_op_chunk(tape, labels, 1, count, titan->labels);
    for (int i = 0; i < count; i++)
        titan->labels[i] = mpl_hold(mpl_op_contiguous(tape, titan->labels[i]));
}

/* lm_head, loss and backward of one part; the gradient of its hidden states goes into the buffer.
 */
static void run_part(struct mpl_tape *tape, struct mpl_lm *lm, struct titan *titan, int i)
{
    struct mpl_tensor *h = titan->h[i], *labels, *loss;

    rebind_or_hold(tape, &titan->logits, mpl_lm_logits(tape, lm, h));
    if (titan->logits->is_void)
        return;
    labels = mpl_op_reshape(
        tape, titan->labels[i],
        mpl_shape1(mpl_dim_mul(titan->labels[i]->shape.dim[0], titan->labels[i]->shape.dim[1])));
    loss = part_loss(tape, titan->logits, labels);
    rebind_or_hold(tape, &titan->loss, mpl_op_div_constant(tape, loss, titan->count));
    mpl_rebind(tape, &titan->total,
               mpl_op_map(tape, "add.Tensor", MPL_FLOAT32, titan->total, NULL));
    mpl_backward(tape, titan->loss);
    if (h->grad && h->grad->dtype != MPL_FLOAT32)
        mpl_drop(tape, mpl_hold(mpl_op_map(tape, "_to_copy.default", MPL_FLOAT32, h->grad, NULL)));
    mpl_drop(tape, h->grad);
    h->grad = NULL;
}

/* _DecoderOutputGradientBackProp.apply(hidden_states, accumulated_grad, total_loss) */
static struct mpl_tensor *bridge(struct mpl_tape *tape, struct mpl_tensor *h,
                                 struct mpl_tensor *grad, struct mpl_tensor *total)
{
    struct mpl_node *node =
        mpl_node_new(tape, "_DecoderOutputGradientBackPropBackward", bridge_backward, &h, 1, 1, 1);
    struct mpl_tensor *loss = mpl_alias(tape, total);

    mpl_save(tape, node, grad);
    mpl_set_history(tape, loss, node, 0);
    return loss;
}

struct mpl_tensor *mpl_loss_torchtitan(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const int count = chunks_of(lm);
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *grad, *loss;
    struct titan titan = {0};

    (void)logits_out;
    titan.count = mpl_hold(mpl_empty(tape, "empty.memory_format", MPL_INT64, &scalar));
    cut(tape, &titan, h, batch->labels, count);
    titan.buffer = mpl_hold(mpl_op_map(tape, "zeros_like.default", MPL_FLOAT32, h, NULL));
    titan.total = mpl_hold(mpl_empty(tape, "new_zeros.default", MPL_FLOAT32, &scalar));
    for (int i = 0; i < count && !tape->is_stopped; i++)
        run_part(tape, lm, &titan, i);
    grad = mpl_hold(
        mpl_op_to(tape, titan.buffer, h->is_void ? MPL_FLOAT32 : (enum mpl_dtype)h->dtype));
    loss = bridge(tape, h, grad, titan.total);
    mpl_drop(tape, grad);
    drop_all(tape, titan.h, count);
    drop_all(tape, titan.labels, count);
    mpl_drop(tape, titan.loss);
    mpl_drop(tape, titan.logits);
    mpl_drop(tape, titan.total);
    mpl_drop(tape, titan.buffer);
    mpl_drop(tape, titan.count);
    mpl_drop(tape, h);
    return loss;
}
