/* SPDX-License-Identifier: MIT */
/*
 * Direct preference optimization: chosen and rejected answers through the model in one batch, the
 * same through a frozen reference, sigmoid loss, the trainer's metrics. Every token counts as part
 * of an answer.
 *
 * source: trl/trainer/dpo_trainer.py (DPOTrainer._compute_loss), trl/trainer/utils.py
 * (selective_log_softmax, entropy_from_logits); release 0.29.0
 */
#include "op/op.h"
#include "part/adapter.h"
#include "part/loss.h"

#define ENTROPY_ROWS 128

/* ---- log-probabilities of the tokens -----------------------------------------------------------
 */

/* One name for each row, in the tape's memory. */
static struct mpl_tensor **rows_new(struct mpl_tape *tape, int64_t count)
{
    struct mpl_tensor **rows = mpl_arena_zalloc(&tape->arena, (size_t)count * sizeof(*rows));

    if (!rows)
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    return rows;
}

/* float32: gather, minus a row's logsumexp */
static struct mpl_tensor *wide_scores(struct mpl_tape *tape, struct mpl_tensor *logits,
                                      struct mpl_tensor *index, struct mpl_tensor **rows, int count)
{
    struct mpl_tensor *selected = mpl_hold(mpl_op_gather_last(tape, logits, index)), *sums, *scores;

    mpl_op_unbind(tape, logits, count, rows);
    for (int i = 0; i < count; i++)
        rows[i] = mpl_op_logsumexp(tape, rows[i]);
    sums = mpl_hold(mpl_op_stack(tape, rows, count));
    scores = mpl_op_sub(tape, selected, mpl_op_unsqueeze(tape, sums, 2));
    mpl_drop(tape, selected);
    mpl_drop(tape, sums);
    return scores;
}

/* half: a row's log_softmax, gathered */
static struct mpl_tensor *half_scores(struct mpl_tape *tape, struct mpl_tensor *logits,
                                      struct mpl_tensor *index, struct mpl_tensor **rows, int count)
{
    struct mpl_tensor **keys = rows_new(tape, count), *scores = NULL, *next, *result;

    if (!keys)
        return tape->void_tensor;
    mpl_op_unbind(tape, logits, count, rows);
    mpl_op_unbind(tape, index, count, keys);
    for (int i = 0; i < count; i++) { /* a row's scores stay bound until the next row's */
        next = mpl_hold(mpl_op_log_softmax(tape, rows[i]));
        mpl_drop(tape, scores);
        scores = next;
        rows[i] = mpl_op_gather_last(tape, scores, keys[i]);
    }
    result = mpl_op_stack(tape, rows, count);
    mpl_drop(tape, scores);
    return result;
}

/* selective_log_softmax(logits, labels) [b, s]: floating */
struct mpl_tensor *mpl_loss_selective(struct mpl_tape *tape, struct mpl_tensor *logits,
                                      struct mpl_tensor *labels)
{
    const int count = logits->is_void ? 0 : (int)logits->shape.dim[0].n;
    struct mpl_tensor **rows = rows_new(tape, count + 1), *index, *scores;

    if (!rows || !count)
        return tape->void_tensor;
    index = mpl_hold(mpl_op_unsqueeze(tape, labels, 2));
    scores = logits->dtype == MPL_FLOAT32 ? wide_scores(tape, logits, index, rows, count)
                                          : half_scores(tape, logits, index, rows, count);
    mpl_drop(tape, index);
    return mpl_op_reshape(tape, scores, labels->shape);
}

/* Locals of _compute_loss for one of the two models. */
struct scored {
    struct mpl_tensor *logits, *shifted, *tokens, *sums; /* held */
};

static struct scored score(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch,
                           struct mpl_tensor **labels, struct mpl_tensor **mask)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch));
    struct scored scored = {.logits = mpl_hold(mpl_lm_logits(tape, lm, h))};
    struct mpl_dim rest = scored.logits->is_void ? mpl_dim(1) : scored.logits->shape.dim[1];

    mpl_drop(tape, h);
    mpl_network_leave(tape, lm->network, &scored.logits, 1);
    rest.n--;
    scored.shifted = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, scored.logits, 1, rest)));
    if (!*labels) {
        *labels = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, batch->input_ids, 1, rest)));
        *mask = mpl_hold(mpl_op_contiguous(tape, mpl_op_narrow(tape, batch->labels, 1, rest)));
    }
    return scored;
}

