/* SPDX-License-Identifier: MIT */
/*
 * TRL's fused head: log-probability, entropy and rank of each label from tiles of logits that are
 * never whole; backward computes the tiles again. Its Triton kernels work in place. Every label but
 * the first of a sequence counts.
 *
 * source: trl/trainer/utils.py (add_fused_lm_head), trl/kernels/chunked_logprob.py
 * (ChunkedLogProbFunction), trl/trainer/sft_trainer.py (compute_loss); release 1.16.0.
 * aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), IndexKernel.cpp
 * (masked_scatter); PyTorch 2.14.1
 */
#include "op/op.h"
#include "op/rule.h"
#include "part/loss.h"

#define TILE_TOKENS INT64_C(4096)  /* TOKEN_CHUNK_SIZE */
#define TILE_WORDS  INT64_C(32768) /* _CHUNKED_LOGPROB_CHUNK_SIZE */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void passing(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                    struct mpl_shape shape)
{
    mpl_drop(tape, mpl_hold_empty(tape, op, dtype, shape));
}

static struct mpl_dim count_of(const struct mpl_tensor *mask)
{
    return mpl_dim_mul(mask->shape.dim[0], mask->shape.dim[1]);
}

/* mask.nonzero(): int64, a column for each dimension of the mask [b, s]. */
static struct mpl_tensor *positions_of(struct mpl_tape *tape, const struct mpl_tensor *mask)
{
    return mpl_hold_empty(tape, "nonzero.default", MPL_INT64,
                          mpl_shape2(count_of(mask), mpl_dim(2)));
}

/* ---- hidden[mask] --------------------------------------------------------------------------- */

/* index_put_(accumulate=True): positions as one number, then sorted; int64 [n] each. */
static void put_rows(struct mpl_tape *tape, const struct mpl_tensor *mask)
{
    struct mpl_tensor *positions = positions_of(tape, mask), *linear, *parts[3];
    const struct mpl_shape rows = mpl_shape1(count_of(mask));

    linear = mpl_hold_empty(tape, "mul.Tensor", MPL_INT64, rows);
    mpl_drop(tape, linear);
    linear = mpl_hold_empty(tape, "add.Tensor", MPL_INT64, rows);
    mpl_drop(tape, positions);
    for (int i = 0; i < 3; i++)
        parts[i] = mpl_hold_empty(tape, "sort.default", MPL_INT64, rows);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, parts[i]);
    mpl_drop(tape, linear);
}

static void rows_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);

    in[0] = mpl_hold_empty(tape, "new_zeros.default", (enum mpl_dtype)out[0]->dtype, shape);
    put_rows(tape, mpl_saved(tape, node, 0));
}

/* a[mask], a [b, s, h] and mask [b, s]: a floating copy [b * s, h]. */
static struct mpl_tensor *rows_of(struct mpl_tape *tape, struct mpl_tensor *a,
                                  struct mpl_tensor *mask)
{
    struct mpl_node *node = mpl_node_new(tape, "IndexBackward0", rows_backward, &a, 1, 1, 1);
    struct mpl_tensor *positions = positions_of(tape, mask), *out;
    struct mpl_shape shape = mpl_shape2(count_of(mask), a->shape.dim[2]);

    mpl_save(tape, node, mask);
    out = mpl_empty(tape, "index.Tensor", (enum mpl_dtype)a->dtype, &shape);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, a);
    mpl_drop(tape, positions);
    return out;
}

/* ---- new_zeros(mask.shape).masked_scatter(mask, x) ------------------------------------------- */

static void scatter_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    struct mpl_tensor *mask = mpl_saved(tape, node, 0), *positions = positions_of(tape, mask);

    in[0] = mpl_hold_empty(tape, "masked_select.default", (enum mpl_dtype)out[0]->dtype,
                           mpl_shape1(count_of(mask)));
    mpl_drop(tape, positions);
}

