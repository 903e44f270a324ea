/* SPDX-License-Identifier: MIT */
/*
 * TRL's chunked loss: head, log-softmax, accuracy and entropy of a few tokens at a time, each chunk
 * a checkpointed call. Every token counts.
 *
 * source: trl/trainer/sft_trainer.py (_chunked_cross_entropy_loss, _chunk,
 * _patch_chunked_ce_lm_head); release 1.8.0
 */
#include "op/op.h"
#include "part/loss.h"

/* One checkpointed call; it lives as long as the tape. */
struct chunk {
    const struct mpl_lm *lm;
    struct mpl_tensor *labels;            /* int64 [c] */
    struct mpl_tensor *correct, *entropy; /* further results, held */
};

/* ((logits.argmax(-1) == labels) & valid).sum().float() */
static struct mpl_tensor *count_correct(struct mpl_tape *tape, struct mpl_tensor *labels,
                                        struct mpl_tensor *valid)
{
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *guess =
        mpl_hold(mpl_op_map(tape, "argmax.default", MPL_INT64, labels, NULL));
    struct mpl_tensor *same = mpl_hold(mpl_op_map(tape, "eq.Tensor", MPL_BOOL, guess, NULL)), *sum;

    mpl_drop(tape, guess);
    sum = mpl_op_map(tape, "bitwise_and.Tensor", MPL_BOOL, valid, NULL);
    mpl_drop(tape, same);
    mpl_consume(tape, sum);
    sum = mpl_empty(tape, "sum.default", MPL_INT64, &scalar);
    return mpl_op_to(tape, sum, MPL_FLOAT32);
}

/* (-(log_p.exp() * log_p).sum(dim=-1) * valid).sum() */
static struct mpl_tensor *entropy_of(struct mpl_tape *tape, struct mpl_tensor *scores,
                                     struct mpl_tensor *valid)
{
    struct mpl_tensor *product = mpl_op_mul(tape, mpl_op_exp(tape, scores), scores);
    struct mpl_tensor *each = mpl_op_neg(tape, mpl_op_sum_last(tape, product, false, MPL_FLOAT32));

    return mpl_op_sum_all(tape, mpl_op_mul(tape, each, valid));
}

static struct mpl_tensor *chunk_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *h)
{
    struct chunk *chunk = context;
    struct mpl_tensor *weight = mpl_network_weight(chunk->lm->network, chunk->lm->head.weight);
    struct mpl_tensor *wide = mpl_op_to(tape, h, MPL_FLOAT32), *logits, *scores, *valid, *loss;

    weight = mpl_op_to(tape, weight, MPL_FLOAT32);
    if (!weight->is_void) /* w.t(): no leaf, so autocast keeps no copy of it */
        weight = mpl_op_reshape(tape, weight, weight->shape);
    logits = mpl_hold(mpl_op_linear(tape, wide, weight, NULL));
    scores = mpl_hold(mpl_op_log_softmax(tape, logits));
    loss = mpl_hold(mpl_op_nll_loss(tape, scores, chunk->labels));
    valid = mpl_hold(mpl_op_map(tape, "ne.Scalar", MPL_BOOL, chunk->labels, NULL));
    chunk->correct = mpl_hold(count_correct(tape, chunk->labels, valid));
    chunk->entropy = mpl_hold(entropy_of(tape, scores, valid));
    mpl_drop(tape, valid);
    mpl_drop(tape, scores);
    mpl_drop(tape, logits);
    if (tape->is_in_backward) { /* computed again for the loss alone */
        mpl_drop(tape, chunk->correct);
        mpl_drop(tape, chunk->entropy);
    }
    return mpl_return(loss);
}

/* Locals of _chunked_cross_entropy_loss. */
struct locals {
    struct mpl_tensor *hidden, *labels, *valid, *count, *correct, *entropy, *order, *padded, *loss;
    struct mpl_tensor *chunk_loss, *chunk_correct, *chunk_entropy; /* of the last chunk */
};

/* Valid tokens first: a copy of hidden states and labels in another order. */
static void pack(struct mpl_tape *tape, struct locals *l, struct mpl_tensor *h,
                 struct mpl_tensor *labels)
{
    struct mpl_dim rest = h->shape.dim[1], rows;
    struct mpl_shape flat;

