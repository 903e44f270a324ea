/* SPDX-License-Identifier: MIT */
/*
 * A layer of the DFlash drafter, as compiled code runs it: blocks of drafted tokens attend to the
 * verifier's hidden states and to themselves.
 *
 * Letters: n tokens, q drafted tokens, h hidden, a query heads, k key/value heads (times head_dim).
 *
 * source: speculators/models/dflash/model_definitions.py (Qwen3DFlashDecoderLayer) and the code
 * that PyTorch 2.13 generates for it under FSDP2, whose hooks make each layer a graph of its own
 */
#include <string.h>

#include "arch/dflash_table.h"

/* What the layer's node keeps, in the order of the backward table's inputs; then the masks. */
#define SAVES      (MPL_DFLASH_IN_END - MPL_DFLASH_IN_FIRST)
#define MOST_SAVES (SAVES + MPL_DFLASH_MASKS)

/* Edges of the layer's node: the weights, then both inputs. */
enum {
    EDGE_X = MPL_DFLASH_WEIGHTS,
    EDGE_TARGET,
    EDGES,
};

static const uint8_t gradients[EDGES] = {
    [MPL_DFLASH_Q] = MPL_DFLASH_D_Q_WEIGHT,
    [MPL_DFLASH_K] = MPL_DFLASH_D_K_WEIGHT,
    [MPL_DFLASH_V] = MPL_DFLASH_D_V_WEIGHT,
    [MPL_DFLASH_O] = MPL_DFLASH_D_O_WEIGHT,
    [MPL_DFLASH_Q_NORM] = MPL_DFLASH_D_Q_NORM,
    [MPL_DFLASH_K_NORM] = MPL_DFLASH_D_K_NORM,
    [MPL_DFLASH_GATE] = MPL_DFLASH_D_GATE_WEIGHT,
    [MPL_DFLASH_UP] = MPL_DFLASH_D_UP_WEIGHT,
    [MPL_DFLASH_DOWN] = MPL_DFLASH_D_DOWN_WEIGHT,
    [MPL_DFLASH_INPUT_NORM] = MPL_DFLASH_D_INPUT_NORM,
    [MPL_DFLASH_POST_NORM] = MPL_DFLASH_D_POST_NORM,
    [EDGE_X] = MPL_DFLASH_D_X,
    [EDGE_TARGET] = MPL_DFLASH_D_TARGET,
};

static void layer_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_dflash *d = node->context;
    struct mpl_dflash_compiled *c = mpl_dflash_compiled(d, mpl_needs(node, EDGE_X));
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL};

    for (int i = 0; i < SAVES; i++) {
        values[MPL_DFLASH_IN_FIRST + i] = node->saved[i].tensor;
        node->saved[i].tensor = NULL;
    }
    values[MPL_DFLASH_TANGENT] = out[0];
    out[0] = NULL;
    mpl_inductor_run(tape, &c->graph, &c->plan, values, 1, 1);
    for (int i = 0; i < EDGES && !tape->is_stopped; i++)
        if (mpl_needs(node, i))
            in[i] = mpl_inductor_gradient(&c->plan, values, gradients[i], &node->edges[i]);
    for (int i = 0; i < MPL_DFLASH_VALUES; i++)
        mpl_drop(tape, values[i]);
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_node *layer_node(struct mpl_tape *tape, const struct mpl_dflash_layer *layer,
                                   struct mpl_tensor *x)
{
    struct mpl_dflash *d = layer->dflash;
    struct mpl_tensor *inputs[EDGES];
    struct mpl_node *node;

    for (int i = 0; i < MPL_DFLASH_WEIGHTS; i++)
        inputs[i] = mpl_network_weight(d->network, layer->weights[i]);
    inputs[EDGE_X] = x;
    inputs[EDGE_TARGET] = d->target_hidden;
    node = mpl_node_new(tape, "CompiledFunctionBackward", layer_backward, inputs, EDGES, 1,
                        MOST_SAVES);
    if (node)
        node->context = d;
    return node;
}