static struct mpl_tensor *scatter(struct mpl_tape *tape, struct mpl_tensor *mask,
                                  struct mpl_tensor *x)
{
    struct mpl_node *node =
        mpl_node_new(tape, "MaskedScatterBackward0", scatter_backward, &x, 1, 1, 1);
    struct mpl_tensor *zeros, *out;

    mpl_save(tape, node, mask);
    zeros = mpl_hold_empty(tape, "new_zeros.default", (enum mpl_dtype)x->dtype, mask->shape);
    out = mpl_empty(tape, "masked_scatter.default", (enum mpl_dtype)x->dtype, &mask->shape);
    passing(tape, "masked_scatter.default", MPL_INT64, mask->shape); /* sums of the mask */
    mpl_drop(tape, zeros);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, x);
    return out;
}

/* ---- the head ------------------------------------------------------------------------------- */

/* One pass over the tiles; inputs are borrowed, the rest is held. */
struct tiles {
    struct mpl_tensor *hidden, *weight;             /* [n, h], [v, h] */
    enum mpl_dtype dtype;                           /* of the tiles */
    struct mpl_tensor *tile;                        /* one buffer for all of them */
    struct mpl_tensor *hidden_chunk, *weight_chunk; /* casts; NULL: views */
};

static enum mpl_dtype tile_dtype(const struct mpl_tape *tape, const struct mpl_tensor *hidden)
{
    return tape->autocast == MPL_DTYPE_NONE ? (enum mpl_dtype)hidden->dtype : tape->autocast;
}

/* name = source[from:to].to(dtype) */
static void bind_part(struct mpl_tape *tape, struct mpl_tensor **name,
                      const struct mpl_tensor *source, enum mpl_dtype dtype, int64_t rows)
{
    struct mpl_tensor *part = NULL;

    if (source->dtype != dtype)
        part = mpl_hold_empty(tape, "_to_copy.default", dtype,
                              mpl_shape2(mpl_dim(rows), source->shape.dim[1]));
    mpl_drop(tape, *name);
    *name = part;
}

/* The gradients' products go into float32 sums in place; forward keeps no part of the weight. */
static void run_tiles(struct mpl_tape *tape, struct tiles *t, bool is_backward)
{
    const int64_t rows = t->hidden->shape.dim[0].n, words = t->weight->shape.dim[0].n;

    t->tile = mpl_hold_empty(tape, "empty.memory_format", t->dtype,
                             mpl_shape2(mpl_dim(least(rows, TILE_TOKENS)), mpl_dim(TILE_WORDS)));
    for (int64_t at = 0; at < rows && !tape->is_stopped; at += TILE_TOKENS) {
        bind_part(tape, &t->hidden_chunk, t->hidden, t->dtype, least(rows - at, TILE_TOKENS));
        for (int64_t word = 0; word < words && !tape->is_stopped; word += TILE_WORDS) {
            bind_part(tape, &t->weight_chunk, t->weight, t->dtype, least(words - word, TILE_WORDS));
            mpl_cublas_workspace(tape);
            if (!is_backward) {
                mpl_drop(tape, t->weight_chunk);
                t->weight_chunk = NULL;
            }
        }
    }
}

static void drop_tiles(struct mpl_tape *tape, struct tiles *t)
{
    mpl_drop(tape, t->hidden_chunk);
    mpl_drop(tape, t->weight_chunk);
    mpl_drop(tape, t->tile);
}

enum { SAVED_HIDDEN, SAVED_WEIGHT, SAVED_LABELS, SAVED_LOG_Z, SAVED_ENTROPY, SAVED_COUNT };

