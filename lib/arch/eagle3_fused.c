/* SPDX-License-Identifier: MIT */
/*
 * The drafter's loss from release 0.8.0 on: a Triton kernel of the library inside a compiled
 * region.
 *
 * Forward keeps logits, targets and five numbers of each token; backward makes the gradient in the
 * logits' format, and pads it where the step compares fewer tokens.
 *
 * source: speculators/losses/fused.py (_FusedLoss), losses/utils.py (loss_function), release 0.8.1;
 * generated code of models/eagle3/metrics.py (compute_metrics) under PyTorch 2.13
 */
#include "arch/eagle3.h"

#define STATISTICS 5 /* of each token: maximum and sum of both softmaxes, and the loss */

enum { LOGITS, TARGETS, STATS, DENOMINATOR, SAVES };

/* Gradient of the slice [m, draft_vocab], then of all tokens [tokens, draft_vocab]; in the logits'
 * format. */
static void backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                     struct mpl_tensor **in)
{
    const struct mpl_eagle3 *e = node->context;
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const struct mpl_dim m = {node->arg[0], s->tokens.degree};
    struct mpl_tensor *each = mpl_eagle3_make(tape, MPL_FLOAT32, m, 0), *sliced;

    mpl_eagle3_end_saved(tape, node, DENOMINATOR);
    mpl_drop(tape, out[0]);
    out[0] = NULL;
    sliced = mpl_eagle3_make(tape, mpl_eagle3_logits_dtype(s), m, s->draft_vocab);
    mpl_drop(tape, each);
    mpl_eagle3_end_saved(tape, node, STATS);
    mpl_eagle3_end_saved(tape, node, LOGITS);
    if (m.n == s->tokens.n) {
        mpl_eagle3_end_saved(tape, node, TARGETS);
        in[0] = sliced;
        return;
    }
    in[0] = mpl_eagle3_make(tape, mpl_eagle3_logits_dtype(s), s->tokens, s->draft_vocab);
    mpl_drop(tape, sliced);
}

static void set_node(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *logits,
                     struct mpl_tensor *targets, struct mpl_tensor *stats,
                     struct mpl_tensor *denominator, struct mpl_tensor *loss)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", backward, &logits, 1, 1, SAVES);

    mpl_save(tape, node, logits);
    mpl_save(tape, node, targets);
    mpl_save_output(tape, node, stats);
    mpl_save_output(tape, node, denominator);
    if (node) {
        node->context = e;
        node->arg[0] = e->sizes.tokens.n - e->ttt_step + 1;
    }
    mpl_set_history(tape, loss, node, 0);
}

static struct mpl_tensor *fused_loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                     struct mpl_tensor *logits, struct mpl_tensor *targets)
{
    const struct mpl_dim m = {e->sizes.tokens.n - e->ttt_step + 1, e->sizes.tokens.degree};
    struct mpl_tensor *each = mpl_eagle3_make(tape, MPL_FLOAT32, m, 0), *ids[2];
    const struct mpl_shape rows = mpl_shape2(mpl_dim(STATISTICS), m), scalar = {0};
    struct mpl_tensor *stats = mpl_hold(mpl_empty(tape, "empty_strided_cuda", MPL_FLOAT32, &rows));
    struct mpl_tensor *denominator =
        mpl_hold(mpl_empty(tape, "empty_strided_cuda", MPL_FLOAT32, &scalar));
    struct mpl_tensor *loss = mpl_hold(mpl_empty(tape, "empty_strided_cuda", MPL_FLOAT32, &scalar));

    mpl_drop(tape, each);
    for (int i = 0; i < 2; i++)
        ids[i] = mpl_eagle3_make(tape, MPL_INT64, m, 0);
    mpl_eagle3_rows_metrics(tape, e, m, ids);
    set_node(tape, e, logits, targets, stats, denominator, loss);
    mpl_drop(tape, stats);
    mpl_drop(tape, denominator);
    return mpl_return(loss);
}

const struct mpl_eagle3_code mpl_eagle3_fused_code = {
    mpl_eagle3_mask_make, mpl_eagle3_rows_mask_extend,
    mpl_eagle3_rotary,    mpl_eagle3_layer,
    mpl_eagle3_norm,      fused_loss,
};
