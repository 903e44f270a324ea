/* SPDX-License-Identifier: MIT */
/*
 * The MTP drafter's layer, as compiled code runs it: embedding and hidden states are normed, stand
 * side by side, are projected, and pass through a layer of Qwen3 and a last norm.
 *
 * Letters: n tokens, h hidden, a query heads, k key/value heads (times head_dim).
 *
 * source: speculators/models/mtp/model_definitions.py (MTPLayerMixin) and the code that PyTorch
 * 2.13 generates for it under FSDP2, whose hooks make each layer a graph of its own
 */
#include <string.h>

#include "arch/mtp_table.h"
#include "op/scratch_book.h"

#define SAVES           (MPL_MTP_IN_END - MPL_MTP_IN_FIRST)
#define MASK_ALIGN      8    /* elements; of the kernel's mask */
#define STRIDE_ALIGN    64   /* elements of two bytes; of rows that Inductor pads, */
#define SHORTEST_PADDED 1024 /* which are longer than this (config.padding_stride_threshold) */

/* Edges of the layer's node: the weights, then the hidden states. */
enum {
    EDGE_X = MPL_MTP_WEIGHTS,
    EDGES,
};

static const uint8_t gradients[EDGES] = {
    [MPL_MTP_Q] = MPL_MTP_D_Q_WEIGHT,
    [MPL_MTP_K] = MPL_MTP_D_K_WEIGHT,
    [MPL_MTP_V] = MPL_MTP_D_V_WEIGHT,
    [MPL_MTP_O] = MPL_MTP_D_O_WEIGHT,
    [MPL_MTP_Q_NORM] = MPL_MTP_D_Q_NORM,
    [MPL_MTP_K_NORM] = MPL_MTP_D_K_NORM,
    [MPL_MTP_GATE] = MPL_MTP_D_GATE_WEIGHT,
    [MPL_MTP_UP] = MPL_MTP_D_UP_WEIGHT,
    [MPL_MTP_DOWN] = MPL_MTP_D_DOWN_WEIGHT,
    [MPL_MTP_INPUT_NORM] = MPL_MTP_D_INPUT_NORM,
    [MPL_MTP_POST_NORM] = MPL_MTP_D_POST_NORM,
    [MPL_MTP_HIDDEN_NORM] = MPL_MTP_D_HIDDEN_NORM,
    [MPL_MTP_TOKEN_NORM] = MPL_MTP_D_TOKEN_NORM,
    [MPL_MTP_PROJECTION] = MPL_MTP_D_PROJECTION,
    [MPL_MTP_FINAL_NORM] = MPL_MTP_D_FINAL_NORM,
    [EDGE_X] = MPL_MTP_D_X,
};

static struct mpl_dim round_up(struct mpl_dim n, int64_t to)
{
    return (struct mpl_dim){(n.n + to - 1) / to * to, n.degree};
}

struct mpl_dim mpl_mtp_mask_cols(const struct mpl_mtp *m)
{
    const struct mpl_dim cols = round_up(m->sizes.tokens, MASK_ALIGN);

    return cols.n > SHORTEST_PADDED ? round_up(cols, STRIDE_ALIGN) : cols;
}

struct mpl_dim mpl_mtp_lse_rows(const struct mpl_mtp *m)
{
    return round_up(m->sizes.tokens, m->lse_align);
}

void mpl_mtp_attention_scratch(struct mpl_tape *tape, const void *context)
{
    const struct mpl_mtp *m = context;
    const struct mpl_eagle3_sizes *s = &m->sizes;
    const struct mpl_scratch_attention call = {
        .kernel = m->kernel,
        .dtype = s->layer_dtype,
        .batch = 1,
        .query_tokens = s->tokens.n,
        .key_tokens = s->tokens.n,
        .heads = s->heads,
        .kv_heads = s->heads,
        .head_dim = s->head_dim,
        .value_head_dim = s->head_dim,
        .is_token_major = true,
    };
    const struct mpl_book book = {.op = "_scaled_dot_product_attention_backward",
                                  .degree = s->tokens.degree};
    const struct mpl_scratch_card card = mpl_book_card(tape);
    struct mpl_scratch scratch;

    if (!tape->has_kernel_scratch)
        return;
    mpl_scratch_attention_backward(&card, &call, &scratch);
    mpl_book_run(tape, &scratch, &book);
}

static void layer_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_mtp *m = node->context;
    struct mpl_mtp_compiled *c = mpl_mtp_compiled(m, mpl_needs(node, EDGE_X));
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL};

    for (int i = 0; i < SAVES; i++) {
        values[MPL_MTP_IN_FIRST + i] = node->saved[i].tensor;
        node->saved[i].tensor = NULL;
    }
    values[MPL_MTP_TANGENT] = out[0];
    out[0] = NULL;
    mpl_inductor_run(tape, &c->graph, &c->plan, values, 1, 1);
    for (int i = 0; i < EDGES && !tape->is_stopped; i++)
        if (mpl_needs(node, i))
            in[i] = mpl_inductor_gradient(&c->plan, values, gradients[i], &node->edges[i]);
    for (int i = 0; i < MPL_MTP_VALUES; i++)
        mpl_drop(tape, values[i]);
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_node *layer_node(struct mpl_tape *tape, struct mpl_mtp *m, struct mpl_tensor *x)
{
    struct mpl_tensor *inputs[EDGES];
    struct mpl_node *node;

    for (int i = 0; i < MPL_MTP_WEIGHTS; i++)
        inputs[i] = mpl_network_weight(m->network, m->layer[i]);
    inputs[EDGE_X] = x;
    node = mpl_node_new(tape, "CompiledFunctionBackward", layer_backward, inputs, EDGES, 1, SAVES);
    if (node)
        node->context = m;
    return node;
}

