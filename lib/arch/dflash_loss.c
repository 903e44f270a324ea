/* SPDX-License-Identifier: MIT */
/*
 * Loss and metrics of the DFlash drafter, as compiled regions.
 *
 * q drafted tokens, V draft vocabulary. Up to 0.7.0.2 kl_div, each token's weighted by its place in
 * the block; from 0.8.0 on a kernel of the library: cross entropy against the verifier's choice.
 *
 * source: generated code of speculators.models.dflash.metrics (compute_metrics) under PyTorch 2.13;
 * models/metrics.py, losses/{utils,fused}.py, releases 0.7.0 and 0.9.0
 */
#include "arch/dflash.h"

#define STATISTICS 5 /* numbers of each token that the library's kernel keeps */

static struct mpl_tensor *number(struct mpl_tape *tape)
{
    return mpl_hold_scalar(tape, "empty_strided_cuda", MPL_FLOAT32);
}

static struct mpl_tensor *wide(struct mpl_tape *tape, const struct mpl_dflash *d)
{
    return mpl_dflash_make(tape, MPL_FLOAT32, d->drafted, 0);
}

/* ---- kl_div -----------------------------------------------------------------------------------
 */

/* Saved: logits, targets, the mask, maxima and sums of both softmaxes, weights, the denominator. */
enum { LOGITS, TARGETS, MASK, ROWS, WEIGHTS = ROWS + 4, DENOMINATOR, KL_SAVES };

/* The logits' gradient [q, V] in float32, then in their format. */
static void kl_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                        struct mpl_tensor **in)
{
    const struct mpl_dflash *d = node->context;
    const struct mpl_eagle3_sizes *s = &d->sizes;
    static const int after[] = {ROWS, WEIGHTS, LOGITS, TARGETS, MASK, ROWS + 3};
    struct mpl_tensor *gradient = mpl_dflash_make(tape, MPL_FLOAT32, d->drafted, s->draft_vocab);

    (void)out;
    in[0] = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->draft_vocab);
    mpl_eagle3_end_saved(tape, node, DENOMINATOR);
    mpl_eagle3_end_saved(tape, node, ROWS + 1);
    mpl_eagle3_end_saved(tape, node, ROWS + 2);
    mpl_drop(tape, gradient);
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
        mpl_eagle3_end_saved(tape, node, after[i]);
}

/* Right tokens by their place in the block; ids: of both sides and places [q], which end here. */
static void metrics(struct mpl_tape *tape, struct mpl_dflash *d, struct mpl_tensor *const ids[3])
{
    struct mpl_tensor *same = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0), *selected, *places;

    selected = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0);
    mpl_drop(tape, same);
    places = mpl_dflash_make(tape, MPL_INT64, d->drafted, 0);
    for (int i = 0; i < 2; i++)
        mpl_dflash_return(d, mpl_dflash_make(tape, MPL_FLOAT32, mpl_dim(d->block), 0));
    mpl_drop(tape, places);
    mpl_drop(tape, selected);
    for (int i = 0; i < 3; i++)
        mpl_drop(tape, ids[i]);
    for (int i = 0; i < 6; i++)
        mpl_dflash_return(d, number(tape));
}

static struct mpl_tensor *kl_loss(struct mpl_tape *tape, struct mpl_dflash *d,
                                  struct mpl_tensor *logits, struct mpl_tensor *targets,
                                  struct mpl_tensor *mask)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", kl_backward, &logits, 1, 1, KL_SAVES);
    struct mpl_tensor *kept[KL_SAVES] = {logits, targets, mask}, *each, *ids[3], *loss;

    for (int i = 0; i < 4; i++)
        kept[ROWS + i] = wide(tape, d);
    each = wide(tape, d);
    for (int i = 0; i < 3; i++)
        ids[i] = mpl_dflash_make(tape, MPL_INT64, d->drafted, 0);
    kept[WEIGHTS] = wide(tape, d);
    kept[DENOMINATOR] = number(tape);
    loss = number(tape);
    mpl_drop(tape, each);
    metrics(tape, d, ids);
    for (int i = 0; i < KL_SAVES; i++) {
        if (i < ROWS)
            mpl_save(tape, node, kept[i]);
        else
            mpl_save_output(tape, node, kept[i]);
        if (i >= ROWS)
            mpl_drop(tape, kept[i]);
    }
    if (node)
        node->context = d;
    mpl_set_history(tape, loss, node, 0);
    return mpl_return(loss);
}

