/* SPDX-License-Identifier: MIT */
/* source: transformers/models/nemotron/modeling_nemotron.py, configuration_nemotron.py;
 * release 5.24.0 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->attention.rotary = MPL_ROTARY_PARTIAL_RETURN;
    block->mlp = mpl_mlp_add_plain(network, "mlp.up_proj", "mlp.down_proj", m->mlp_bias);
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER_ONE, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_LAYER_ONE, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 44,
             .free_head_dim = 44,
             .position_rotary = 44,
             .lean_rotary = 44,
             .shared_rotary = 44,
             .lone_rotary = 44,
             .update_mask = 44,
             .split_mask = 44,
             .loss_function = 46,
             .flash_positions = 44},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER_ONE,
    .layer_room = 16,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

static const struct mpl_config_key keys[] = {
    {"hidden_act", NULL, "\"relu2\""},
    {"partial_rotary_factor", NULL, "0.5"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_nemotron = {
    .config = {.model_type = "nemotron",
               .has_scopes = true,
               .help = "Nemotron-4 and Minitron",
               .keys = keys},
    .family = &family,
};
