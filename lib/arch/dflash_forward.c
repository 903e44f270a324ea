/* SPDX-License-Identifier: MIT */
/*
 * The DFlash drafter's forward around its layers: anchors, masks, targets of the verifier, loss.
 *
 * Under FSDP2 the loop over layers breaks the graph, so that the forward runs as it stands; the
 * norms, RoPE, the layers and the metrics are compiled.
 *
 * source: speculators/models/dflash/{core,utils,attention,metrics}.py, models/metrics.py,
 * losses/{utils,fused}.py, releases 0.7.0 to 0.9.0, under PyTorch 2.13
 */
#include "arch/dflash.h"
#include "op/rule.h"
#include "part/decoder.h"

struct mpl_tensor *mpl_dflash_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                   int64_t cols)
{
    return mpl_eagle3_make(tape, dtype, rows, cols);
}

struct mpl_eagle3_sizes mpl_dflash_rows(const struct mpl_dflash *d, struct mpl_dim rows)
{
    struct mpl_eagle3_sizes sizes = d->sizes;

    sizes.tokens = rows;
    return sizes;
}

/* ---- norms ------------------------------------------------------------------------------------
 */

/* Weight gradient [hidden] summed in two stages, then the input's [rows, hidden]; large inputs in
 * one kernel. Saved: input, 1/rms. */
static void norm_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_dflash *d = node->context;
    const struct mpl_dim rows = {node->arg[0], (uint8_t)node->arg[1]};
    const struct mpl_eagle3_sizes s = mpl_dflash_rows(d, rows);
    const bool is_mixed = mpl_eagle3_is_mixed_order(&s);
    const struct mpl_dim parts = {mpl_eagle3_split(&s), rows.degree};
    struct mpl_tensor *sums;

    if (is_mixed)
        in[0] = mpl_dflash_make(tape, s.layer_dtype, rows, s.hidden);
    sums =
        mpl_dflash_make(tape, MPL_FLOAT32, is_mixed ? mpl_eagle3_mixed_rows(&s) : parts, s.hidden);
    in[1] = mpl_dflash_make(tape, s.layer_dtype, mpl_dim(s.hidden), 0);
    mpl_drop(tape, sums);
    if (!is_mixed)
        in[0] = mpl_dflash_make(tape, s.layer_dtype, rows, s.hidden);
    mpl_eagle3_end_saved(tape, node, 0);
    mpl_eagle3_end_saved(tape, node, 1);
    mpl_drop(tape, out[0]);
    out[0] = NULL;
}

struct mpl_tensor *mpl_dflash_norm(struct mpl_tape *tape, struct mpl_dflash *d,
                                   struct mpl_tensor *x, uint32_t weight, struct mpl_dim rows)
{
    struct mpl_tensor *inputs[] = {x, mpl_network_weight(d->network, weight)}, *rstd, *out;
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", norm_backward, inputs, 2, 1, 2);

    rstd = mpl_dflash_make(tape, MPL_FLOAT32, rows, 1);
    out = mpl_dflash_make(tape, d->sizes.layer_dtype, rows, d->sizes.hidden);
    mpl_save(tape, node, x);
    mpl_save_output(tape, node, rstd);
    if (node) {
        node->context = d;
        node->arg[0] = rows.n;
        node->arg[1] = rows.degree;
    }
    mpl_set_history(tape, out, node, 0);
    mpl_drop(tape, rstd);
    return mpl_return(out);
}

/* ---- before the layers ------------------------------------------------------------------------
 */

/* Locals of forward; held. */
struct locals {
    struct mpl_tensor *anchors, *is_valid, *masked_ids, *drafted_positions, *positions, *indices,
        *verifier_logits, *targets, *mask;
};

static struct mpl_tensor *ids(struct mpl_tape *tape, struct mpl_dim rows)
{
    return mpl_dflash_make(tape, MPL_INT64, rows, 0);
}

/* select_anchors: random ones among the tokens that count, in order. */
static void select_anchors(struct mpl_tape *tape, const struct mpl_dflash *d, struct locals *l)
{
    const struct mpl_dim n = d->tokens, anchors = mpl_dim(d->anchors);
    const struct mpl_dim counted = {n.n - d->block, n.degree};
    const struct mpl_dim chosen = counted.n < anchors.n ? counted : anchors;
    struct mpl_tensor *valid = mpl_dflash_make(tape, MPL_BOOL, n, 0), *indices, *order, *picked,
                      *sorted, *places;

    indices = ids(tape, counted);
    l->anchors = ids(tape, anchors);
    l->is_valid = mpl_dflash_make(tape, MPL_BOOL, anchors, 0);
    order = ids(tape, counted);
    picked = ids(tape, chosen);
    sorted = ids(tape, chosen);
    places = ids(tape, chosen);
    mpl_drop(tape, picked);
    mpl_drop(tape, places);
    mpl_drop(tape, sorted);
    mpl_drop(tape, valid);
    mpl_drop(tape, indices);
    mpl_drop(tape, order);
}

/* The block mask over drafted tokens and all keys, and the two tensors that its function reads. */
static void make_mask(struct mpl_tape *tape, struct mpl_dflash *d)
{
    const struct mpl_dim blocks = {(d->drafted.n + MPL_BLOCK_TOKENS - 1) / MPL_BLOCK_TOKENS,
                                   d->drafted.degree};
    const struct mpl_dim keys = {(d->keys.n + MPL_BLOCK_TOKENS - 1) / MPL_BLOCK_TOKENS,
                                 d->keys.degree};
    struct mpl_block_mask made;

    d->masks[0] = ids(tape, d->drafted); /* the anchor of each drafted token */
    mpl_block_mask_make_wide(tape, mpl_dim(1), blocks, keys, &made);
    d->masks[1] = made.number;
    d->masks[2] = made.list;
    d->masks[3] = made.q_number;
    d->masks[4] = made.q_list;
    d->masks[5] = made.full_number;
    d->masks[6] = made.full_list;
    d->masks[7] = made.full_q_number;
    d->masks[8] = made.full_q_list;
}

