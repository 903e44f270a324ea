/* SPDX-License-Identifier: MIT */
/* source: transformers/models/cohere/modeling_cohere.py, configuration_cohere.py; release 5.24.0 */
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
    if (m->qk_norm) {
        block->attention.norm_place = MPL_QK_NORM_LATE;
        block->attention.q_norm = mpl_norm_add_by_head(
            network, MPL_NORM_LAYER_WIDE, "self_attn.q_norm", m->num_attention_heads, m->head_dim);
        block->attention.k_norm = mpl_norm_add_by_head(
            network, MPL_NORM_LAYER_WIDE, "self_attn.k_norm", m->num_key_value_heads, m->head_dim);
    }
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER_WIDE, "input_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.has_float_tables = true,
             .first = 40,
             .position_rotary = 40,
             .lean_rotary = 40,
             .shared_rotary = 45,
             .update_mask = 40,
             .split_mask = 44,
             .loss_function = 46},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER_WIDE,
    .layer_room = 14,
    .finish_logits = scale_logits,
    .has_no_score = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_parallel_forward,
};

static const struct mpl_config_key keys[] = {
    {"tie_word_embeddings", NULL, "true"},
    {"qk_norm", "use_qk_norm", "false"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_cohere = {
    .config = {.model_type = "cohere",
               .has_scopes = true,
               .help = "Command R and Aya",
               .keys = keys},
    .family = &family,
};