/* Gradients are summed in float32, then cast to what they are gradients of. */
static void head_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct tiles t = {.hidden = mpl_saved(tape, node, SAVED_HIDDEN),
                      .weight = mpl_saved(tape, node, SAVED_WEIGHT),
                      .dtype = (enum mpl_dtype)node->arg[0]};
    struct mpl_tensor *const of[2] = {t.hidden, t.weight};
    struct mpl_tensor *sums[2] = {NULL, NULL};

    (void)out;
    for (int i = 0; i < 2; i++)
        if (mpl_needs(node, i))
            sums[i] = mpl_hold_empty(tape, "zeros.default", MPL_FLOAT32, of[i]->shape);
    run_tiles(tape, &t, true);
    for (int i = 0; i < 2; i++)
        if (sums[i])
            in[i] = mpl_hold(mpl_op_to(tape, sums[i], (enum mpl_dtype)of[i]->dtype));
    drop_tiles(tape, &t);
    mpl_drop(tape, sums[0]);
    mpl_drop(tape, sums[1]);
}

#define RUNNING 7 /* statistics that the tiles are folded into: float32 [n] each */

/* What the head gives for each label, held. */
struct scores {
    struct mpl_tensor *log_probs, *entropy, *is_top1; /* [n] */
};

/* log_z, and from it the log-probabilities, the entropy and whether the label is the largest. */
static void finish(struct mpl_tape *tape, struct mpl_shape rows, struct scores *scores,
                   struct mpl_tensor **log_z)
{
    struct mpl_tensor *part = mpl_hold_empty(tape, "log.default", MPL_FLOAT32, rows), *more;

    *log_z = mpl_hold_empty(tape, "add.Tensor", MPL_FLOAT32, rows);
    mpl_drop(tape, part);
    scores->log_probs = mpl_hold_empty(tape, "sub.Tensor", MPL_FLOAT32, rows);
    part = mpl_hold_empty(tape, "div.Tensor", MPL_FLOAT32, rows);
    scores->entropy = mpl_hold_empty(tape, "sub.Tensor", MPL_FLOAT32, rows);
    mpl_drop(tape, part);
    part = mpl_hold_empty(tape, "ge.Tensor", MPL_BOOL, rows);
    more = mpl_hold_empty(tape, "gt.Tensor", MPL_BOOL, rows);
    scores->is_top1 = mpl_hold_empty(tape, "bitwise_and.Tensor", MPL_BOOL, rows);
    mpl_drop(tape, part);
    mpl_drop(tape, more);
}

/* ChunkedLogProbFunction.forward, without a graph. */
static void run_head(struct mpl_tape *tape, struct tiles *t, struct scores *scores,
                     struct mpl_tensor **log_z)
{
    const bool was_grad_enabled = tape->is_grad_enabled;
    const struct mpl_shape rows = mpl_shape1(t->hidden->shape.dim[0]);
    struct mpl_tensor *running[RUNNING];

    tape->is_grad_enabled = false;
    for (int i = 0; i < RUNNING; i++)
        running[i] = mpl_hold_empty(tape, "zeros.default", MPL_FLOAT32, rows);
    run_tiles(tape, t, false);
    finish(tape, rows, scores, log_z);
    for (int i = 0; i < RUNNING; i++)
        mpl_drop(tape, running[i]);
    drop_tiles(tape, t);
    tape->is_grad_enabled = was_grad_enabled;
}

/* ChunkedLogProbFunction.apply(hidden, weight, None, labels); hidden and labels are held and go. */
static struct scores apply(struct mpl_tape *tape, struct mpl_tensor *hidden,
                           struct mpl_tensor *weight, struct mpl_tensor *labels)
{
    struct mpl_tensor *const inputs[2] = {hidden, weight};
    struct mpl_node *node = mpl_node_new(tape, "ChunkedLogProbFunctionBackward", head_backward,
                                         inputs, 2, 2, SAVED_COUNT);
    struct tiles t = {.hidden = hidden, .weight = weight, .dtype = tile_dtype(tape, hidden)};
    struct scores scores;
    struct mpl_tensor *log_z;

