/* SPDX-License-Identifier: MIT */
/*
 * The drafter's layer where compiled code casts float32 weights itself (autocast, no FSDP2). For
 * arch/eagle3*.c only.
 */
#ifndef MPL_ARCH_EAGLE3_CAST_H
#define MPL_ARCH_EAGLE3_CAST_H

#include "arch/eagle3.h"

/** What the backward graph reads, behind its buffers. The node keeps them in this order. */
enum {
    MPL_EAGLE3_CAST_PRODUCT = MPL_EAGLE3_BUF_COUNT,
    MPL_EAGLE3_CAST_GATED,
    MPL_EAGLE3_CAST_UPPED,
    MPL_EAGLE3_CAST_NORMED_POST,
    MPL_EAGLE3_CAST_PROJECTED,
    MPL_EAGLE3_CAST_RSTD,
    MPL_EAGLE3_CAST_ATTENTION_T,
    MPL_EAGLE3_CAST_ATTENTION,
    MPL_EAGLE3_CAST_LSE,
    MPL_EAGLE3_CAST_NORMED,
    MPL_EAGLE3_CAST_QUERY,
    MPL_EAGLE3_CAST_KEY,
    MPL_EAGLE3_CAST_VALUE,
    MPL_EAGLE3_CAST_W_DOWN, /* weights in the narrow format */
    MPL_EAGLE3_CAST_W_UP,
    MPL_EAGLE3_CAST_W_GATE,
    MPL_EAGLE3_CAST_W_O,
    MPL_EAGLE3_CAST_W_V,
    MPL_EAGLE3_CAST_W_K,
    MPL_EAGLE3_CAST_W_Q,
    MPL_EAGLE3_CAST_RESIDUAL,
    MPL_EAGLE3_CAST_COS,
    MPL_EAGLE3_CAST_SIN,
    MPL_EAGLE3_CAST_MASK, /* and the next ones */
    MPL_EAGLE3_CAST_TANGENT = MPL_EAGLE3_CAST_MASK + MPL_EAGLE3_MASKS,
    MPL_EAGLE3_CAST_TANGENT_V,
    MPL_EAGLE3_CAST_TANGENT_K,
    MPL_EAGLE3_CAST_VALUES,
};

#define MPL_EAGLE3_CAST_SAVES (MPL_EAGLE3_CAST_TANGENT - MPL_EAGLE3_CAST_PRODUCT)

/** Edges of the layer's node: weights in the order in which their gradients are summed. */
enum {
    MPL_EAGLE3_EDGE_INPUT_NORM = 0,
    MPL_EAGLE3_EDGE_HIDDEN_NORM,
    MPL_EAGLE3_EDGE_Q,
    MPL_EAGLE3_EDGE_K,
    MPL_EAGLE3_EDGE_V,
    MPL_EAGLE3_EDGE_O,
    MPL_EAGLE3_EDGE_POST_NORM,
    MPL_EAGLE3_EDGE_UP,
    MPL_EAGLE3_EDGE_GATE,
    MPL_EAGLE3_EDGE_DOWN,
    MPL_EAGLE3_EDGE_INPUT,    /* x; after a graph break the normed cat */
    MPL_EAGLE3_EDGE_RESIDUAL, /* after a graph break */
    MPL_EAGLE3_EDGE_KEYS,
    MPL_EAGLE3_EDGE_VALUES,
    MPL_EAGLE3_EDGES,
};

/** Number of the gradient of an edge; NONE: it has none. */
uint8_t mpl_eagle3_cast_gradient(int64_t ttt_step, int edge);

/** The gradient of a cache [1, kv heads, tokens * step, head_dim]: zeros, or a contiguous copy. */
struct mpl_tensor *mpl_eagle3_cache_gradient(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                                             int64_t ttt_step);

/** Takes over what the node keeps and what arrived, by number. */
void mpl_eagle3_cast_load(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **values);

void mpl_eagle3_cast_table(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                           int64_t ttt_step);

/** The forward graph. residual: held; the node keeps what backward reads. results: output [n, h],
 * keys and values [n * step, kv], all float32 and held. */
void mpl_eagle3_cast_forward(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_node *node,
                             struct mpl_tensor *residual, struct mpl_tensor *results[3]);

#endif
