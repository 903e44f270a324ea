/* SPDX-License-Identifier: MIT */
/*
 * EAGLE's drafter: the script's losses and what it counts.
 *
 * Two terms: SmoothL1 of the hidden states against the target's, and the cross-entropy of their
 * logits against the target's distribution, both through the target's frozen head. The script's
 * names live on: the logits of the step before lie on the card until theirs are bound again.
 *
 * source: github.com/SafeAILab/EAGLE, commit cb7e0841: eagle/train/main.py; accelerate 1.15.0
 * (prepare_model: autocast around the forward of either module, its results in float32)
 */
#include "arch/eagle.h"

static const struct mpl_shape scalar = {0};

static struct mpl_tensor *make(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* A name is bound to a held tensor. */
static void assign(struct mpl_tape *tape, struct mpl_tensor **name, struct mpl_tensor *value)
{
    mpl_drop(tape, *name);
    *name = value;
}

/* The end of a prepared module's forward: the casts that autocast kept go, then what it returns
 * becomes float32. Floating. */
static struct mpl_tensor *leave(struct mpl_tape *tape, struct mpl_tensor *result)
{
    struct mpl_tensor *held = mpl_hold(result), *wide;

    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    wide = mpl_op_to(tape, held, MPL_FLOAT32);
    mpl_drop(tape, held);
    return wide;
}

/* head(x): float32 [batch, length, vocab]; floating */
static struct mpl_tensor *call_head(struct mpl_tape *tape, const struct mpl_eagle *e,
                                    struct mpl_tensor *x)
{
    tape->autocast = e->network->plan->training.autocast;
    return leave(tape, mpl_op_linear(tape, x, e->head, NULL));
}

/* x / (loss_mask.sum() + 1e-5) */
static struct mpl_tensor *by_count(struct mpl_tape *tape, struct mpl_tensor *x)
{
    struct mpl_tensor *sum = make(tape, "sum.default", MPL_INT64, scalar);
    struct mpl_tensor *count = mpl_empty(tape, "add.Tensor", MPL_FLOAT32, &scalar);

    mpl_drop(tape, sum);
    return mpl_op_div_constant(tape, x, count);
}

/* -sum(sum(loss_mask * target_p * log_softmax(logits), 2)) / count; held. The names of its frame
 * (log-probabilities and their product) go with the frame. */
static struct mpl_tensor *soft_cross_entropy(struct mpl_tape *tape, struct mpl_eagle *e,
                                             struct mpl_tensor *logits,
                                             struct mpl_tensor *frame_out[2])
{
    const struct mpl_eagle_names *n = &e->names;
    struct mpl_tensor *sum;

    frame_out[0] = mpl_hold(mpl_op_log_softmax(tape, logits));
    frame_out[1] = mpl_hold(mpl_op_mul(tape, n->target_p, frame_out[0]));
    sum = mpl_op_sum_dim(tape, mpl_op_mul(tape, n->loss_mask, frame_out[1]), 2, false);
    return mpl_hold(by_count(tape, mpl_op_neg(tape, mpl_op_sum_all(tape, sum))));
}

/* sum(mean(loss_mask * smooth_l1(predict, target), 2)) / count; held */
static struct mpl_tensor *regression(struct mpl_tape *tape, struct mpl_eagle *e)
{
    struct mpl_tensor *each = mpl_hold(mpl_op_smooth_l1(tape, e->names.predict, e->data.target));
    struct mpl_tensor *mean = mpl_op_mean_last(tape, mpl_op_mul(tape, e->names.loss_mask, each));
    struct mpl_tensor *loss = mpl_hold(by_count(tape, mpl_op_sum_all(tape, mean)));

    mpl_drop(tape, each);
    return loss;
}

/* compute_loss: loss = v_w * vloss + p_w * ploss */
static void compute_loss(struct mpl_tape *tape, struct mpl_eagle *e)
{
    struct mpl_eagle_names *n = &e->names;
    struct mpl_tensor *logits = mpl_hold(call_head(tape, e, n->predict)), *frame[2];

    n->ploss = soft_cross_entropy(tape, e, logits, frame);
    n->vloss = regression(tape, e);
    mpl_drop(tape, frame[0]);
    mpl_drop(tape, frame[1]);
    assign(tape, &n->logits, logits);
    assign(tape, &n->loss,
           mpl_hold(mpl_op_add(tape, mpl_op_mul_number(tape, n->vloss),
                               mpl_op_mul_number(tape, n->ploss))));
}

/* target_head = head(data["target"]) and its softmax, without gradients */
static void run_target_head(struct mpl_tape *tape, struct mpl_eagle *e)
{
    struct mpl_eagle_names *n = &e->names;

    tape->is_grad_enabled = false;
    assign(tape, &n->target_logits, mpl_hold(call_head(tape, e, e->data.target)));
    assign(tape, &n->target_p, mpl_hold(mpl_op_softmax(tape, n->target_logits, MPL_DTYPE_NONE)));
    tape->is_grad_enabled = true;
}

struct mpl_tensor *mpl_eagle_loss(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle *e = network->family;
    struct mpl_batch none = {0};
    struct mpl_tensor *logits;

    tape->autocast = network->plan->training.autocast;
    assign(tape, &e->names.predict,
           mpl_hold(leave(tape, mpl_network_call(tape, network, &none, &logits))));
    run_target_head(tape, e);
    assign(tape, &e->names.loss_mask, mpl_hold(mpl_op_unsqueeze(tape, e->data.loss_mask, 2)));
    compute_loss(tape, e);
    return e->names.loss;
}

/* ---- what the script counts -------------------------------------------------------------------
 */

/* torch.max(x, 2): the values stay under "_" */
static void choose(struct mpl_tape *tape, struct mpl_eagle *e, struct mpl_tensor **ids)
{
    struct mpl_tensor *most = make(tape, "max.dim", MPL_FLOAT32, mpl_eagle_shape(e, 0));
    struct mpl_tensor *best = make(tape, "max.dim", MPL_INT64, mpl_eagle_shape(e, 0));

    assign(tape, &e->names.most, most);
    assign(tape, ids, best);
}

/* ((predicted == target) * loss_mask.squeeze()).sum().item(), and the sum of the mask before. */
static void count_right(struct mpl_tape *tape, struct mpl_eagle *e)
{
    struct mpl_tensor *same, *product;

    mpl_drop(tape, make(tape, "sum.default", MPL_INT64, scalar));
    same = make(tape, "eq.Tensor", MPL_BOOL, mpl_eagle_shape(e, 0));
    product = make(tape, "mul.Tensor", MPL_INT64, mpl_eagle_shape(e, 0));
    mpl_drop(tape, same);
    mpl_drop(tape, make(tape, "sum.default", MPL_INT64, scalar));
    mpl_drop(tape, product);
}

/* x.view(-1, ..)[loss_mask.view(-1) == 1]: all tokens count but the last one of each sequence, the
 * most that a batch can have; what is fewer in the data is less on the card. */
static void select_rows(struct mpl_tape *tape, struct mpl_eagle *e, struct mpl_tensor **x,
                        enum mpl_dtype dtype, int64_t cols)
{
    struct mpl_dim rows = {e->batch.n * (e->length.n - 1), 1};
    struct mpl_tensor *where =
        make(tape, "eq.Scalar", MPL_BOOL, mpl_shape1(mpl_dim_mul(e->batch, e->length)));
    struct mpl_tensor *index = mpl_hold(mpl_op_nonzero(tape, where, rows)), *chosen;

    chosen = make(tape, "index.Tensor", dtype,
                  cols ? mpl_shape2(rows, mpl_dim(cols)) : mpl_shape1(rows));
    mpl_drop(tape, index);
    mpl_drop(tape, where);
    assign(tape, x, chosen);
}

/* correct[:k].reshape(-1).float().sum(0, keepdim=True): a number; held. The rows lie one beside the
 * other, so that more than one is copied. */
static struct mpl_tensor *right_among(struct mpl_tape *tape, struct mpl_dim rows, int k)
{
    const struct mpl_shape shape = mpl_shape1((struct mpl_dim){k * rows.n, rows.degree});
    struct mpl_tensor *flat = k > 1 ? make(tape, "clone.default", MPL_BOOL, shape) : NULL;
    struct mpl_tensor *wide = make(tape, "_to_copy.default", MPL_FLOAT32, shape), *sum;

    mpl_drop(tape, flat);
    sum = make(tape, "sum.dim_IntList", MPL_FLOAT32, mpl_shape1(mpl_dim(1)));
    mpl_drop(tape, wide);
    return sum;
}

/* top_accuracy(out_head, target, (1, 2, 3)) */
static void top_accuracy(struct mpl_tape *tape, struct mpl_eagle *e)
{
    struct mpl_eagle_names *n = &e->names;
    const struct mpl_dim rows = {e->batch.n * (e->length.n - 1), 1};
    struct mpl_tensor *parts[2], *correct, *right[3];

    mpl_op_topk(tape, n->logits, 3, parts);
    mpl_hold(parts[0]);
    mpl_hold(parts[1]);
    correct = make(tape, "eq.Tensor", MPL_BOOL, mpl_shape2(mpl_dim(3), rows));
    for (int k = 0; k < 3; k++)
        right[k] = right_among(tape, rows, k + 1);
    mpl_drop(tape, parts[0]);
    mpl_drop(tape, parts[1]);
    mpl_drop(tape, correct);
    for (int k = 0; k < 3; k++)
        assign(tape, &n->right[k], right[k]);
    for (int k = 0; k < 3; k++) /* top_3acc[k] += ..., which begins at the number 0 */
        if (!n->sums[k])
            n->sums[k] = make(tape, "add.Tensor", MPL_FLOAT32, mpl_shape1(mpl_dim(1)));
}

void mpl_eagle_metrics(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle *e = network->family;
    struct mpl_eagle_names *n = &e->names;

    tape->is_grad_enabled = false;
    choose(tape, e, &n->predicted);
    choose(tape, e, &n->target_ids);
    count_right(tape, e);
    select_rows(tape, e, &n->logits, MPL_FLOAT32, e->vocab);
    select_rows(tape, e, &n->target_ids, MPL_INT64, 0);
    top_accuracy(tape, e);
    tape->is_grad_enabled = true;
    mpl_drop(tape, n->ploss); /* del ploss, vloss */
    mpl_drop(tape, n->vloss);
    n->ploss = n->vloss = NULL;
}