/* ---- cross entropy of the library's kernel ----------------------------------------------------
 */

/* Saved: logits, the mask, the kernel's numbers, weights, the denominator. */
enum { CE_LOGITS, CE_MASK, CE_STATS, CE_WEIGHTS, CE_DENOMINATOR, CE_SAVES };

/* The logits' gradient [q, V] in their format. */
static void ce_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                        struct mpl_tensor **in)
{
    const struct mpl_dflash *d = node->context;
    const struct mpl_eagle3_sizes *s = &d->sizes;
    static const int after[] = {CE_WEIGHTS, CE_STATS, CE_LOGITS};

    (void)out;
    mpl_eagle3_end_saved(tape, node, CE_DENOMINATOR);
    mpl_eagle3_end_saved(tape, node, CE_MASK);
    in[0] = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->draft_vocab);
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
        mpl_eagle3_end_saved(tape, node, after[i]);
}

/* Right tokens by their place in the block, and runs of right ones [blocks, block - 1]; ids: of
 * both sides, and places [q], which end here. */
static void run_metrics(struct mpl_tape *tape, struct mpl_dflash *d,
                        struct mpl_tensor *const ids[2], struct mpl_tensor *places)
{
    struct mpl_tensor *same = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0), *selected, *runs;

    selected = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0);
    mpl_drop(tape, same);
    same = mpl_dflash_make(tape, MPL_INT64, d->drafted, 0); /* places of what counts */
    for (int i = 0; i < 2; i++)
        mpl_dflash_return(d, mpl_dflash_make(tape, MPL_FLOAT32, mpl_dim(d->block), 0));
    mpl_drop(tape, same);
    mpl_drop(tape, selected);
    mpl_drop(tape, places);
    runs = mpl_dflash_make(tape, MPL_FLOAT32, mpl_dim(d->anchors), d->block - 1);
    for (int i = 0; i < 6; i++) {
        mpl_dflash_return(d, number(tape));
        if (i == 1)
            mpl_drop(tape, runs);
    }
    mpl_drop(tape, ids[1]);
    mpl_drop(tape, ids[0]);
}

/* The verifier's choice is read out of the targets, which backward does not need. */
static struct mpl_tensor *ce_loss(struct mpl_tape *tape, struct mpl_dflash *d,
                                  struct mpl_tensor *logits, struct mpl_tensor *mask)
{
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", ce_backward, &logits, 1, 1, CE_SAVES);
    struct mpl_tensor *places = mpl_dflash_make(tape, MPL_INT64, d->drafted, 0);
    struct mpl_tensor *each = wide(tape, d), *kept[CE_SAVES] = {logits, mask}, *ids[2], *loss,
                      *sums;

    kept[CE_STATS] = mpl_dflash_make(tape, MPL_FLOAT32, mpl_dim(STATISTICS), d->drafted.n);
    kept[CE_WEIGHTS] = wide(tape, d);
    sums = wide(tape, d);
    kept[CE_DENOMINATOR] = number(tape);
    loss = number(tape);
    mpl_drop(tape, each);
    mpl_drop(tape, sums);
    for (int i = 0; i < 2; i++)
        ids[i] = mpl_dflash_make(tape, MPL_INT64, d->drafted, 0);
    run_metrics(tape, d, ids, places);
    for (int i = 0; i < CE_SAVES; i++) {
        if (i < CE_STATS)
            mpl_save(tape, node, kept[i]);
        else
            mpl_save_output(tape, node, kept[i]);
        if (i >= CE_STATS)
            mpl_drop(tape, kept[i]);
    }
    if (node)
        node->context = d;
    mpl_set_history(tape, loss, node, 0);
    return mpl_return(loss);
}

struct mpl_tensor *mpl_dflash_loss(struct mpl_tape *tape, struct mpl_dflash *d,
                                   struct mpl_tensor *logits, struct mpl_tensor *targets,
                                   struct mpl_tensor *mask)
{
    return d->release->has_fused_loss ? ce_loss(tape, d, logits, mask)
                                      : kl_loss(tape, d, logits, targets, mask);
}
