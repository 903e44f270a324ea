/* SPDX-License-Identifier: MIT */
/* source: transformers/models/phi3/modeling_phi3.py, configuration_phi3.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const int64_t h = m->hidden_size, width = m->num_attention_heads * m->head_dim;
    struct mpl_block *block = (struct mpl_block *)base;

    block->attention = (struct mpl_attention_module){
        .is_joined = true,
        .q_norm.weight = MPL_NO_PARAMETER,
        .k_norm.weight = MPL_NO_PARAMETER,
        .rotary = MPL_ROTARY_PARTIAL,
        .heads = m->num_attention_heads,
        .kv_heads = m->num_key_value_heads,
        .head_dim = m->head_dim,
    };
    block->attention.o = mpl_linear_add(network, "self_attn.o_proj", h, width, false);
    block->attention.q = mpl_linear_add(network, "self_attn.qkv_proj",
                                        width + 2 * m->num_key_value_heads * m->head_dim, h, false);
    block->mlp = mpl_mlp_add_joined(network);
    block->residual_dropout = m->hidden_dropout;
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.turns_whole_heads = true,
             .sdpa = 45,
             .first = 41,
             .position_rotary = 41,
             .lean_rotary = 41,
             .update_mask = 42,
             .split_mask = 44,
             .window_mask = 46,
             .loss_function = 46,
             .flash_positions = 44,
             .flash = MPL_PAST_FLASH_REPEATED},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_room = 6,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

/* A window, where there is one, holds for every layer; yarn is an old name of longrope. */
static void derive(struct mpl_plan *plan)
{
    if (plan->model.rope_type == MPL_ROPE_YARN)
        plan->model.rope_type = MPL_ROPE_LONGROPE;
    mpl_lm_fill_layer_types(&plan->model,
                            plan->model.sliding_window ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
}

static const struct mpl_config_key keys[] = {
    {"hidden_dropout", "resid_pdrop", "0.0"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_phi3 = {
    .config = {.model_type = "phi3",
               .has_scopes = true,
               .help = "Phi-3, Phi-3.5 and Phi-4",
               .keys = keys,
               .derive = derive},
    .family = &family,
};
