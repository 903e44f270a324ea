/* SPDX-License-Identifier: MIT */
/*
 * The drafter's loss from release 0.6.0 on, as a compiled region: summed for each token, weighted,
 * and divided; masks are extended by eager code.
 *
 * source: generated code of speculators.models.eagle3.metrics (compute_metrics) and
 * models/metrics.py (kl_div_loss, loss_function, compute_accuracy_single_step), release 0.6.0,
 * under PyTorch 2.13; models/eagle3/attention.py (extend_mask_for_draft_tokens)
 */
#include "arch/eagle3.h"

/* Scalars, and [1] as good as one; held. */
static struct mpl_tensor *number(struct mpl_tape *tape, enum mpl_dtype dtype)
{
    const struct mpl_shape scalar = {0};

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &scalar));
}

/* The format of the loss and what it is divided by. */
static enum mpl_dtype loss_dtype(const struct mpl_eagle3 *e)
{
    return e->sizes.release->has_autocast ? MPL_FLOAT32 : e->sizes.root_dtype;
}

/* Right tokens among the masked ones, of all and of those that were right so far. ids: of both
 * sides [m]; they end here. */
static void accuracy(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_dim m,
                     struct mpl_tensor *const ids[2])
{
    struct mpl_tensor *same = mpl_eagle3_make(tape, MPL_BOOL, m, 0), *selected;

    mpl_eagle3_return(e, number(tape, MPL_FLOAT32)); /* cond_total */
    mpl_drop(tape, same);
    selected = mpl_eagle3_make(tape, MPL_BOOL, m, 0); /* masked_select */
    mpl_eagle3_return(e, number(tape, MPL_FLOAT32));  /* full_correct, which is cond_correct */
    mpl_eagle3_return(e, number(tape, MPL_FLOAT32));  /* full_total */
    if (e->sizes.release->has_autocast)
        mpl_eagle3_return(e, number(tape, MPL_FLOAT32)); /* cond_correct, cloned */
    mpl_drop(tape, selected);
    mpl_drop(tape, ids[0]);
    mpl_drop(tape, ids[1]);
}

void mpl_eagle3_rows_metrics(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_dim m,
                             struct mpl_tensor *const ids[2])
{
    accuracy(tape, e, m, ids);
    mpl_eagle3_return(e, number(tape, loss_dtype(e))); /* the step's loss, cloned */
    mpl_eagle3_return(e, number(tape, MPL_FLOAT32));   /* how many losses: one */
}

struct mpl_tensor *mpl_eagle3_rows_loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                        struct mpl_tensor *logits, struct mpl_tensor *targets)
{
    const struct mpl_dim m = {e->sizes.tokens.n - e->ttt_step + 1, e->sizes.tokens.degree};
    const enum mpl_dtype dtype = loss_dtype(e);
    struct mpl_tensor *kept[MPL_EAGLE3_LOSS_ROWS + 1], *each, *ids[2], *loss;

    for (int i = 0; i < MPL_EAGLE3_LOSS_ROWS; i++)
        kept[i] = mpl_eagle3_make(tape, MPL_FLOAT32, m, 0);
    each = mpl_eagle3_make(tape, dtype, m, 0);
    for (int i = 0; i < 2; i++)
        ids[i] = mpl_eagle3_make(tape, MPL_INT64, m, 0);
    kept[MPL_EAGLE3_LOSS_ROWS] = number(tape, dtype); /* the denominator */
    loss = number(tape, dtype);
    mpl_drop(tape, each);
    mpl_eagle3_rows_metrics(tape, e, m, ids);
    mpl_eagle3_loss_node(tape, e, logits, targets, kept, loss);
    return mpl_return(loss);
}

void mpl_eagle3_rows_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e)
{
    struct mpl_tensor **t = e->mask.tensors, *ids = t[1], *full_number = t[2];

    if (e->ttt_step == 1) { /* what the mask function still sees stands last */
        t[1] = t[8];
        t[2] = t[7];
        t[7] = full_number;
        t[8] = ids;
    }
    mpl_eagle3_eager_mask_extend(tape, e);
}

const struct mpl_eagle3_code mpl_eagle3_rows_code = {
    mpl_eagle3_mask_make, mpl_eagle3_rows_mask_extend, mpl_eagle3_rotary, mpl_eagle3_layer,
    mpl_eagle3_norm,      mpl_eagle3_rows_loss,
};
