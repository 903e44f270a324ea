/* SPDX-License-Identifier: MIT */
/*
 * Distillation: forward KL divergence over whole logits of the model and of a frozen teacher.
 *
 * source: torchtune/modules/loss/kd_losses.py (ForwardKLLoss); release 0.6.1
 */
#include "op/op.h"
#include "part/loss.h"

static struct mpl_shape flat_of(const struct mpl_tensor *logits)
{
    return mpl_shape2(mpl_dim_mul(logits->shape.dim[0], logits->shape.dim[1]),
                      logits->shape.dim[2]);
}

/* -(sum(x * mask) / sum(mask)): x is bound anew */
static struct mpl_tensor *mean_of(struct mpl_tape *tape, struct mpl_tensor *x,
                                  struct mpl_tensor *labels)
{
    const struct mpl_shape rows =
        mpl_shape1(mpl_dim_mul(labels->shape.dim[0], labels->shape.dim[1]));
    struct mpl_tensor *mask =
        mpl_hold(mpl_op_to(tape, mpl_op_map(tape, "ne.Scalar", MPL_BOOL, labels, NULL), MPL_INT32));
    struct mpl_tensor *count = mpl_hold(mpl_op_sum_all(tape, mask)), *loss;

    loss = mpl_op_mul(tape, x, mpl_op_reshape(tape, mask, rows));
    loss = mpl_op_neg(tape, mpl_op_sum_all(tape, loss));
    loss = mpl_op_div_constant(tape, loss, mpl_op_sum_all(tape, mask));
    mpl_drop(tape, count);
    mpl_drop(tape, mask);
    return loss;
}

/* ForwardKLLoss.forward */
static struct mpl_tensor *forward_kl(struct mpl_tape *tape, struct mpl_tensor *student,
                                     struct mpl_tensor *teacher, struct mpl_tensor *labels)
{
    struct mpl_tensor *wanted, *infinite, *scores, *product, *x, *loss;

    if (student->is_void)
        return student;
    wanted = mpl_hold(mpl_op_softmax(tape, teacher, MPL_FLOAT32));
    infinite = mpl_hold(mpl_op_map(tape, "isinf.default", MPL_BOOL, student, NULL));
    scores = mpl_hold(mpl_op_log_softmax_wide(tape, student));
    product = mpl_hold(mpl_op_masked_fill(tape, mpl_op_mul(tape, wanted, scores), infinite));
    x = mpl_hold(mpl_op_sum_last(tape, product, false, MPL_FLOAT32));
    loss = mean_of(tape, x, labels);
    mpl_drop(tape, x);
    mpl_drop(tape, product);
    mpl_drop(tape, scores);
    mpl_drop(tape, infinite);
    mpl_drop(tape, wanted);
    return loss;
}

struct mpl_tensor *mpl_loss_forward_kl(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_lm *teacher = lm->network->reference->family;
    struct mpl_tensor *h = mpl_hold(mpl_lm_hidden(tape, lm, batch)), *loss, *logits[2];

    *logits_out = mpl_hold(mpl_lm_logits(tape, lm, h));
    mpl_drop(tape, h);
    mpl_network_leave(tape, lm->network, logits_out, 1);
    tape->is_grad_enabled = false;
    h = mpl_hold(mpl_lm_hidden(tape, teacher, batch));
    logits[1] = mpl_hold(mpl_lm_logits(tape, teacher, h));
    mpl_drop(tape, h);
    mpl_lm_leave(tape, teacher);
    tape->is_grad_enabled = true;
    if (logits[1]->is_void)
        return logits[1];
    logits[0] = mpl_hold(mpl_op_reshape(tape, *logits_out, flat_of(*logits_out)));
    mpl_rebind(tape, &logits[1], mpl_op_reshape(tape, logits[1], flat_of(logits[1])));
    loss = forward_kl(tape, logits[0], logits[1], batch->labels);
    mpl_drop(tape, logits[1]);
    mpl_drop(tape, logits[0]);
    return loss;
}
