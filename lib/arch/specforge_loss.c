/* SPDX-License-Identifier: MIT */
/*
 * SpecForge's drafter: the teacher's distributions, the fused loss and the numbers of its metrics.
 *
 * source: specforge/algorithms/eagle3/model.py (_compute_target_p_padded, _acc_and_loss),
 * core/loss.py (LogSoftmaxLoss), core/lk_loss.py (compute_acceptance_rate), release 0.2.0
 */
#include "arch/specforge.h"
#include "op/rule.h"

#define make mpl_specforge_make

static const struct mpl_shape scalar = {0};

/* ---- teacher ----------------------------------------------------------------------------------
 */

/* [batch, length + steps, cols] in place of a held tensor of the batch's length; held. F.pad */
static struct mpl_tensor *padded(struct mpl_tape *tape, const struct mpl_specforge *s,
                                 enum mpl_dtype dtype, int64_t cols)
{
    struct mpl_shape shape = mpl_specforge_shape(s, cols);

    shape.dim[1].n += s->sizes.steps;
    return make(tape, "constant_pad_nd.default", dtype, shape);
}

/* _compute_target_p, which breaks where logits are chosen by a mask: all of them in float32, their
 * ids, the choice; then two distributions over the draft's words, out of two numbers a row. */
void mpl_specforge_teacher(struct mpl_tape *tape, struct mpl_specforge *s)
{
    const int64_t words = s->sizes.draft_vocab;
    const struct mpl_shape row = mpl_specforge_shape(s, 1), some = mpl_specforge_shape(s, words);
    struct mpl_tensor *wide =
        make(tape, "empty_strided_cuda", MPL_FLOAT32, mpl_specforge_shape(s, s->sizes.vocab));
    struct mpl_tensor *ids = make(tape, "empty_strided_cuda", MPL_INT64, mpl_specforge_shape(s, 0));
    struct mpl_tensor *where, *chosen, *most, *sum, *p, *p_on_draft;

    s->l.position_mask = make(tape, "empty_strided_cuda", MPL_INT64, row);
    where = make(tape, "nonzero.default", MPL_INT64, mpl_shape2(mpl_dim(words), mpl_dim(1)));
    chosen = make(tape, "index.Tensor", MPL_FLOAT32, some);
    mpl_drop(tape, where);
    most = make(tape, "empty_strided_cuda", MPL_FLOAT32, row);
    sum = make(tape, "empty_strided_cuda", MPL_FLOAT32, row);
    p = make(tape, "empty_strided_cuda", MPL_FLOAT32, some);
    p_on_draft = make(tape, "empty_strided_cuda", MPL_FLOAT32, some);
    mpl_drop(tape, most);
    mpl_drop(tape, sum);
    mpl_drop(tape, wide);
    mpl_drop(tape, chosen);
    s->l.teacher = padded(tape, s, MPL_FLOAT32, words);
    s->l.teacher_on_draft = padded(tape, s, MPL_FLOAT32, words);
    s->l.teacher_ids = padded(tape, s, MPL_INT64, 0);
    mpl_drop(tape, p);
    mpl_drop(tape, p_on_draft);
    mpl_drop(tape, ids);
}

/* ---- loss -------------------------------------------------------------------------------------
 */

enum { LOGITS, TEACHER, POSITION_MASK, MOST, SUM, SAVES };

/* position_mask.bool() */
static struct mpl_tensor *flat_mask(struct mpl_tape *tape, const struct mpl_specforge *s)
{
    return make(tape, "_to_copy.default", MPL_BOOL, mpl_shape2(s->sizes.tokens, mpl_dim(1)));
}

/* The gradient is written over the logits. */
static void loss_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    (void)out;
    mpl_drop(tape, flat_mask(tape, node->context));
    in[0] = mpl_hold(mpl_alias(tape, node->saved[LOGITS].tensor));
}

static struct mpl_tensor *log_softmax_loss(struct mpl_tape *tape, struct mpl_specforge *s,
                                           struct mpl_tensor *logits)
{
    const struct mpl_shape rows = mpl_shape1(s->sizes.tokens);
    struct mpl_node *node =
        mpl_node_new(tape, "LogSoftmaxLossBackward", loss_backward, &logits, 1, 1, SAVES);
    struct mpl_tensor *each =
        make(tape, "zeros.default", MPL_FLOAT32, mpl_shape2(s->sizes.tokens, mpl_dim(1)));
    struct mpl_tensor *mask = flat_mask(tape, s), *most, *sum, *loss, *bare;

    most = make(tape, "zeros.default", MPL_FLOAT32, rows);
    sum = make(tape, "zeros.default", MPL_FLOAT32, rows);
    loss = make(tape, "mean.default", MPL_FLOAT32, scalar);
    bare = mpl_hold(mpl_alias(tape, logits)); /* logits.detach() */
    mpl_save(tape, node, bare);
    mpl_save(tape, node, s->l.view_teacher);
    mpl_save(tape, node, s->l.view_position_mask);
    mpl_save(tape, node, most);
    mpl_save(tape, node, sum);
    if (node)
        node->context = s;
    mpl_set_history(tape, loss, node, 0);
    mpl_drop(tape, bare);
    mpl_drop(tape, most);
    mpl_drop(tape, sum);
    mpl_drop(tape, each);
    mpl_drop(tape, mask);
    return loss;
}

