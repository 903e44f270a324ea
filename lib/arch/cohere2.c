/* SPDX-License-Identifier: MIT */
/* source: transformers/models/cohere2/modeling_cohere2.py, configuration_cohere2.py; release 5.24.0
 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/block.h"

static struct mpl_tensor *scale_logits(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *logits)
{
    (void)lm;
    return mpl_op_mul_number(tape, logits);
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->attention.rotary = MPL_ROTARY_PAIRS;
    block->has_no_rotary = !base->is_sliding;
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER_WIDE, "input_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 48},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER_WIDE,
    .layer_room = 12,
    .has_full_mask = true,
    .has_sliding_mask = true,
    .finish_logits = scale_logits,
    .has_no_score = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_parallel_forward,
};

static void derive(struct mpl_plan *plan)
{
    mpl_lm_fill_layer_pattern(&plan->model, plan->model.sliding_window_pattern);
}

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"sliding_window", NULL, "4096"},
    {"sliding_window_pattern", NULL, "4"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_cohere2 = {
    .config = {.model_type = "cohere2",
               .has_scopes = true,
               .help = "Command R7B, Command A and Tiny Aya",
               .keys = keys,
               .derive = derive,
               .check = mpl_lm_check_window},
    .family = &family,
};
