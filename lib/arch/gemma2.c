/* SPDX-License-Identifier: MIT */
/* source: transformers/models/gemma2/modeling_gemma2.py, configuration_gemma2.py; release 5.24.0 */
#include "arch/arch.h"
#include "arch/gemma.h"
#include "base/fail.h"
#include "part/block.h"
#include "spec/text.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "input_layernorm");
    block->after_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_attention_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "pre_feedforward_layernorm");
    block->after_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_feedforward_layernorm");
}

static const struct mpl_lm_family family = {
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_RMS_ONE,
    .layer_room = 17,
    .has_full_mask = true,
    .has_sliding_mask = true,
    .describe_embedding = mpl_gemma_describe_embedding,
    .embed = mpl_gemma_embed,
    .finish_logits = mpl_gemma_cap_logits,
    .extra_room = 1,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

/* Every second layer has full attention. */
static void derive(struct mpl_plan *plan)
{
    mpl_lm_fill_layer_pattern(&plan->model, 2);
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (plan->training.attention == MPL_ATTENTION_SDPA &&
        !mpl_version_at_least(&plan->transformers, 5, 0, 0))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/attention",
                        "training.attention: sdpa of gemma2, which leaves the cap of the scores "
                        "out in versions before 5.0, is not modelled");
    if (plan->training.attention == MPL_ATTENTION_SDPA)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/attention",
                        "training.attention: found sdpa, expected eager: transformers has no sdpa "
                        "for gemma2, whose scores are capped");
    return mpl_lm_check_window(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"hidden_act", "hidden_activation", "\"gelu_pytorch_tanh\""},
    {"head_dim", NULL, "256"},
    {"num_key_value_heads", NULL, "4"},
    {"sliding_window", NULL, "4096"},
    {"final_logit_softcapping", NULL, "30.0"},
    {"attn_logit_softcapping", NULL, "50.0"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_gemma2 = {
    .config =
        {.model_type = "gemma2", .help = "Gemma 2", .keys = keys, .derive = derive, .check = check},
    .family = &family,
};
