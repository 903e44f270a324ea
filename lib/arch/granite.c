/* SPDX-License-Identifier: MIT */
/* source: transformers/models/granite/modeling_granite.py, configuration_granite.py; release 5.24.0
 */
#include "arch/arch.h"
#include "op/op.h"
#include "part/block.h"

static struct mpl_tensor *scale_embeds(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *embeds)
{
    (void)lm;
    return mpl_op_mul_number(tape, embeds);
}

static struct mpl_tensor *scale_logits(struct mpl_tape *tape, struct mpl_lm *lm,
                                       struct mpl_tensor *logits)
{
    (void)lm;
    return mpl_op_div_scalar(tape, logits);
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->mlp = mpl_mlp_add_gated(network, m->mlp_bias);
    block->is_scaled = true;
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS, "input_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS, "post_attention_layernorm");
}

static const struct mpl_lm_family family = {
    .past = {.first = 45,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .lone_rotary = 45,
             .update_mask = 45,
             .split_mask = 45,
             .flash_positions = 45},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_room = 16,
    .prepare = scale_embeds,
    .finish_logits = scale_logits,
    .has_no_score = true,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = mpl_block_forward,
};

const struct mpl_arch mpl_arch_granite = {
    .config = {.model_type = "granite", .has_scopes = true, .help = "Granite 3 and 4, dense"},
    .family = &family,
};
