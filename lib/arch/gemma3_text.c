/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gemma3/modeling_gemma3.py, configuration_gemma3.py; release 5.24.0 */
#include "arch/arch.h"
#include "arch/gemma.h"
#include "base/fail.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->attention.norm_place = MPL_QK_NORM_TRANSPOSED;
    block->attention.q_norm =
        mpl_norm_add(network, MPL_NORM_RMS_ONE, "self_attn.q_norm", m->head_dim);
    block->attention.k_norm =
        mpl_norm_add(network, MPL_NORM_RMS_ONE, "self_attn.k_norm", m->head_dim);
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "input_layernorm");
    block->after_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_attention_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "pre_feedforward_layernorm");
    block->after_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_feedforward_layernorm");
}

const struct mpl_lm_family mpl_gemma3_family = {
    .past = {.first = 50},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_RMS_ONE,
    .layer_room = 19,
    .has_full_mask = true,
    .has_sliding_mask = true,
    .describe_embedding = mpl_gemma_describe_embedding,
    .embed = mpl_gemma_embed,
    .finish_logits = mpl_gemma_cap_logits,
    .extra_room = 1,
    .has_sliding_rotary = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

/* Its attention takes no cap, whatever the configuration says. */
void mpl_gemma3_derive(struct mpl_plan *plan)
{
    plan->model.attn_logit_softcapping = 0;
    mpl_lm_fill_layer_pattern(&plan->model, plan->model.sliding_window_pattern);
}

enum memplan_status mpl_gemma3_check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (plan->model.rope_type == MPL_ROPE_DYNAMIC || plan->model.rope_type == MPL_ROPE_LONGROPE)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/rope_parameters",
                        "model.rope_parameters: dynamic and longrope are not modelled for layers "
                        "of two kinds");
    return mpl_lm_check_window(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"hidden_act", "hidden_activation", "\"gelu_pytorch_tanh\""},
    {"head_dim", NULL, "256"},
    {"num_key_value_heads", NULL, "4"},
    {"sliding_window", NULL, "4096"},
    {"num_attention_heads", NULL, "8"},
    {"vocab_size", NULL, "262208"},
    {"sliding_window_pattern", NULL, "6"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gemma3_text = {
    .config = {.model_type = "gemma3_text",
               .has_scopes = true,
               .help = "Gemma 3, text only",
               .keys = keys,
               .derive = mpl_gemma3_derive,
               .check = mpl_gemma3_check},
    .family = &mpl_gemma3_family,
};