/* ref_model(...), or the model itself without its adapters: without gradients. FSDP's hooks are
 * part of the model's call; DDP's and DeepSpeed's are not: they wrap another object. */
static struct scored score_reference(struct mpl_tape *tape, struct mpl_lm *lm,
                                     struct mpl_batch *batch, struct mpl_tensor **labels,
                                     struct mpl_tensor **mask)
{
    struct mpl_network *network = lm->network;
    const enum mpl_strategy strategy = network->plan->parallelism.strategy;
    const struct mpl_module *root = &network->modules[0];
    const bool is_sharded = strategy == MPL_STRATEGY_FSDP1 || strategy == MPL_STRATEGY_FSDP2;
    struct mpl_lm policy = *lm; /* a layer that is computed again reads its forward's names */
    struct scored scored;

    tape->is_grad_enabled = false;
    if (network->reference) {
        scored = score(tape, network->reference->family, batch, labels, mask);
        mpl_lm_leave(tape, network->reference->family);
    } else {
        mpl_adapters_set(network, false);
        if (is_sharded)
            root->hooks->pre_forward(tape, root->wrapper, NULL);
        network->has_left = !is_sharded;
        scored = score(tape, lm, batch, labels, mask);
        mpl_adapters_set(network, true);
        mpl_lm_leave(tape, lm);
        policy.rope = lm->rope;
        *lm = policy;
    }
    tape->is_grad_enabled = true;
    return scored;
}

static void finish(struct mpl_tape *tape, struct scored *scored, struct mpl_tensor *labels,
                   struct mpl_tensor *mask)
{
    scored->tokens = mpl_hold(mpl_loss_selective(tape, scored->shifted, labels));
    mpl_rebind(tape, &scored->tokens,
               mpl_op_index_put_in_place(tape, scored->tokens,
                                         mpl_op_map(tape, "eq.Scalar", MPL_BOOL, mask, NULL)));
    scored->sums = mpl_hold(
        mpl_op_sum_last(tape, scored->tokens, false, (enum mpl_dtype)scored->tokens->dtype));
}

static void drop_scored(struct mpl_tape *tape, struct scored *scored)
{
    mpl_drop(tape, scored->sums);
    mpl_drop(tape, scored->tokens);
    mpl_drop(tape, scored->shifted);
    mpl_drop(tape, scored->logits);
}

/* ---- loss and metrics --------------------------------------------------------------------------
 */

/* One part of entropy_from_logits: *scores is bound anew; what stays is a number for each row. */
static struct mpl_tensor *part_entropy(struct mpl_tape *tape, enum mpl_dtype dtype,
                                       const struct mpl_shape *part, struct mpl_tensor **scores)
{
    const struct mpl_shape rows = mpl_shape1(part->dim[0]);
    struct mpl_tensor *next = mpl_hold(mpl_empty(tape, "_log_softmax.default", dtype, part));
    struct mpl_tensor *power, *product, *sum, *result;

    mpl_drop(tape, *scores);
    *scores = next;
    power = mpl_hold(mpl_empty(tape, "exp.default", dtype, part));
    product = mpl_hold(mpl_empty(tape, "mul.Tensor", dtype, part));
    mpl_drop(tape, power);
    sum = mpl_hold(mpl_empty(tape, "sum.dim_IntList", dtype, &rows));
    mpl_drop(tape, product);
    result = mpl_hold(mpl_empty(tape, "neg.default", dtype, &rows));
    mpl_drop(tape, sum);
    return result;
}

/* entropy_from_logits: 128 rows at a time. */
struct mpl_tensor *mpl_loss_entropy(struct mpl_tape *tape, const struct mpl_tensor *logits)
{
    const enum mpl_dtype dtype =
        tape->autocast != MPL_DTYPE_NONE ? MPL_FLOAT32 : (enum mpl_dtype)logits->dtype;
    const int64_t rows = logits->shape.dim[0].n * logits->shape.dim[1].n;
    const int64_t count = (rows + ENTROPY_ROWS - 1) / ENTROPY_ROWS;
    const struct mpl_shape all = mpl_shape1(mpl_dim(rows));
    struct mpl_tensor **parts = rows_new(tape, count), *scores = NULL, *result;