    run_head(tape, &t, &scores, &log_z);
    if (node) {
        struct mpl_tensor *const kept[SAVED_COUNT] = {hidden, weight, labels, log_z,
                                                      scores.entropy};

        for (int i = 0; i < SAVED_COUNT; i++)
            mpl_save(tape, node, kept[i]);
        node->arg[0] = (int64_t)t.dtype;
    }
    mpl_set_history(tape, scores.log_probs, node, 0);
    mpl_drop(tape, log_z);
    mpl_drop(tape, labels);
    mpl_drop(tape, hidden);
    return scores;
}

/* ---- the trainer's loss ---------------------------------------------------------------------- */

/* mask.sum(): a bool is counted as int64. */
static void count_true(struct mpl_tape *tape, const struct mpl_tensor *mask)
{
    const struct mpl_shape scalar = {0};

    passing(tape, "_to_copy.default", MPL_INT64, mask->shape);
    passing(tape, "sum.default", MPL_INT64, scalar);
}

/* The patched forward: what belongs to the labels that count, over all positions. The last of the
 * hidden states and the first of the labels have no counterpart. */
static struct scores score(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_batch *batch,
                           struct mpl_tensor **mask)
{
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *labels, *rows, *positions;
    struct mpl_dim rest = h->shape.dim[1];
    struct scores flat, scores = {NULL, NULL, NULL};

    if (h->is_void || tape->is_stopped)
        return scores;
    rest.n--;
    labels = mpl_hold(mpl_op_narrow(tape, batch->labels, 1, rest));
    *mask = mpl_hold(mpl_op_map(tape, "ne.Scalar", MPL_BOOL, labels, NULL));
    rows = mpl_hold(rows_of(tape, mpl_op_narrow(tape, h, 1, rest), *mask));
    positions = positions_of(tape, *mask);
    mpl_rebind(
        tape, &labels,
        mpl_empty(tape, "index.Tensor", MPL_INT64, &(struct mpl_shape){1, {count_of(*mask)}}));
    mpl_drop(tape, positions);
    flat = apply(tape, rows, mpl_network_weight(lm->network, lm->head.weight), labels);
    scores.log_probs = mpl_hold(scatter(tape, *mask, flat.log_probs));
    scores.entropy = mpl_hold(scatter(tape, *mask, flat.entropy));
    scores.is_top1 = mpl_hold(scatter(tape, *mask, flat.is_top1));
    mpl_drop(tape, flat.log_probs);
    mpl_drop(tape, flat.entropy);
    mpl_drop(tape, flat.is_top1);
    count_true(tape, *mask); /* the model's own loss, which nobody takes */
    mpl_drop(tape, h);
    mpl_network_leave(tape, lm->network, &scores.log_probs, 1);
    return scores;
}

struct mpl_tensor *mpl_loss_fused_lm_head(struct mpl_tape *tape, struct mpl_lm *lm,
                                          struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_tensor *mask = NULL, *each, *loss, *count;
    const struct mpl_shape scalar = {0};
    struct scores scores;

    (void)logits_out;
    if (lm->head.bias != MPL_NO_PARAMETER)
        mpl_tape_fail(tape, MEMPLAN_ERR_UNSUPPORTED,
                      "training.loss.name: fused_lm_head is not modelled for a head with a bias");
    scores = score(tape, lm, batch, &mask);
    if (!mask || tape->is_stopped)
        return tape->void_tensor;
    each = mpl_hold(mpl_op_neg(tape, scores.log_probs));
    count = mpl_hold_empty(tape, "clamp.default", MPL_INT64, scalar);
    loss = mpl_hold(mpl_op_div_constant(tape, mpl_op_sum_all(tape, each), count));
    count_true(tape, mask); /* metrics: labels, right guesses */
    count_true(tape, scores.is_top1);
    mpl_drop(tape, count);
    mpl_drop(tape, scores.log_probs);
    mpl_drop(tape, scores.entropy);
    mpl_drop(tape, scores.is_top1);
    mpl_drop(tape, mask);
    mpl_drop(tape, each);
    return mpl_return(loss);
}
