/* SPDX-License-Identifier: MIT */
/*
 * The drafter after its layer: the last norm and the loss, as compiled regions.
 *
 * source: generated code of speculators.models.eagle3.core (loss_function, compute_accuracy,
 * norm) under PyTorch 2.13
 */
#include "arch/eagle3.h"
#include "op/rule.h"

static struct mpl_tensor *make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                               int64_t cols)
{
    return mpl_eagle3_make(tape, dtype, rows, cols);
}

static void end_gradient(struct mpl_tape *tape, struct mpl_tensor **gradient)
{
    mpl_drop(tape, *gradient);
    *gradient = NULL;
}

/* ---- last norm --------------------------------------------------------------------------------
 */

/* Weight gradient [hidden], summed in two stages, then the input's [tokens, hidden]; in one kernel
 * for large inputs, whose workspace is summed by an eager operator. Saved: input, 1/rms. */
static void norm_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_eagle3 *e = node->context;
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const struct mpl_dim parts = {mpl_eagle3_split(s), s->tokens.degree};
    const struct mpl_dim hidden = mpl_dim(s->hidden);
    const enum mpl_dtype weight_dtype = (enum mpl_dtype)node->edges[1].dtype;
    struct mpl_tensor *sums;

    if (mpl_eagle3_is_mixed_order(s)) {
        in[0] = make(tape, (enum mpl_dtype)node->edges[0].dtype, s->tokens, s->hidden);
        sums = make(tape, MPL_FLOAT32, mpl_eagle3_mixed_rows(s), s->hidden);
        in[1] = make(tape, MPL_FLOAT32, hidden, 0);
        if (weight_dtype != MPL_FLOAT32)
            mpl_rebind(tape, &in[1], mpl_return(make(tape, weight_dtype, hidden, 0)));
        mpl_drop(tape, sums);
    } else {
        sums = make(tape, MPL_FLOAT32, parts, s->hidden);
        in[1] = make(tape, weight_dtype, hidden, 0);
        mpl_drop(tape, sums);
        in[0] = make(tape, (enum mpl_dtype)node->edges[0].dtype, s->tokens, s->hidden);
    }
    mpl_eagle3_end_saved(tape, node, 0);
    mpl_eagle3_end_saved(tape, node, 1);
    end_gradient(tape, &out[0]);
}

struct mpl_tensor *mpl_eagle3_norm(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_network_weight(e->network, e->norm), *rstd, *out;
    struct mpl_node *node = mpl_node_new(tape, "CompiledFunctionBackward", norm_backward,
                                         (struct mpl_tensor *[]){x, weight}, 2, 1, 2);

    rstd = make(tape, MPL_FLOAT32, e->sizes.tokens, 0);
    out = make(tape, e->sizes.root_dtype, e->sizes.tokens, e->sizes.hidden);
    mpl_save(tape, node, x);
    mpl_save_output(tape, node, rstd);
    if (node)
        node->context = e;
    mpl_set_history(tape, out, node, 0);
    mpl_drop(tape, rstd);
    return mpl_return(out);
}

/* ---- loss -------------------------------------------------------------------------------------
 */

/* Saved: logits, targets, four rows [m] (maxima and sums of both softmaxes), the denominator. */
enum { LOGITS, TARGETS, ROWS, DENOMINATOR = ROWS + MPL_EAGLE3_LOSS_ROWS, LOSS_SAVES };

/* Steps after the first compare tokens with targets further on: m = tokens - step + 1 rows. The
 * gradient of the slice [m, draft_vocab] is made in float32, then padded to all tokens. */
static void later_loss_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **out, struct mpl_tensor **in)
{
    const struct mpl_eagle3 *e = node->context;
    const struct mpl_dim m = {node->arg[0], e->sizes.tokens.degree};
    struct mpl_tensor *sliced = make(tape, MPL_FLOAT32, m, e->sizes.draft_vocab);
    struct mpl_tensor *rows = make(tape, MPL_FLOAT32, m, 0);

    mpl_eagle3_end_saved(tape, node, DENOMINATOR);
    mpl_eagle3_end_saved(tape, node, ROWS + 2);
    mpl_eagle3_end_saved(tape, node, ROWS + 3);
    end_gradient(tape, &out[0]);
    in[0] = make(tape, mpl_eagle3_logits_dtype(&e->sizes), e->sizes.tokens, e->sizes.draft_vocab);
    mpl_eagle3_end_saved(tape, node, ROWS + 1);
    mpl_drop(tape, sliced);
    mpl_drop(tape, rows);
    mpl_eagle3_end_saved(tape, node, ROWS);
    mpl_eagle3_end_saved(tape, node, LOGITS);
}