    if (!parts)
        return mpl_hold(tape->void_tensor);
    for (int64_t i = 0; i < count; i++) {
        const int64_t left = rows - i * ENTROPY_ROWS;
        const struct mpl_shape part =
            mpl_shape2(mpl_dim(left < ENTROPY_ROWS ? left : ENTROPY_ROWS), logits->shape.dim[2]);

        parts[i] = part_entropy(tape, dtype, &part, &scores);
    }
    result = mpl_hold(mpl_empty(tape, "cat.default", dtype, &all));
    mpl_drop(tape, scores);
    for (int64_t i = 0; i < count; i++)
        mpl_drop(tape, parts[i]);
    return result;
}

/* Entropy, mean logits of both halves (a copy of the rows that count), accuracy. */
static void metrics(struct mpl_tape *tape, const struct mpl_tensor *logits)
{
    struct mpl_shape half, row;
    struct mpl_tensor *kept;

    if (logits->is_void)
        return;
    kept = mpl_loss_entropy(tape, logits);
    half = logits->shape;
    half.dim[0].n /= 2;
    row = half;
    row.ndim--;
    for (int i = 0; i < 2; i++) {
        struct mpl_tensor *copy =
            mpl_hold(mpl_empty(tape, "index.Tensor", (enum mpl_dtype)logits->dtype, &half));

        mpl_drop(tape, mpl_hold(mpl_empty(tape, "mean.dim", (enum mpl_dtype)logits->dtype, &row)));
        mpl_drop(tape, copy);
    }
    mpl_drop(tape, mpl_hold(mpl_empty(tape, "argmax.default", MPL_INT64, &row)));
    mpl_drop(tape, kept);
}

/* -logsigmoid(beta * ((chosen - reference) - (rejected - reference))).mean(), then the metrics,
 * while its parts are still named. */
static struct mpl_tensor *sigmoid_loss(struct mpl_tape *tape, struct mpl_tensor *const chosen[2],
                                       struct mpl_tensor *const reference[2],
                                       const struct mpl_tensor *logits)
{
    struct mpl_tensor *ratios[2], *delta, *each, *loss;

    for (int i = 0; i < 2; i++)
        ratios[i] = mpl_hold(mpl_op_sub(tape, chosen[i], reference[i]));
    delta = mpl_hold(mpl_op_sub(tape, ratios[0], ratios[1]));
    each = mpl_hold(mpl_op_neg(tape, mpl_op_log_sigmoid(tape, mpl_op_mul_number(tape, delta))));
    loss = mpl_op_add_scalar(tape, mpl_op_mul_number(tape, mpl_op_mean_all(tape, each)));
    metrics(tape, logits);
    mpl_drop(tape, each);
    mpl_drop(tape, delta);
    mpl_drop(tape, ratios[0]);
    mpl_drop(tape, ratios[1]);
    return loss;
}

/* ---- the rule ----------------------------------------------------------------------------------
 */

/* The reference's sums: of its forward, or two tensors that came with the batch. */
static void reference_sums(struct mpl_tape *tape, const struct mpl_lm *lm,
                           const struct scored *reference, struct mpl_tensor *parts[2])
{
    const struct mpl_shape pairs =
        mpl_shape1(mpl_dim(lm->network->plan->training.micro_batch_size));

    if (reference->sums)
        mpl_op_chunk(tape, reference->sums, 0, 2, parts);
    else
        for (int i = 0; i < 2; i++)
            parts[i] = mpl_empty(tape, "empty.memory_format", MPL_FLOAT32, &pairs);
    for (int i = 0; i < 2; i++)
        mpl_hold(parts[i]);
}

struct mpl_tensor *mpl_loss_dpo(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch,
                                struct mpl_tensor **logits_out)
{
    const enum mpl_reference from = lm->network->plan->training.loss.reference;
    struct mpl_tensor *labels = NULL, *mask = NULL, *loss, *parts[2], *reference_parts[2];
    struct scored policy = score(tape, lm, batch, &labels, &mask), reference = {0};

    finish(tape, &policy, labels, mask);
    mpl_op_chunk(tape, policy.sums, 0, 2, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    if (from != MPL_REFERENCE_PRECOMPUTED) {
        mpl_lm_leave(tape, lm);
        reference = score_reference(tape, lm, batch, &labels, &mask);
        finish(tape, &reference, labels, mask);
    }
    reference_sums(tape, lm, &reference, reference_parts);
    loss = sigmoid_loss(tape, parts, reference_parts, policy.shifted);
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, parts[i]);
        mpl_drop(tape, reference_parts[i]);
    }
    drop_scored(tape, &reference);
    mpl_drop(tape, labels);
    mpl_drop(tape, mask);
    *logits_out = mpl_hold(policy.logits);
    drop_scored(tape, &policy);
    return loss;
}
