/* SPDX-License-Identifier: MIT */
/* Mixtures of experts: what their families share. */
#ifndef MPL_PART_EXPERTS_H
#define MPL_PART_EXPERTS_H

#include "part/causal_lm.h"

/** What a router hands out. All held: locals of the block's forward. */
struct mpl_routing {
    struct mpl_tensor *logits;  /* [n, experts] */
    struct mpl_tensor *weights; /* [n, k] */
    struct mpl_tensor *index;   /* int64 [n, k] */
};

void mpl_routing_drop(struct mpl_tape *tape, struct mpl_routing *routing);

/** Keeps the router's logits for the model's output, where the configuration asks for them. */
void mpl_routing_record(struct mpl_tape *tape, struct mpl_lm *lm,
                        const struct mpl_routing *routing);

/** x [.., h] as [n, h]; floating, a view. x is borrowed. */
struct mpl_tensor *mpl_token_rows(struct mpl_tape *tape, struct mpl_tensor *x);

/* ---- routers --------------------------------------------------------------------------------- */

struct mpl_softmax_router {
    uint32_t weight;      /* [experts, h] */
    bool normalises;      /* weights of the chosen sum to one */
    bool casts_to_logits; /* weights in the dtype of the logits, else float32 */
};

/** MixtralTopKRouter and its kin: top-k of a float32 softmax over all experts. */
struct mpl_routing mpl_softmax_router_call(struct mpl_tape *tape, const struct mpl_network *network,
                                           const struct mpl_softmax_router *router,
                                           struct mpl_tensor *x);

/** float32 linear of x [.., h]: logits [n, experts] of DeepSeek's routers; held. */
struct mpl_tensor *mpl_float_router_logits(struct mpl_tape *tape, struct mpl_tensor *weight,
                                           struct mpl_tensor *x);

/** Experts outside the best groups: bool [n, experts], floating. group_scores [n, groups] becomes
 * a local of the router; what else the router holds until it returns goes to locals. */
struct mpl_group_locals {
    struct mpl_tensor *group_scores, *group_idx, *group_mask, *score_mask; /* held */
};

struct mpl_tensor *mpl_groups_left_out(struct mpl_tape *tape, const struct mpl_model *model,
                                       struct mpl_tensor *group_scores,
                                       struct mpl_group_locals *locals);

void mpl_group_locals_drop(struct mpl_tape *tape, struct mpl_group_locals *locals);

/* ---- experts --------------------------------------------------------------------------------- */

struct mpl_experts {
    uint32_t gate_up, down;           /* [experts, out, in] */
    uint32_t gate_up_bias, down_bias; /* [experts, out]; MPL_NO_PARAMETER: none */
    bool is_gpt_oss; /* weights lie as [experts, in, out], gate and up alternate, and are clamped */
};

/** Adds name + ".gate_up_proj" and name + ".down_proj". */
struct mpl_experts mpl_experts_add(struct mpl_network *network, const char *name,
                                   int64_t intermediate_size, bool is_gpt_oss);

/** The experts' forward over rows x [n, h]: floating [n, h] in the dtype of x. */
struct mpl_tensor *mpl_experts_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                       const struct mpl_experts *experts, struct mpl_tensor *x,
                                       const struct mpl_routing *routing);

/** The same, one expert after another: experts_eager.c. */
struct mpl_tensor *mpl_experts_loop(struct mpl_tape *tape, const struct mpl_network *network,
                                    const struct mpl_experts *experts, struct mpl_tensor *x,
                                    const struct mpl_routing *routing);

/** _apply_gate: act_fn(gate) * up of the two halves; takes a floating tensor, gives one. */
struct mpl_tensor *mpl_experts_apply_gate(struct mpl_tape *tape, const struct mpl_network *network,
                                          const struct mpl_experts *experts,
                                          struct mpl_tensor *both);

/** load_balancing_loss_func over the recorded logits, and its share of the loss: the loss under its
 * new history. For mpl_lm_family.finish_loss. */
struct mpl_tensor *mpl_add_router_loss(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *attention_mask, struct mpl_tensor *loss);

/* ---- layers ---------------------------------------------------------------------------------- */

/** The feed-forward part of a layer: floating result; *other_out is a second result, held by the
 * layer, or NULL. */
typedef struct mpl_tensor *mpl_layer_part(struct mpl_tape *tape, void *layer, struct mpl_tensor *x,
                                          struct mpl_tensor **other_out);

/** First member of a layer of these families: x + attend(norm(x)), then + feed(norm(x)). */
struct mpl_parts_layer {
    struct mpl_lm_layer base;
    struct mpl_norm input_norm, post_norm;
    mpl_layer_part *attend, *feed;
};

mpl_forward mpl_parts_layer_forward;

/** Adds input_layernorm and post_attention_layernorm. */
void mpl_parts_layer_add_norms(struct mpl_network *network, struct mpl_parts_layer *layer,
                               enum mpl_norm_kind kind);

/** A layer with the usual attention, and either a dense MLP or a softmax router, experts, and
 * maybe a gated expert for all (mixtral, qwen2_moe, qwen3_moe). */
struct mpl_moe_layer {
    struct mpl_parts_layer parts;
    struct mpl_attention_module attention;
    struct mpl_gated_mlp mlp;
    struct mpl_softmax_router router;
    struct mpl_experts experts;
    struct mpl_gated_mlp shared;
    struct mpl_linear shared_gate; /* weight MPL_NO_PARAMETER: no shared expert */
};

/** Sets attend: LlamaAttention.forward over layer->attention. */
void mpl_moe_layer_set_attention(struct mpl_moe_layer *layer,
                                 const struct mpl_attention_module *attention);

/** Adds mlp as layer index has it in the Qwen families: dense, or sparse by describe. */
bool mpl_moe_layer_is_dense(const struct mpl_model *model, uint32_t index);
void mpl_moe_layer_add_dense(struct mpl_network *network, struct mpl_moe_layer *layer);
mpl_layer_part mpl_moe_layer_feed_sparse;

/** A field that a family's configuration cannot leave out or set to null. */
struct mpl_needed {
    const char *name; /* in section model */
    int64_t value;    /* 0: not there */
};

/** Fails for the first one that is not there; a NULL name ends the list. */
enum memplan_status mpl_check_needed(const struct mpl_needed *list, struct memplan_error *err);

/** Refuses what is not modelled of mixtures. */
enum memplan_status mpl_experts_check(const struct mpl_plan *plan, struct memplan_error *err);

#endif
