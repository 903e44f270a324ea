/* SPDX-License-Identifier: MIT */
/* Attention with latent keys and values (DeepSeek V2 and V3). */
#ifndef MPL_PART_MLA_H
#define MPL_PART_MLA_H

#include "part/experts.h"

/** Turns queries [b, heads, s, d] and the one key head [b, 1, s, d] of names that the caller holds:
 * each is bound to its turned tensor. */
typedef void mpl_turn(struct mpl_tape *tape, const struct mpl_lm *lm, struct mpl_tensor **q,
                      struct mpl_tensor **k);

struct mpl_mla {
    struct mpl_linear q, q_a, q_b; /* q, or both others */
    struct mpl_norm q_a_norm, kv_a_norm;
    struct mpl_linear kv_a, kv_b, o;
    mpl_turn *turn;
};

/** Layers of both families: latent attention, then a dense MLP or experts beside a shared MLP. */
struct mpl_mla_layer {
    struct mpl_parts_layer parts;
    struct mpl_mla attention;
    struct mpl_gated_mlp mlp; /* the dense one, or that of the shared experts */
    struct mpl_experts experts;
    uint32_t gate, correction; /* router; the buffer of V3, else MPL_NO_PARAMETER */
};

/** DeepseekV3TopkRouter.forward, or V2's. */
typedef struct mpl_routing mpl_mla_router(struct mpl_tape *tape, const struct mpl_mla_layer *layer,
                                          struct mpl_tensor *x);

/** Adds self_attn. */
struct mpl_mla mpl_mla_add(struct mpl_network *network, mpl_turn *turn);

/** Adds a whole layer; feed runs the sparse ones. */
void mpl_mla_layer_describe(struct mpl_network *network, struct mpl_mla_layer *layer,
                            mpl_turn *turn, mpl_layer_part *feed, bool has_correction);

/** DeepseekV3MoE.forward with that router. */
struct mpl_tensor *mpl_mla_layer_feed(struct mpl_tape *tape, struct mpl_mla_layer *layer,
                                      struct mpl_tensor *x, mpl_mla_router *router);

/** head_dim and layer types as both configuration classes set them. */
void mpl_mla_derive(struct mpl_plan *plan);

enum memplan_status mpl_mla_check(const struct mpl_plan *plan, struct memplan_error *err);

#endif
