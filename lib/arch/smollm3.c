/* SPDX-License-Identifier: MIT */
/* source: transformers/models/smollm3/modeling_smollm3.py, configuration_smollm3.py; release 5.24.0
 */
#include "arch/arch.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->has_no_rotary = !m->no_rope_layers.of[base->index];
    block->mlp = mpl_mlp_add_gated(network, m->mlp_bias);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 53},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_room = 16,
    .has_full_mask = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

/* Every so many layers one has no positions; those slide, where use_sliding_window says so. */
static void derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;
    const bool is_given = m->layer_types.count > 0;

    for (int64_t i = 0; !m->no_rope_layers.count && i < m->num_hidden_layers; i++)
        m->no_rope_layers.of[i] = (i + 1) % m->no_rope_layer_interval != 0;
    mpl_lm_fill_layer_types(m, MPL_LAYER_FULL);
    for (int64_t i = 0; !is_given && i < m->num_hidden_layers; i++)
        if (m->use_sliding_window && m->sliding_window && !m->no_rope_layers.of[i])
            m->layer_types.of[i] = MPL_LAYER_SLIDING;
}

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"num_key_value_heads", NULL, "4"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_smollm3 = {
    .config = {.model_type = "smollm3",
               .has_scopes = true,
               .help = "SmolLM3",
               .keys = keys,
               .derive = derive,
               .check = mpl_lm_check_window},
    .family = &family,
};
