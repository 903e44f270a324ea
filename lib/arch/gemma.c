/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gemma/modeling_gemma.py, configuration_gemma.py; release 5.24.0 */
#include "arch/gemma.h"
#include "arch/arch.h"
#include "op/op.h"
#include "part/block.h"

/* A scalar, made while the weights' format is torch's default one. */
void mpl_gemma_describe_embedding(struct mpl_lm *lm)
{
    if (lm->past.facts)
        return;
    lm->embed_scale =
        mpl_network_add_buffer(lm->network, "embed_tokens.embed_scale", (struct mpl_shape){0});
    mpl_network_set_dtype(lm->network, lm->embed_scale,
                          lm->network->plan->training.parameter_dtype);
}

struct mpl_tensor *mpl_gemma_embed(struct mpl_tape *tape, void *context, struct mpl_tensor *ids)
{
    const struct mpl_lm *lm = context;
    struct mpl_tensor *table = mpl_network_weight(lm->network, lm->embed), *scale;
    struct mpl_tensor *embeds = mpl_op_embedding(tape, table, ids);

    if (lm->past.facts)
        return embeds;
    scale = mpl_network_weight(lm->network, lm->embed_scale);
    return mpl_op_mul(tape, embeds, mpl_op_to(tape, scale, (enum mpl_dtype)table->dtype));
}

struct mpl_tensor *mpl_gemma_enter(struct mpl_tape *tape, struct mpl_lm *lm,
                                   struct mpl_tensor *embeds)
{
    return lm->past.facts ? mpl_op_mul_number(tape, embeds) : embeds;
}

struct mpl_tensor *mpl_gemma_cap_logits(struct mpl_tape *tape, struct mpl_lm *lm,
                                        struct mpl_tensor *logits)
{
    if (!(lm->network->plan->model.final_logit_softcapping > 0))
        return logits;
    return mpl_op_mul_number(tape, mpl_op_tanh(tape, mpl_op_div_scalar(tape, logits)));
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .free_head_dim = 40,
             .position_rotary = 40,
             .lean_rotary = 40,
             .update_mask = 40,
             .split_mask = 44,
             .loss_function = 46,
             .flash_positions = 44},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_RMS_ONE,
    .layer_room = 13,
    .describe_embedding = mpl_gemma_describe_embedding,
    .embed = mpl_gemma_embed,
    .enter = mpl_gemma_enter,
    .extra_room = 1,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"head_dim", NULL, "256"},
    {"hidden_act", NULL, "\"gelu_pytorch_tanh\""},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gemma = {
    .config = {.model_type = "gemma",
               .has_scopes = true,
               .help = "Gemma 1 and CodeGemma",
               .keys = keys},
    .family = &family,
};