/* Heads that attention reads, and what backward needs of them. */
static void heads(struct mpl_tape *tape, const struct mpl_dflash *d, struct mpl_tensor **kept)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    struct mpl_tensor *parts[4];

    kept[MPL_DFLASH_Q_RAW] = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->attention);
    kept[MPL_DFLASH_Q_RSTD] = mpl_dflash_make(tape, MPL_FLOAT32, d->drafted, s->heads);
    kept[MPL_DFLASH_QUERY] = mpl_dflash_make(tape, s->layer_dtype, d->drafted, s->attention);
    for (int i = 0; i < 4; i++) /* keys, then values: of the tokens, of the drafted ones */
        parts[i] = mpl_dflash_make(tape, s->layer_dtype, i % 2 ? d->drafted : d->tokens, s->kv);
    kept[MPL_DFLASH_K_RAW] = mpl_dflash_make(tape, s->layer_dtype, d->keys, s->kv);
    mpl_drop(tape, parts[0]);
    mpl_drop(tape, parts[1]);
    kept[MPL_DFLASH_K_RSTD] = mpl_dflash_make(tape, MPL_FLOAT32, d->keys, s->kv / s->head_dim);
    kept[MPL_DFLASH_KEY] = mpl_dflash_make(tape, s->layer_dtype, d->keys, s->kv);
    kept[MPL_DFLASH_VALUE] = mpl_dflash_make(tape, s->layer_dtype, d->keys, s->kv);
    mpl_drop(tape, parts[2]);
    mpl_drop(tape, parts[3]);
}

static struct mpl_tensor *kernels(struct mpl_tape *tape, const struct mpl_dflash *d,
                                  struct mpl_tensor **kept)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    const enum mpl_dtype e = s->layer_dtype;
    const struct mpl_dim q = d->drafted;
    struct mpl_tensor *maxima;

    kept[MPL_DFLASH_RSTD] = mpl_dflash_make(tape, MPL_FLOAT32, q, 1);
    kept[MPL_DFLASH_NORMED] = mpl_dflash_make(tape, e, q, s->hidden);
    heads(tape, d, kept);
    kept[MPL_DFLASH_LSE] = mpl_dflash_make(tape, MPL_FLOAT32, q, s->heads);
    maxima = mpl_dflash_make(tape, MPL_FLOAT32, q, s->heads);
    kept[MPL_DFLASH_ATTENTION] = mpl_dflash_make(tape, e, q, s->attention);
    mpl_drop(tape, maxima);
    kept[MPL_DFLASH_ATTENTION_T] = mpl_dflash_make(tape, e, q, s->attention);
    kept[MPL_DFLASH_PROJECTED] = mpl_dflash_make(tape, e, q, s->hidden);
    kept[MPL_DFLASH_POST_RSTD] = mpl_dflash_make(tape, MPL_FLOAT32, q, 1);
    kept[MPL_DFLASH_POST_NORMED] = mpl_dflash_make(tape, e, q, s->hidden);
    kept[MPL_DFLASH_GATED] = mpl_dflash_make(tape, e, q, s->inner);
    kept[MPL_DFLASH_UPPED] = mpl_dflash_make(tape, e, q, s->inner);
    kept[MPL_DFLASH_PRODUCT] = mpl_dflash_make(tape, e, q, s->inner);
    return mpl_dflash_make(tape, e, q, s->hidden);
}

struct mpl_tensor *mpl_dflash_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    const struct mpl_dflash_layer *layer = context;
    struct mpl_dflash *d = layer->dflash;
    struct mpl_tensor *kept[MPL_DFLASH_VALUES] = {NULL}, *out;
    struct mpl_node *node = layer_node(tape, layer, x);

    kept[MPL_DFLASH_X] = mpl_hold(x);
    kept[MPL_DFLASH_TARGET] = mpl_hold(d->target_hidden);
    kept[MPL_DFLASH_COS] = mpl_hold(d->cos);
    kept[MPL_DFLASH_SIN] = mpl_hold(d->sin);
    out = kernels(tape, d, kept);
    for (int i = MPL_DFLASH_IN_FIRST; i < MPL_DFLASH_IN_END; i++) {
        mpl_save(tape, node, kept[i]);
        mpl_drop(tape, kept[i]);
    }
    for (int i = 0; i < MPL_DFLASH_MASKS; i++)
        mpl_save(tape, node, d->masks[i]);
    mpl_set_history(tape, out, node, 0);
    return mpl_return(out);
}