/* Anchors and mask tokens, embedded: [drafted, hidden]; without gradient; held. */
static struct mpl_tensor *embed(struct mpl_tape *tape, const struct mpl_dflash *d, struct locals *l)
{
    struct mpl_tensor *picked;

    l->masked_ids = ids(tape, d->drafted);
    picked = ids(tape, mpl_dim(d->anchors));
    mpl_drop(tape, picked);
    return mpl_dflash_make(tape, d->sizes.layer_dtype, d->drafted, d->sizes.hidden);
}

static void rotary(struct mpl_tape *tape, struct mpl_dflash *d, struct locals *l)
{
    struct mpl_tensor *picked = ids(tape, mpl_dim(d->anchors));

    l->drafted_positions = ids(tape, d->drafted);
    mpl_drop(tape, picked);
    l->positions = ids(tape, d->keys);
    d->cos = mpl_dflash_make(tape, d->sizes.layer_dtype, d->keys, d->sizes.head_dim);
    d->sin = mpl_dflash_make(tape, d->sizes.layer_dtype, d->keys, d->sizes.head_dim);
    l->indices = ids(tape, d->drafted);
}

/* The verifier's logits before the tokens of fewer blocks than there are tokens. */
static void few_targets(struct mpl_tape *tape, struct mpl_dflash *d, struct locals *l)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    struct mpl_tensor *before = ids(tape, d->drafted), *picked, *normed, *at;

    at = ids(tape, d->drafted);
    mpl_drop(tape, before);
    picked = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->hidden);
    normed = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->hidden);
    l->targets = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->draft_vocab);
    mpl_drop(tape, normed);
    mpl_drop(tape, picked);
    l->verifier_logits = at; /* the name target_indices */
}

/* All of the verifier's logits, moved by one, of which the blocks' are picked. */
static void all_targets(struct mpl_tape *tape, struct mpl_dflash *d, struct locals *l)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    struct mpl_tensor *normed = mpl_dflash_make(tape, s->layer_dtype, d->tokens, s->hidden), *all;

    all = mpl_dflash_make(tape, s->layer_dtype, d->tokens, s->draft_vocab);
    mpl_drop(tape, normed);
    l->verifier_logits = mpl_dflash_make(tape, s->layer_dtype, d->tokens, s->draft_vocab);
    mpl_drop(tape, all);
    l->targets = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->draft_vocab);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

/* Which drafted tokens count: bool [drafted]. */
static void align_mask(struct mpl_tape *tape, const struct mpl_dflash *d, struct locals *l)
{
    struct mpl_tensor *copy = mpl_dflash_make(tape, MPL_BOOL, d->tokens, 0);
    struct mpl_tensor *picked = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0), *valid;

    mpl_drop(tape, copy);
    valid = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0);
    l->mask = mpl_dflash_make(tape, MPL_BOOL, d->drafted, 0);
    mpl_drop(tape, valid);
    mpl_drop(tape, picked);
}

static void leave_backbone(struct mpl_tape *tape, struct mpl_dflash *d, struct locals *l)
{
    mpl_drop(tape, l->positions);
    mpl_drop(tape, l->masked_ids);
    mpl_drop(tape, l->drafted_positions);
    mpl_drop(tape, l->verifier_logits);
    mpl_drop(tape, l->is_valid);
    mpl_drop(tape, l->anchors);
    mpl_drop(tape, d->target_hidden);
    mpl_drop(tape, d->cos);
    mpl_drop(tape, d->sin);
    for (int i = 0; i < MPL_DFLASH_MASKS; i++)
        mpl_drop(tape, d->masks[i]);
}

struct mpl_tensor *mpl_dflash_forward(struct mpl_tape *tape, struct mpl_network *network,
                                      struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_dflash *d = network->family;
    struct mpl_tensor *x, *fed, *hidden, *logits, *loss;
    struct locals l = {0};

    (void)batch; /* the drafter has a batch of its own */
    *logits_out = NULL;
    select_anchors(tape, d, &l);
    make_mask(tape, d);
    x = embed(tape, d, &l);
    fed = mpl_hold(
        mpl_op_linear(tape, d->batch.hidden_states, mpl_network_weight(network, d->fc), NULL));
    d->target_hidden = mpl_hold(mpl_dflash_norm(tape, d, fed, d->hidden_norm, d->tokens));
    mpl_drop(tape, fed);
    rotary(tape, d, &l);
    if (d->drafted.n < d->tokens.n)
        few_targets(tape, d, &l);
    else
        all_targets(tape, d, &l);
    for (int64_t i = 0; i < d->layers && !tape->is_stopped; i++)
        mpl_rebind(tape, &x, mpl_module_call(tape, &network->modules[1 + i], x));
    hidden = mpl_hold(mpl_dflash_norm(tape, d, x, d->norm, d->drafted));
    mpl_drop(tape, x);
    logits = mpl_hold(mpl_op_linear(tape, hidden, mpl_network_weight(network, d->head), NULL));
    align_mask(tape, d, &l);
    leave_backbone(tape, d, &l);
    loss = mpl_hold(mpl_dflash_loss(tape, d, logits, l.targets, l.mask));
    mpl_drop(tape, logits);
    mpl_drop(tape, l.targets);
    mpl_drop(tape, l.mask);
    mpl_drop(tape, l.indices);
    mpl_drop(tape, hidden);
    return mpl_return(loss);
}
