/* SPDX-License-Identifier: MIT */
/* source: transformers/models/starcoder2/modeling_starcoder2.py, configuration_starcoder2.py;
 * release 5.24.0 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/block.h"

static struct mpl_tensor *enter(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds)
{
    return mpl_op_dropout(tape, embeds, lm->network->plan->model.embedding_dropout);
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    const bool has_bias = m->attention_bias;
    struct mpl_block *block = (struct mpl_block *)base;

    block->attention = mpl_attention_add(network, "self_attn", has_bias, has_bias);
    block->attention.out_dropout = m->hidden_dropout;
    block->mlp = mpl_mlp_add_plain(network, "mlp.c_fc", "mlp.c_proj", has_bias);
    block->mlp.dropout = m->hidden_dropout;
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_LAYER, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 42,
             .split_mask = 44,
             .window_mask = 46,
             .loss_function = 47,
             .flash_positions = 44,
             .flash = MPL_PAST_FLASH_REPEATED},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .layer_room = 16,
    .enter = enter,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

/* A window, where there is one, holds for every layer. */
static void derive(struct mpl_plan *plan)
{
    mpl_lm_fill_layer_types(&plan->model,
                            plan->model.sliding_window ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
}

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"attention_bias", "use_bias", "true"},
    {"hidden_act", NULL, "\"gelu_pytorch_tanh\""},
    {"hidden_dropout", "residual_dropout", "0.0"},
    {"num_key_value_heads", NULL, "2"},
    {"max_position_embeddings", NULL, "4096"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_starcoder2 = {
    .config = {.model_type = "starcoder2",
               .has_scopes = true,
               .help = "StarCoder2",
               .keys = keys,
               .derive = derive},
    .family = &family,
};
