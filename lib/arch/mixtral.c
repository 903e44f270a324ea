/* SPDX-License-Identifier: MIT */
/* source: transformers/models/mixtral/modeling_mixtral.py, configuration_mixtral.py; release 5.24.0
 */
#include "arch/arch.h"
#include "part/experts.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_moe_layer *layer = (struct mpl_moe_layer *)base;
    const struct mpl_attention_module attention =
        mpl_attention_add(network, "self_attn", false, false);

    mpl_moe_layer_set_attention(layer, &attention);
    layer->router = (struct mpl_softmax_router){.normalises = true};
    layer->router.weight =
        mpl_network_add_under(network, "mlp.gate", ".weight",
                              mpl_shape2(mpl_dim(m->num_local_experts), mpl_dim(m->hidden_size)));
    layer->experts = mpl_experts_add(network, "mlp.experts", m->intermediate_size, false);
    layer->shared_gate.weight = MPL_NO_PARAMETER;
    layer->parts.feed = mpl_moe_layer_feed_sparse;
    mpl_parts_layer_add_norms(network, &layer->parts, MPL_NORM_RMS);
}

static const struct mpl_lm_family family = {
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_moe_layer),
    .layer_room = 9,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
    .finish_loss = mpl_add_router_loss,
};

/* A window, where there is one, holds for every layer. */
static void derive(struct mpl_plan *plan)
{
    mpl_lm_fill_layer_types(&plan->model,
                            plan->model.sliding_window ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
}

static const struct mpl_config_key keys[] = {
    {"num_key_value_heads", NULL, "8"},
    {"num_local_experts", "num_experts", "8"},
    {"num_experts_per_tok", NULL, "2"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_mixtral = {
    .config = {.model_type = "mixtral",
               .has_scopes = true,
               .help = "Mixtral 8x7B and 8x22B",
               .keys = keys,
               .derive = derive,
               .check = mpl_experts_check},
    .family = &family,
};
