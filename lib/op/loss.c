/* SPDX-License-Identifier: MIT */
/* Cross-entropy: log-softmax and negative log-likelihood, as two operators. */
#include <string.h>

#include "op/rule.h"

static void log_softmax_backward(struct mpl_tape *tape, struct mpl_node *node,
                                 struct mpl_tensor **out, struct mpl_tensor **in)
{
    (void)mpl_saved(tape, node, 0);
    in[0] = mpl_hold(mpl_empty_like(tape, "_log_softmax_backward_data.default",
                                    (enum mpl_dtype)node->edges[0].dtype, out[0], NULL));
}

/* cross_entropy_loss names the dtype of its log_softmax, so that autocast leaves it alone. */
static struct mpl_tensor *log_softmax(struct mpl_tape *tape, struct mpl_tensor *logits)
{
    struct mpl_node *node =
        mpl_node_new(tape, "LogSoftmaxBackward0", log_softmax_backward, &logits, 1, 1, 1);
    struct mpl_tensor *out =
        mpl_empty_like(tape, "_log_softmax.default", (enum mpl_dtype)logits->dtype, logits, NULL);

    mpl_save_output(tape, node, out);
    mpl_set_history(tape, out, node, 0);
    mpl_consume(tape, logits);
    return out;
}

/* Under autocast log_softmax runs in float32; its input is cast before. */
struct mpl_tensor *mpl_op_log_softmax(struct mpl_tape *tape, struct mpl_tensor *logits)
{
    if (tape->autocast != MPL_DTYPE_NONE)
        logits = mpl_op_to(tape, logits, MPL_FLOAT32);
    return log_softmax(tape, logits);
}

/* The cast and the kernel are one operator where the dtype is asked for: log_softmax(.., float32).
 * source: aten/src/ATen/native/SoftMax.cpp (log_softmax with dtype) */
struct mpl_tensor *mpl_op_log_softmax_wide(struct mpl_tape *tape, struct mpl_tensor *logits)
{
    return log_softmax(tape, mpl_op_to(tape, logits, MPL_FLOAT32));
}

/* saved: self, target. The gradient is written into zeros of their shape.
 * source: aten/src/ATen/native/Loss.cpp (smooth_l1_loss_backward) */
static void smooth_l1_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_tensor *self = mpl_saved(tape, node, 0);

    (void)out;
    (void)mpl_saved(tape, node, 1);
    in[0] = mpl_hold(mpl_empty(tape, "smooth_l1_loss_backward.default", (enum mpl_dtype)self->dtype,
                               &self->shape));
}

struct mpl_tensor *mpl_op_smooth_l1(struct mpl_tape *tape, struct mpl_tensor *a,
                                    struct mpl_tensor *target)
{
    struct mpl_node *node =
        mpl_node_new(tape, "SmoothL1LossBackward0", smooth_l1_backward, &a, 1, 1, 2);

    mpl_save(tape, node, a);
    mpl_save(tape, node, target);
    return mpl_rule_finish(
        tape, mpl_empty_like(tape, "smooth_l1_loss.default", (enum mpl_dtype)a->dtype, a, target),
        node, a, target);
}

static void nll_loss_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                              struct mpl_tensor **in)
{
    struct mpl_shape shape = {.ndim = node->edges[0].ndim};

    memcpy(shape.dim, node->edges[0].dim, sizeof(shape.dim));
    in[0] = mpl_hold(
        mpl_empty(tape, "nll_loss_backward.default", (enum mpl_dtype)out[0]->dtype, &shape));
}

struct mpl_tensor *mpl_op_nll_loss(struct mpl_tape *tape, struct mpl_tensor *scores,
                                   struct mpl_tensor *targets)
{
    struct mpl_tensor *loss, *weight;
    struct mpl_shape scalar = {0};
    struct mpl_node *node;

    if (tape->autocast != MPL_DTYPE_NONE) /* nll_loss runs in float32 */
        scores = mpl_op_to(tape, scores, MPL_FLOAT32);
    node = mpl_node_new(tape, "NllLossBackward0", nll_loss_backward, &scores, 1, 1, 3);
    mpl_save(tape, node, scores);
    mpl_save(tape, node, targets);
    loss = mpl_empty(tape, "nll_loss_forward.default", (enum mpl_dtype)scores->dtype, &scalar);
    weight = mpl_empty(tape, "nll_loss_forward.default", (enum mpl_dtype)scores->dtype, &scalar);
    mpl_save_output(tape, node, weight);
    mpl_set_history(tape, loss, node, 0);
    mpl_consume(tape, weight);
    mpl_consume(tape, scores);
    mpl_consume(tape, targets);
    return loss;
}

struct mpl_tensor *mpl_op_cross_entropy(struct mpl_tape *tape, struct mpl_tensor *logits,
                                        struct mpl_tensor *targets)
{
    struct mpl_tensor *argument = mpl_hold(logits), *loss; /* the caller's until it returns */

    loss = mpl_op_nll_loss(tape, log_softmax(tape, argument), targets);
    mpl_drop(tape, argument);
    return loss;
}
