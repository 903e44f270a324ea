/* SPDX-License-Identifier: MIT */
/*
 * The drafter's forward: targets of the verifier, then the steps of training-time test.
 *
 * source: speculators/models/eagle3/core.py (Eagle3DraftModel.forward), torch.compile'd
 */
#include <string.h>

#include "arch/eagle3.h"
#include "op/rule.h"
#include "part/decoder.h"

/* Locals of forward; held. */
struct locals {
    struct mpl_tensor *original_ids, *ids, *targets, *hidden, *embeds, *loss, *step_loss, *padding,
        *logits;
};

struct mpl_tensor *mpl_eagle3_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                   int64_t cols)
{
    const struct mpl_shape shape = cols ? mpl_shape2(rows, mpl_dim(cols)) : mpl_shape1(rows);

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

struct mpl_shape mpl_eagle3_shape(const struct mpl_eagle3 *e, int64_t cols)
{
    return e->sizes.is_eager ? mpl_shape3(mpl_dim(1), e->sizes.tokens, mpl_dim(cols))
                             : mpl_shape2(e->sizes.tokens, mpl_dim(cols));
}

/* A floating tensor of hidden states in the root's format. */
static struct mpl_tensor *states(struct mpl_tape *tape, const struct mpl_eagle3 *e, const char *op,
                                 int64_t cols)
{
    const struct mpl_shape shape = mpl_eagle3_shape(e, cols);

    return mpl_empty(tape, op, e->sizes.root_dtype, &shape);
}

/* int64 for each token; held */
static struct mpl_tensor *token_ids(struct mpl_tape *tape, const struct mpl_eagle3 *e)
{
    return mpl_eagle3_make(tape, MPL_INT64, e->sizes.tokens, 0);
}

/* ---- operators of this model ------------------------------------------------------------------
 */

/* Narrowed views of the gradient, copied into the input's format where that is another one. */
static void cat_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                         struct mpl_tensor **in)
{
    struct mpl_eagle3 *e = node->context;
    const struct mpl_edge *edge = &node->edges[0];
    struct mpl_shape shape = {.ndim = edge->ndim};

    memcpy(shape.dim, edge->dim, sizeof(shape.dim));
    if (node->arg[0])
        mpl_eagle3_leave(e, out[0]);
    if (!mpl_needs(node, 0) || out[0]->is_void)
        return;
    if (out[0]->dtype != edge->dtype) {
        in[0] = mpl_hold(mpl_empty(tape, "_to_copy.default", (enum mpl_dtype)edge->dtype, &shape));
        return;
    }
    in[0] = mpl_hold(mpl_alias(tape, out[0]));
    if (in[0]->is_void)
        return;
    in[0]->shape = shape;
    in[0]->is_view = true;
    in[0]->is_contiguous = false;
}

/* cat((embeds, hidden), -1) in the wider format: [tokens, 2 * hidden]; floating */
static struct mpl_tensor *join(struct mpl_tape *tape, struct mpl_eagle3 *e,
                               struct mpl_tensor *hidden)
{
    struct mpl_node *node = mpl_node_new(tape, "CatBackward0", cat_backward, &hidden, 1, 1, 0);
    struct mpl_tensor *out = states(tape, e, "cat.default", 2 * e->sizes.hidden);

    if (node) {
        node->context = e;
        node->arg[0] = e->ttt_step == e->sizes.steps &&
                       e->sizes.root_dtype != e->sizes.layer_dtype &&
                       e->network->plan->training.python_gc == MPL_GC_OFF;
    }
    mpl_set_history(tape, out, node, 0);
    return out;
}

/* sum += term, in place */
static void add_in_place(struct mpl_tape *tape, struct mpl_tensor **sum, struct mpl_tensor *term)
{
    struct mpl_node *node = mpl_node_new(tape, "AddBackward0", mpl_rule_pass_backward,
                                         (struct mpl_tensor *[]){*sum, term}, 2, 1, 0);
    struct mpl_tensor *alias = mpl_alias(tape, *sum);

    mpl_set_history(tape, alias, node, 0);
    mpl_rebind(tape, sum, alias);
}

/* ---- one step of training-time test -----------------------------------------------------------
 */

/* cos and sin [tokens, head_dim] of the root's format take over from the step before. */
void mpl_eagle3_rotary(struct mpl_tape *tape, struct mpl_eagle3 *e, const struct mpl_tensor *embeds)
{
    struct mpl_tensor *cos =
        mpl_eagle3_make(tape, e->sizes.root_dtype, e->sizes.tokens, e->sizes.head_dim);
    struct mpl_tensor *sin =
        mpl_eagle3_make(tape, e->sizes.root_dtype, e->sizes.tokens, e->sizes.head_dim);

    (void)embeds;
    mpl_eagle3_assign(tape, &e->sin, sin);
    mpl_eagle3_assign(tape, &e->cos, cos);
}

/* From 0.7.0 on the next step's input ids are the real ones, moved by one for each step. */
static void force(struct mpl_tape *tape, struct mpl_eagle3 *e, struct locals *l)
{
    struct mpl_tensor *best = token_ids(tape, e), *tokens, *zeros, *moved;

    mpl_drop(tape, l->ids);
    tokens = token_ids(tape, e);
    zeros = mpl_eagle3_make(tape, MPL_INT64, mpl_dim(e->ttt_step), 0);
    moved = token_ids(tape, e);
    mpl_drop(tape, zeros);
    mpl_drop(tape, best);
    l->ids = moved;
    mpl_eagle3_return(e, tokens);
}