    rest.n--;
    rows = mpl_dim_mul(h->shape.dim[0], rest);
    flat = mpl_shape2(rows, h->shape.dim[2]);
    l->hidden = mpl_hold(mpl_op_reshape(tape, mpl_op_narrow(tape, h, 1, rest), flat));
    l->labels =
        mpl_hold(mpl_op_reshape(tape, mpl_op_narrow(tape, labels, 1, rest), mpl_shape1(rows)));
    l->valid = mpl_hold(mpl_op_map(tape, "ne.Scalar", MPL_BOOL, l->labels, NULL));
    l->count = mpl_hold_scalar(tape, "sum.default", MPL_INT64);
    l->correct = mpl_hold_scalar(tape, "new_zeros.default", MPL_FLOAT32);
    l->entropy = mpl_hold_scalar(tape, "new_zeros.default", MPL_FLOAT32);
    l->order = mpl_op_map(tape, "_to_copy.default", MPL_UINT8, l->valid, NULL);
    mpl_consume(tape, mpl_op_map(tape, "sort.stable", MPL_UINT8, l->valid, NULL));
    l->order = mpl_hold(mpl_op_map(tape, "sort.stable", MPL_INT64, l->order, NULL));
    mpl_rebind(tape, &l->hidden,
               mpl_op_index_keys(tape, l->hidden, (struct mpl_tensor *[]){l->order}, 1, &flat));
    flat = mpl_shape1(rows);
    mpl_rebind(tape, &l->labels,
               mpl_op_index_keys(tape, l->labels, (struct mpl_tensor *[]){l->order}, 1, &flat));
    l->padded = mpl_hold_scalar(tape, "mul.Tensor", MPL_INT64);
    l->loss = mpl_hold_scalar(tape, "new_zeros.default", MPL_FLOAT32);
}

/* use_reentrant=False, whatever the layers are run with */
static struct mpl_tensor *checkpointed(struct mpl_tape *tape, struct chunk *chunk,
                                       struct mpl_tensor *h)
{
    const struct mpl_checkpoint_options options = tape->checkpoint;
    struct mpl_tensor **const kwargs[MPL_MAX_KWARGS] = {&chunk->labels}, *result;

    tape->checkpoint = (struct mpl_checkpoint_options){.is_reentrant = false};
    result = mpl_checkpoint(tape, chunk_forward, chunk, h, kwargs);
    tape->checkpoint = options;
    return result;
}

static void run_chunk(struct mpl_tape *tape, const struct mpl_lm *lm, struct locals *l,
                      struct mpl_dim rows)
{
    struct chunk *chunk = mpl_arena_zalloc(&tape->arena, sizeof(*chunk));
    struct mpl_tensor *h;

    if (!chunk) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    chunk->lm = lm;
    h = mpl_hold(mpl_op_narrow(tape, l->hidden, 0, rows));
    chunk->labels = mpl_hold(mpl_op_narrow(tape, l->labels, 0, rows));
    mpl_rebind(tape, &l->chunk_loss, checkpointed(tape, chunk, h));
    mpl_drop(tape, l->chunk_correct);
    mpl_drop(tape, l->chunk_entropy);
    l->chunk_correct = chunk->correct;
    l->chunk_entropy = chunk->entropy;
    mpl_rebind(tape, &l->loss, mpl_op_add(tape, l->loss, l->chunk_loss));
    mpl_rebind(tape, &l->correct, mpl_op_add(tape, l->correct, l->chunk_correct));
    mpl_rebind(tape, &l->entropy, mpl_op_add(tape, l->entropy, l->chunk_entropy));
    mpl_drop(tape, chunk->labels); /* the checkpoint holds it */
    mpl_drop(tape, h);
}

static void drop_locals(struct mpl_tape *tape, struct locals *l)
{
    struct mpl_tensor *const names[] = {
        l->hidden, l->labels, l->valid, l->count,      l->correct,       l->entropy,
        l->order,  l->padded, l->loss,  l->chunk_loss, l->chunk_correct, l->chunk_entropy};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        mpl_drop(tape, names[i]);
}

struct mpl_tensor *mpl_loss_chunked_nll(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const int64_t size = lm->network->plan->training.loss.chunk_tokens;
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *loss;
    struct locals l = {0};
    int64_t rows;

    (void)logits_out;
    if (lm->head.bias != MPL_NO_PARAMETER || lm->family->finish_logits)
        mpl_tape_fail(tape, MEMPLAN_ERR_UNSUPPORTED,
                      "training.loss.name: chunked_nll is not modelled for a head with a bias, a "
                      "scale or a cap");
    if (h->is_void || tape->is_stopped)
        return tape->void_tensor;
    pack(tape, &l, h, batch->labels);
    rows = l.hidden->is_void ? 0 : l.hidden->shape.dim[0].n;
    for (int64_t at = 0; at < rows && !tape->is_stopped; at += size)
        run_chunk(tape, lm, &l, mpl_dim(rows - at < size ? rows - at : size));
    loss = mpl_op_div_constant(tape, l.loss, l.count);
    drop_locals(tape, &l);
    mpl_drop(tape, h);
    return loss;
}