/* ---- metrics ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *number(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype)
{
    return make(tape, op, dtype, scalar);
}

/* x.sum().clamp_min(1e-6); held */
static struct mpl_tensor *clamped_sum(struct mpl_tape *tape, enum mpl_dtype dtype)
{
    struct mpl_tensor *sum = number(tape, "sum.default", dtype);
    struct mpl_tensor *clamped = number(tape, "clamp_min.default", MPL_FLOAT32);

    mpl_drop(tape, sum);
    return clamped;
}

/* Right words among those that count. */
static void accuracy(struct mpl_tape *tape, struct mpl_specforge *s, struct mpl_tensor *best[2])
{
    const struct mpl_shape row = mpl_specforge_shape(s, 0);
    struct mpl_tensor *offsets, *same, *right, *sum, *count;

    best[0] = make(tape, "argmax.default", MPL_INT64, row);
    offsets = make(tape, "index.Tensor", MPL_INT64, row);
    best[1] = make(tape, "add.Tensor", MPL_INT64, row);
    mpl_drop(tape, offsets);
    same = make(tape, "eq.Tensor", MPL_BOOL, row);
    right = make(tape, "mul.Tensor", MPL_INT64, row);
    mpl_drop(tape, same);
    sum = number(tape, "sum.default", MPL_INT64);
    mpl_drop(tape, right);
    count = clamped_sum(tape, MPL_INT64);
    mpl_specforge_keep(s, sum);
    mpl_specforge_keep(s, count);
    mpl_specforge_keep(s, number(tape, "div.Tensor", MPL_FLOAT32));
}

/* A masked mean of numbers [batch, length]: x * mask summed, over what counts; held */
static struct mpl_tensor *masked_mean(struct mpl_tape *tape, const struct mpl_specforge *s)
{
    const struct mpl_shape row = mpl_specforge_shape(s, 0);
    struct mpl_tensor *mask = make(tape, "_to_copy.default", MPL_FLOAT32, row);
    struct mpl_tensor *product = make(tape, "mul.Tensor", MPL_FLOAT32, row);
    struct mpl_tensor *sum = number(tape, "sum.default", MPL_FLOAT32), *count, *least, *mean;

    mpl_drop(tape, product);
    count = clamped_sum(tape, MPL_FLOAT32);
    least = number(tape, "clamp_min.default", MPL_FLOAT32);
    mpl_drop(tape, count);
    mean = number(tape, "div.Tensor", MPL_FLOAT32);
    mpl_drop(tape, mask);
    mpl_drop(tape, sum);
    mpl_drop(tape, least);
    return mean;
}

/* compute_acceptance_rate: the overlap of both distributions, and its logarithm where it is not
 * zero. */
static void acceptance_rate(struct mpl_tape *tape, struct mpl_specforge *s)
{
    const struct mpl_shape row = mpl_specforge_shape(s, 0);
    const struct mpl_shape all = mpl_specforge_shape(s, s->sizes.draft_vocab);
    struct mpl_tensor *wide = make(tape, "_to_copy.default", MPL_FLOAT32, all);
    struct mpl_tensor *p = make(tape, "_softmax.default", MPL_FLOAT32, all);
    struct mpl_tensor *least, *each, *some, *log, *zero, *logs;

    mpl_drop(tape, wide);
    least = make(tape, "minimum.default", MPL_FLOAT32, all);
    each = make(tape, "sum.dim_IntList", MPL_FLOAT32, row);
    mpl_drop(tape, least);
    mpl_drop(tape, p);
    mpl_specforge_keep(s, masked_mean(tape, s));
    some = make(tape, "gt.Scalar", MPL_BOOL, row);
    log = make(tape, "log.default", MPL_FLOAT32, row);
    zero = number(tape, "scalar_tensor.default", MPL_FLOAT32);
    logs = make(tape, "where.self", MPL_FLOAT32, row);
    mpl_drop(tape, zero);
    mpl_drop(tape, some);
    mpl_drop(tape, log);
    log = masked_mean(tape, s);
    mpl_drop(tape, each);
    mpl_drop(tape, logs);
    mpl_drop(tape, log);
}

struct mpl_tensor *mpl_specforge_loss(struct mpl_tape *tape, struct mpl_specforge *s,
                                      struct mpl_tensor *logits)
{
    struct mpl_tensor *best[2], *loss;

    accuracy(tape, s, best);
    loss = log_softmax_loss(tape, s, logits);
    acceptance_rate(tape, s);
    mpl_specforge_keep(s, number(tape, "_to_copy.default", MPL_FLOAT32)); /* loss_denom */
    mpl_drop(tape, best[0]);
    mpl_drop(tape, best[1]);
    return loss;
}