/* [n, cols]: in the layer's format, or of the norms and the like in float32 */
static struct mpl_tensor *states(struct mpl_tape *tape, const struct mpl_mtp *m, int64_t cols)
{
    return mpl_mtp_make(tape, m->sizes.layer_dtype, m->sizes.tokens, cols);
}

static struct mpl_tensor *wide(struct mpl_tape *tape, const struct mpl_mtp *m, int64_t cols)
{
    return mpl_mtp_make(tape, MPL_FLOAT32, m->sizes.tokens, cols);
}

/* Query, and key and value repeated for every query head. */
static void heads(struct mpl_tape *tape, const struct mpl_mtp *m, struct mpl_tensor **kept)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;
    struct mpl_tensor *turned, *value;

    kept[MPL_MTP_Q_RAW] = states(tape, m, s->attention);
    kept[MPL_MTP_Q_RSTD] = wide(tape, m, s->heads);
    kept[MPL_MTP_QUERY] = states(tape, m, s->attention);
    kept[MPL_MTP_K_RAW] = states(tape, m, s->kv);
    kept[MPL_MTP_K_RSTD] = wide(tape, m, s->kv / s->head_dim);
    turned = states(tape, m, s->kv);
    value = states(tape, m, s->kv);
    kept[MPL_MTP_KEY] = states(tape, m, s->attention);
    mpl_drop(tape, turned);
    kept[MPL_MTP_VALUE] = states(tape, m, s->attention);
    if (mpl_mtp_mask_cols(m).n == s->kv) { /* Inductor takes a buffer of as many elements */
        kept[MPL_MTP_MASK] = value;
        return;
    }
    mpl_drop(tape, value);
    kept[MPL_MTP_MASK] = mpl_mtp_square(tape, s->layer_dtype, s->tokens, mpl_mtp_mask_cols(m));
}

static void attention(struct mpl_tape *tape, const struct mpl_mtp *m, struct mpl_tensor **kept)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;

    kept[MPL_MTP_ATTENTION] = states(tape, m, s->attention);
    kept[MPL_MTP_LSE] = mpl_mtp_make(tape, MPL_FLOAT32, mpl_mtp_lse_rows(m), s->heads);
    for (int i = MPL_MTP_SEED; i <= MPL_MTP_OFFSET; i++)
        kept[i] =
            mpl_hold_scalar(tape, "_scaled_dot_product_efficient_attention.default", MPL_INT64);
}

static struct mpl_tensor *kernels(struct mpl_tape *tape, const struct mpl_mtp *m,
                                  struct mpl_tensor **kept)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;

    kept[MPL_MTP_HIDDEN_RSTD] = wide(tape, m, 1);
    kept[MPL_MTP_TOKEN_RSTD] = wide(tape, m, 1);
    kept[MPL_MTP_JOINED] = states(tape, m, 2 * s->hidden);
    kept[MPL_MTP_PROJECTED] = states(tape, m, s->hidden);
    kept[MPL_MTP_RSTD] = wide(tape, m, 1);
    kept[MPL_MTP_NORMED] = states(tape, m, s->hidden);
    heads(tape, m, kept);
    attention(tape, m, kept);
    kept[MPL_MTP_RESIDUAL] = states(tape, m, s->hidden);
    kept[MPL_MTP_POST_RSTD] = wide(tape, m, 1);
    kept[MPL_MTP_POST_NORMED] = states(tape, m, s->hidden);
    kept[MPL_MTP_GATED] = states(tape, m, s->inner);
    kept[MPL_MTP_UPPED] = states(tape, m, s->inner);
    kept[MPL_MTP_PRODUCT] = states(tape, m, s->inner);
    kept[MPL_MTP_OUTPUT] = states(tape, m, s->hidden);
    kept[MPL_MTP_FINAL_RSTD] = wide(tape, m, 1);
    return states(tape, m, s->hidden);
}

struct mpl_tensor *mpl_mtp_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    struct mpl_mtp *m = context;
    struct mpl_tensor *kept[MPL_MTP_VALUES] = {NULL}, *out;
    struct mpl_node *node = layer_node(tape, m, x);

    kept[MPL_MTP_X] = mpl_hold(x);
    kept[MPL_MTP_EMBEDS] = mpl_hold(m->embeds);
    kept[MPL_MTP_COS] = mpl_hold(m->cos);
    kept[MPL_MTP_SIN] = mpl_hold(m->sin);
    out = kernels(tape, m, kept);
    for (int i = MPL_MTP_IN_FIRST; i < MPL_MTP_IN_END; i++) {
        mpl_save(tape, node, kept[i]);
        mpl_drop(tape, kept[i]);
    }
    mpl_set_history(tape, out, node, 0);
    return mpl_return(out);
}
