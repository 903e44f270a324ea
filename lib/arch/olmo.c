/* SPDX-License-Identifier: MIT */
/* source: transformers/models/olmo/modeling_olmo.py, configuration_olmo.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->attention.rotary = MPL_ROTARY_CAST;
    block->attention.clip = m->clip_qkv;
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER_PLAIN, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_LAYER_PLAIN, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .position_rotary = 40,
             .lean_rotary = 41,
             .update_mask = 40,
             .split_mask = 44,
             .loss_function = 46,
             .flash_positions = 44},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER_PLAIN,
    .layer_room = 11,
    .has_float_rotary = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

const struct mpl_arch mpl_arch_olmo = {
    .config = {.model_type = "olmo", .has_scopes = true, .help = "OLMo 1"},
    .family = &family,
};
