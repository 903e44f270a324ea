/* SPDX-License-Identifier: MIT */
/* source: transformers/models/qwen3_moe/modeling_qwen3_moe.py, configuration_qwen3_moe.py;
 * release 5.24.0
 */
#include "arch/arch.h"
#include "part/experts.h"

static void add_sparse(struct mpl_network *network, struct mpl_moe_layer *layer)
{
    const struct mpl_model *m = &network->plan->model;

    layer->experts = mpl_experts_add(network, "mlp.experts", m->moe_intermediate_size, false);
    layer->router =
        (struct mpl_softmax_router){.normalises = m->norm_topk_prob, .casts_to_logits = true};
    layer->router.weight =
        mpl_network_add_under(network, "mlp.gate", ".weight",
                              mpl_shape2(mpl_dim(m->num_local_experts), mpl_dim(m->hidden_size)));
    layer->shared_gate.weight = MPL_NO_PARAMETER;
    layer->parts.feed = mpl_moe_layer_feed_sparse;
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_moe_layer *layer = (struct mpl_moe_layer *)base;
    struct mpl_attention_module attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);

    attention.q_norm = mpl_norm_add(network, MPL_NORM_RMS, "self_attn.q_norm", m->head_dim);
    attention.k_norm = mpl_norm_add(network, MPL_NORM_RMS, "self_attn.k_norm", m->head_dim);
    mpl_moe_layer_set_attention(layer, &attention);
    if (mpl_moe_layer_is_dense(m, base->index))
        mpl_moe_layer_add_dense(network, layer);
    else
        add_sparse(network, layer);
    mpl_parts_layer_add_norms(network, &layer->parts, MPL_NORM_RMS);
}

static const struct mpl_lm_family family = {
    .past = {.first = 51},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_moe_layer),
    .layer_room = 16,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
    .finish_loss = mpl_add_router_loss,
};

/* A window, where it is in use, holds for every layer. */
static void derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;

    if (!m->use_sliding_window)
        m->sliding_window = 0;
    m->layer_types.count = 0;
    mpl_lm_fill_layer_types(m, m->sliding_window ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_needed needed[] = {{"moe_intermediate_size", m->moe_intermediate_size},
                                        {"decoder_sparse_step", m->decoder_sparse_step},
                                        {NULL, 0}};
    const enum memplan_status status = mpl_check_needed(needed, err);

    return status ? status : mpl_experts_check(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"num_local_experts", "num_experts", "128"},
    {"num_experts_per_tok", NULL, "8"},
    {"moe_intermediate_size", NULL, "768"},
    {"decoder_sparse_step", NULL, "1"},
    {"num_key_value_heads", NULL, "4"},
    {"sliding_window", NULL, "4096"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_qwen3_moe = {
    .config = {.model_type = "qwen3_moe",
               .has_scopes = true,
               .help = "Qwen3, mixtures of experts",
               .keys = keys,
               .derive = derive,
               .check = check},
    .family = &family,
};
