/* SPDX-License-Identifier: MIT */
/*
 * Cross entropy of the MTP drafter's steps: eager code on logits that are seen as [1, vocab,
 * tokens], so that the loss is nll_loss2d. Under autocast it takes a float32 copy of the
 * log-probabilities, which are bfloat16 as the logits are.
 *
 * source: speculators/models/mtp/core.py (forward), aten/src/ATen/native/LossNLL.cpp
 * (cross_entropy_loss), native/cuda/SoftMax.cu (host_softmax), native/cuda/NLLLoss2d.cu,
 * ATen/autocast_mode.h
 */
#include "arch/mtp.h"
#include "op/rule.h"

/* [tokens, vocab] */
static struct mpl_tensor *scores(struct mpl_tape *tape, const struct mpl_mtp *m, const char *op,
                                 enum mpl_dtype dtype)
{
    const struct mpl_shape shape = mpl_shape2(m->sizes.tokens, mpl_dim(m->sizes.vocab));

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

static struct mpl_tensor *tokens(struct mpl_tape *tape, const struct mpl_mtp *m, const char *op,
                                 enum mpl_dtype dtype)
{
    const struct mpl_shape shape = mpl_shape1(m->sizes.tokens);

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

static void log_softmax_backward(struct mpl_tape *tape, struct mpl_node *node,
                                 struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_mtp *m = node->context;

    in[0] = scores(tape, m, "_log_softmax_backward_data.default", m->sizes.root_dtype);
    mpl_drop(tape, out[0]);
    out[0] = NULL;
}

/* The kernel reads rows of classes: a copy of the permuted logits lives while it runs. */
static struct mpl_tensor *log_softmax(struct mpl_tape *tape, struct mpl_mtp *m,
                                      struct mpl_tensor *logits)
{
    struct mpl_node *node =
        mpl_node_new(tape, "LogSoftmaxBackward0", log_softmax_backward, &logits, 1, 1, 1);
    struct mpl_tensor *copy, *out;

    out = scores(tape, m, "_log_softmax.default", m->sizes.root_dtype);
    copy = scores(tape, m, "contiguous", m->sizes.root_dtype);
    mpl_drop(tape, copy);
    mpl_save_output(tape, node, out);
    if (node)
        node->context = m;
    mpl_set_history(tape, out, node, 0);
    return mpl_return(out);
}

/* Saved: log-probabilities, targets, the weights' sum. */
static void nll_loss_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                              struct mpl_tensor **in)
{
    const struct mpl_mtp *m = node->context;

    in[0] = scores(tape, m, "nll_loss2d_backward.default", MPL_FLOAT32);
    mpl_drop(tape, out[0]);
    out[0] = NULL;
}

/* Of each token [tokens], float32; floating. */
static struct mpl_tensor *nll_loss(struct mpl_tape *tape, struct mpl_mtp *m,
                                   struct mpl_tensor *wide, struct mpl_tensor *targets)
{
    struct mpl_node *node =
        mpl_node_new(tape, "NllLoss2DBackward0", nll_loss_backward, &wide, 1, 1, 3);
    struct mpl_tensor *each = tokens(tape, m, "nll_loss2d_forward.default", MPL_FLOAT32);
    struct mpl_tensor *sum = mpl_hold_scalar(tape, "nll_loss2d_forward.default", MPL_FLOAT32);

    mpl_save(tape, node, wide);
    mpl_save(tape, node, targets);
    mpl_save_output(tape, node, sum);
    if (node)
        node->context = m;
    mpl_set_history(tape, each, node, 0);
    mpl_drop(tape, sum);
    return mpl_return(each);
}

/* weight * sum / count; saved: the count. The sum's gradient is one number, seen for each token. */
static void mean_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct mpl_tensor *quotient = mpl_hold_scalar(tape, "div.Tensor", MPL_FLOAT32);

    mpl_eagle3_end_saved(tape, node, 0);
    mpl_drop(tape, out[0]);
    out[0] = NULL;
    in[0] = mpl_hold_scalar(tape, "mul.Tensor", MPL_FLOAT32);
    mpl_drop(tape, quotient);
}

static struct mpl_tensor *mean(struct mpl_tape *tape, struct mpl_mtp_loss *loss)
{
    struct mpl_node *node = mpl_node_new(tape, "DivBackward0", mean_backward, &loss->each, 1, 1, 1);
    struct mpl_tensor *sum = mpl_hold_scalar(tape, "sum.default", MPL_FLOAT32), *product, *count,
                      *out;

    product = mpl_hold_scalar(tape, "mul.Tensor", MPL_FLOAT32);
    mpl_drop(tape, sum);
    count = mpl_hold_scalar(tape, "clamp.default", MPL_INT64);
    out = mpl_hold_scalar(tape, "div.Tensor", MPL_FLOAT32);
    mpl_drop(tape, product);
    mpl_save_output(tape, node, count);
    mpl_drop(tape, count);
    mpl_set_history(tape, out, node, 0);
    return mpl_return(out);
}

static struct mpl_tensor *add(struct mpl_tape *tape, struct mpl_tensor *a, struct mpl_tensor *b)
{
    struct mpl_node *node = mpl_node_new(tape, "AddBackward0", mpl_rule_pass_backward,
                                         (struct mpl_tensor *[]){a, b}, 2, 1, 0);
    struct mpl_tensor *sum = mpl_hold_scalar(tape, "add.Tensor", MPL_FLOAT32);

    mpl_set_history(tape, sum, node, 0);
    return mpl_return(sum);
}

/* Tokens that do not count are marked in a copy. */
static struct mpl_tensor *mask_targets(struct mpl_tape *tape, const struct mpl_mtp *m)
{
    struct mpl_tensor *targets = tokens(tape, m, "clone.default", MPL_INT64);

    mpl_drop(tape, tokens(tape, m, "eq.Scalar", MPL_BOOL));
    return targets;
}

static struct mpl_tensor *count(struct mpl_tape *tape, const struct mpl_mtp *m)
{
    struct mpl_tensor *valid = tokens(tape, m, "ne.Scalar", MPL_BOOL);
    struct mpl_tensor *sum = mpl_hold_scalar(tape, "sum.default", MPL_INT64);

    mpl_drop(tape, valid);
    return sum;
}

void mpl_mtp_add_loss(struct mpl_tape *tape, struct mpl_mtp *m, struct mpl_tensor *logits,
                      struct mpl_mtp_loss *loss)
{
    struct mpl_tensor *narrow, *wide;

    mpl_eagle3_assign(tape, &loss->targets, mask_targets(tape, m));
    narrow = mpl_hold(log_softmax(tape, m, logits));
    wide = mpl_hold(mpl_op_to(tape, narrow, MPL_FLOAT32));
    mpl_drop(tape, narrow);
    mpl_rebind(tape, &loss->each, nll_loss(tape, m, wide, loss->targets));
    mpl_drop(tape, wide);
    mpl_eagle3_assign(tape, &loss->count, count(tape, m));
    mpl_rebind(tape, &loss->step, mean(tape, loss));
    mpl_rebind(tape, &loss->total, add(tape, loss->total, loss->step));
    mpl_mtp_return(m, mpl_hold_scalar(tape, "clone.default", MPL_FLOAT32));
}
