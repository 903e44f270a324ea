/* SPDX-License-Identifier: MIT */
/* source: transformers/models/olmo2/modeling_olmo2.py, configuration_olmo2.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const enum mpl_norm_kind kind = mpl_past_norm_kind(base->lm, MPL_NORM_RMS_WIDE);
    struct mpl_block *block = (struct mpl_block *)base;

    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->attention.rotary = MPL_ROTARY_CAST;
    block->attention.norm_place = MPL_QK_NORM_WHOLE;
    block->attention.q_norm =
        mpl_norm_add(network, kind, "self_attn.q_norm", m->num_attention_heads * m->head_dim);
    block->attention.k_norm =
        mpl_norm_add(network, kind, "self_attn.k_norm", m->num_key_value_heads * m->head_dim);
    block->mlp = mpl_mlp_add_gated(network, false);
    block->after_attention = mpl_block_norm(network, kind, "post_attention_layernorm");
    block->after_mlp = mpl_block_norm(network, kind, "post_feedforward_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 47,
             .position_rotary = 47,
             .lean_rotary = 47,
             .update_mask = 47,
             .split_mask = 47,
             .loss_function = 47,
             .has_narrow_norms = true,
             .flash_positions = 47},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_RMS_WIDE,
    .layer_room = 15,
    .has_float_rotary = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

const struct mpl_arch mpl_arch_olmo2 = {
    .config = {.model_type = "olmo2", .has_scopes = true, .help = "OLMo 2"},
    .family = &family,
};
