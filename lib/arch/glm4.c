/* SPDX-License-Identifier: MIT */
/* source: transformers/models/glm4/modeling_glm4.py, configuration_glm4.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const bool has_bias = network->plan->model.attention_bias;
    struct mpl_block *block = (struct mpl_block *)base;

    block->attention = mpl_attention_add(network, "self_attn", has_bias, false);
    block->attention.rotary = MPL_ROTARY_PARTIAL_PAIRS;
    block->mlp = mpl_mlp_add_joined(network);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS, "post_attention_layernorm");
    block->after_attention = mpl_block_norm(network, MPL_NORM_RMS, "post_self_attn_layernorm");
    block->after_mlp = mpl_block_norm(network, MPL_NORM_RMS, "post_mlp_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 51},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_room = 13,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

static const struct mpl_config_key keys[] = {
    {"head_dim", NULL, "128"},
    {"attention_bias", NULL, "true"},
    {"num_key_value_heads", NULL, "2"},
    {"partial_rotary_factor", NULL, "0.5"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_glm4 = {
    .config = {.model_type = "glm4", .has_scopes = true, .help = "GLM-4 0414", .keys = keys},
    .family = &family,
};