static void first_loss_backward(struct mpl_tape *tape, struct mpl_node *node,
                                struct mpl_tensor **in)
{
    const struct mpl_eagle3 *e = node->context;
    const struct mpl_dim n = e->sizes.tokens;
    const enum mpl_dtype dtype = mpl_eagle3_logits_dtype(&e->sizes);
    struct mpl_tensor *wide = NULL;

    if (dtype != MPL_FLOAT32)
        wide = make(tape, MPL_FLOAT32, n, e->sizes.draft_vocab);
    in[0] = make(tape, dtype, n, e->sizes.draft_vocab);
    mpl_eagle3_end_saved(tape, node, DENOMINATOR);
    mpl_eagle3_end_saved(tape, node, ROWS + 1);
    mpl_eagle3_end_saved(tape, node, ROWS + 2);
    mpl_drop(tape, wide);
    mpl_eagle3_end_saved(tape, node, ROWS);
    mpl_eagle3_end_saved(tape, node, TARGETS);
    mpl_eagle3_end_saved(tape, node, LOGITS);
    mpl_eagle3_end_saved(tape, node, ROWS + 3);
}

static void loss_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_eagle3 *e = node->context;

    if (node->arg[0] == e->sizes.tokens.n)
        first_loss_backward(tape, node, in);
    else
        later_loss_backward(tape, node, out, in);
}

static struct mpl_tensor *number(struct mpl_tape *tape, enum mpl_dtype dtype)
{
    const struct mpl_shape scalar = {0};

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &scalar));
}

/* Partial results of a sum in two stages; NULL when one is enough. */
static struct mpl_tensor *stage(struct mpl_tape *tape, const struct mpl_eagle3 *e, struct mpl_dim m,
                                int64_t parts)
{
    return m.n > e->sizes.inner_split ? make(tape, MPL_FLOAT32, mpl_dim(parts), 0) : NULL;
}

/* kept: rows of both softmaxes, then the denominator */
struct loss {
    struct mpl_tensor *kept[MPL_EAGLE3_LOSS_ROWS + 1], *loss;
};

static struct loss loss_kernels(struct mpl_tape *tape, const struct mpl_eagle3 *e, struct mpl_dim m)
{
    struct loss l;
    struct mpl_tensor *each, *part;

    for (int i = 0; i < MPL_EAGLE3_LOSS_ROWS; i++)
        l.kept[i] = make(tape, MPL_FLOAT32, m, 0);
    each = make(tape, MPL_FLOAT32, m, 0);
    part = stage(tape, e, m, 4);
    l.loss = number(tape, MPL_FLOAT32);
    if (part)
        mpl_drop(tape, each);
    l.kept[MPL_EAGLE3_LOSS_ROWS] = number(tape, MPL_FLOAT32);
    mpl_drop(tape, part ? part : each);
    return l;
}

/* compute_accuracy: right tokens among the masked ones; numbers that the metrics keep. */
static void accuracy(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_dim m)
{
    struct mpl_tensor *part = stage(tape, e, m, 4), *right = number(tape, MPL_INT64), *selected;
    struct mpl_tensor *correct, *total;

    mpl_drop(tape, part);
    selected = make(tape, MPL_BOOL, m, 0); /* masked_select */
    part = stage(tape, e, m, 2);
    correct = number(tape, MPL_FLOAT32);
    total = number(tape, MPL_FLOAT32);
    mpl_drop(tape, part);
    mpl_drop(tape, right);
    mpl_drop(tape, selected);
    mpl_eagle3_return(e, number(tape, MPL_FLOAT32)); /* the step's loss, cloned */
    mpl_eagle3_return(e, correct);
    mpl_eagle3_return(e, total);
}

void mpl_eagle3_loss_node(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *logits,
                          struct mpl_tensor *targets, struct mpl_tensor **kept,
                          struct mpl_tensor *loss)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", loss_backward, &logits, 1, 1, LOSS_SAVES);

    mpl_save(tape, node, logits);
    mpl_save(tape, node, targets);
    for (int i = 0; i <= MPL_EAGLE3_LOSS_ROWS; i++) {
        mpl_save_output(tape, node, kept[i]);
        mpl_drop(tape, kept[i]);
    }
    if (node) {
        node->context = e;
        node->arg[0] = e->sizes.tokens.n - e->ttt_step + 1;
    }
    mpl_set_history(tape, loss, node, 0);
}

struct mpl_tensor *mpl_eagle3_loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *logits, struct mpl_tensor *targets)
{
    const struct mpl_dim m = {e->sizes.tokens.n - e->ttt_step + 1, e->sizes.tokens.degree};
    struct loss l = loss_kernels(tape, e, m);

    accuracy(tape, e, m);
    mpl_eagle3_loss_node(tape, e, logits, targets, l.kept, l.loss);
    return mpl_return(l.loss);
}