/* The next step's input ids: the drafted tokens, mapped to the verifier's vocabulary. */
static void draft(struct mpl_tape *tape, struct mpl_eagle3 *e, struct locals *l)
{
    struct mpl_tensor *best = token_ids(tape, e), *tokens, *offsets, *ids, *zeros, *moved;

    mpl_drop(tape, l->ids);
    tokens = token_ids(tape, e);
    offsets = token_ids(tape, e);
    ids = token_ids(tape, e);
    mpl_drop(tape, offsets);
    mpl_drop(tape, best);
    if (!e->network->plan->training.use_off_policy_tokens) {
        l->ids = ids;
    } else { /* the real tokens instead, moved by one for each step */
        zeros = mpl_eagle3_make(tape, MPL_INT64, mpl_dim(e->ttt_step), 0);
        moved = token_ids(tape, e);
        mpl_drop(tape, zeros);
        mpl_drop(tape, ids);
        l->ids = moved;
    }
    mpl_eagle3_return(e, tokens);
}

static void enter_layer(struct mpl_tape *tape, struct mpl_eagle3 *e, struct locals *l)
{
    mpl_eagle3_assign(tape, &l->embeds,
                      mpl_hold(states(tape, e, "embedding.default", e->sizes.hidden)));
    mpl_eagle3_assign(tape, &e->arange, token_ids(tape, e));
    mpl_rebind(tape, &l->hidden, join(tape, e, l->hidden));
    e->code->rotary(tape, e, l->embeds);
}

static void ttt_step(struct mpl_tape *tape, struct mpl_eagle3 *e, struct locals *l)
{
    struct mpl_network *network = e->network;
    const bool is_off = network->plan->training.python_gc == MPL_GC_OFF;
    struct mpl_tensor *normed;

    enter_layer(tape, e, l);
    mpl_rebind(tape, &l->hidden, mpl_module_call(tape, &network->modules[1], l->hidden));
    if (is_off && e->ttt_step == e->sizes.steps && e->sizes.root_dtype != e->sizes.layer_dtype) {
        mpl_eagle3_leave(e, e->cos);
        mpl_eagle3_leave(e, e->sin);
    }
    normed = mpl_hold(e->code->norm(tape, e, l->hidden));
    mpl_rebind(tape, &l->logits,
               mpl_op_linear(tape, normed, mpl_network_weight(network, e->head), NULL));
    mpl_drop(tape, normed);
    mpl_rebind(tape, &l->step_loss, e->code->loss(tape, e, l->logits, l->targets));
    add_in_place(tape, &l->loss, l->step_loss);
    if (e->sizes.release->has_autocast)
        force(tape, e, l);
    else
        draft(tape, e, l);
    e->code->mask_extend(tape, e);
    mpl_eagle3_assign(tape, &e->positions, token_ids(tape, e));
}

/* ---- all of it --------------------------------------------------------------------------------
 */

/* What the verifier would say: [tokens, draft_vocab], without gradient; held. */
static struct mpl_tensor *targets(struct mpl_tape *tape, const struct mpl_eagle3 *e)
{
    struct mpl_network *network = e->network;
    struct mpl_tensor *last = mpl_hold(e->batch.last_hidden_states), *out;

    if (e->sizes.release->has_verifier_norm && e->sizes.is_eager)
        mpl_rebind(tape, &last,
                   mpl_rms_norm(tape, mpl_network_weight(network, e->verifier_norm), last));
    else if (e->sizes.release->has_verifier_norm)
        mpl_rebind(tape, &last, states(tape, e, "empty_strided_cuda", e->sizes.hidden));
    out = mpl_hold(mpl_op_linear(tape, last, mpl_network_weight(network, e->verifier_head), NULL));
    mpl_drop(tape, last);
    return out;
}

static void leave(struct mpl_tape *tape, struct mpl_eagle3 *e, struct locals *l)
{
    struct mpl_tensor **const names[] = {
        &l->ids,    &e->positions,     &l->original_ids, &l->padding,   &l->embeds,
        &e->arange, &e->sin,           &e->cos,          &l->step_loss, &l->targets,
        &l->hidden, &e->cached_values, &e->cached_keys,  &l->logits};

    mpl_eagle3_mask_drop(tape, &e->mask);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpl_drop(tape, *names[i]);
        *names[i] = NULL;
    }
}

struct mpl_tensor *mpl_eagle3_forward(struct mpl_tape *tape, struct mpl_network *network,
                                      struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    struct mpl_eagle3 *e = network->family;
    const struct mpl_shape scalar = {0};
    struct locals l = {0};

    (void)batch; /* the drafter has a batch of its own */
    *logits_out = NULL;
    e->code->mask_make(tape, e);
    l.hidden = mpl_hold(
        mpl_op_linear(tape, e->batch.hidden_states, mpl_network_weight(network, e->fc), NULL));
    l.original_ids = token_ids(tape, e);
    l.targets = targets(tape, e);
    l.loss = mpl_hold(mpl_empty(tape, "empty_strided_cuda", MPL_FLOAT32, &scalar));
    l.padding = mpl_eagle3_make(tape, MPL_BOOL, e->sizes.tokens, 0);
    for (e->ttt_step = 1; e->ttt_step <= e->sizes.steps && !tape->is_stopped; e->ttt_step++)
        ttt_step(tape, e, &l);
    for (int i = 0; i < (e->sizes.release->sums_rows ? 2 : 1); i++)
        mpl_eagle3_return(e, mpl_hold(mpl_empty(tape, "clone.default", MPL_FLOAT32, &scalar)));
    leave(tape, e, &l);
    return mpl_return(l.loss);
}
