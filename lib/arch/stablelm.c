/* SPDX-License-Identifier: MIT */
/* source: transformers/models/stablelm/modeling_stablelm.py, configuration_stablelm.py; release
 * 5.24.0 */
#include "arch/arch.h"
#include "base/fail.h"
#include "op/op.h"
#include "part/block.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_block *block = (struct mpl_block *)base;

    block->attention = mpl_attention_add(network, "self_attn", m->attention_bias, false);
    block->attention.rotary = MPL_ROTARY_PARTIAL_OUTSIDE;
    if (m->qk_norm) {
        block->attention.norm_place = MPL_QK_NORM_TRANSPOSED;
        block->attention.q_norm =
            mpl_norm_add_by_head(network, MPL_NORM_LAYER_HEADS, "self_attn.q_layernorm",
                                 m->num_attention_heads, m->head_dim);
        block->attention.k_norm =
            mpl_norm_add_by_head(network, MPL_NORM_LAYER_HEADS, "self_attn.k_layernorm",
                                 m->num_key_value_heads, m->head_dim);
    }
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_LAYER, "input_layernorm");
    if (!m->parallel_residual)
        block->before_mlp = mpl_block_norm(network, MPL_NORM_LAYER, "post_attention_layernorm");
}

/* The input's name, residual, self_attn_output and mlp_output stay until the end. */
static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct mpl_block *block = context;
    const struct mpl_network *network = block->base.lm->network;
    const double dropout = network->plan->model.hidden_dropout;
    const bool is_parallel = network->plan->model.parallel_residual;
    struct mpl_tensor *residual = mpl_hold(mpl_return(mpl_hold(input))), *weights = NULL, *fed;
    struct mpl_tensor *h =
        mpl_hold(mpl_norm_call(tape, network, &block->before_attention.norm, input));
    struct mpl_tensor *attended = mpl_hold(mpl_block_attend(tape, block, h, &weights)), *normed;

    if (is_parallel) {
        fed = mpl_hold(mpl_mlp_forward(tape, network, &block->mlp, h));
        mpl_rebind(tape, &fed, mpl_op_dropout(tape, fed, dropout));
        mpl_rebind(tape, &h, mpl_op_add(tape, mpl_op_add(tape, residual, attended), fed));
    } else {
        mpl_rebind(tape, &residual, mpl_op_add(tape, residual, attended));
        normed = mpl_hold(mpl_norm_call(tape, network, &block->before_mlp.norm, residual));
        fed = mpl_hold(mpl_mlp_forward(tape, network, &block->mlp, normed));
        mpl_drop(tape, normed);
        mpl_rebind(tape, &fed, mpl_op_dropout(tape, fed, dropout));
        mpl_rebind(tape, &h, mpl_op_add(tape, residual, fed));
    }
    mpl_drop(tape, residual);
    mpl_drop(tape, attended);
    mpl_drop(tape, fed);
    mpl_drop(tape, weights);
    return mpl_return(h);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 42,
             .split_mask = 44,
             .logits = MPL_PAST_LOGITS_AS_THEY_ARE,
             .flash_positions = 44,
             .flash = MPL_PAST_FLASH_BARE},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .norm_kind = MPL_NORM_LAYER,
    .layer_room = 14 + 2 * MPL_MAX_SPLIT_HEADS,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
};

/* head_dim of a config is not read. */
static void derive(struct mpl_plan *plan)
{
    plan->model.head_dim = 0;
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    if (plan->model.qk_norm && plan->model.num_attention_heads > MPL_MAX_SPLIT_HEADS)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/qk_layernorm",
                        "model.qk_layernorm: a norm for each head is modelled up to %d heads",
                        MPL_MAX_SPLIT_HEADS);
    return MEMPLAN_OK;
}

static const struct mpl_config_key keys[] = {
    {"attention_bias", "use_qkv_bias", "false"},
    {"qk_norm", "qk_layernorm", "false"},
    {"parallel_residual", "use_parallel_residual", "false"},
    {"partial_rotary_factor", NULL, "0.25"},
    {"max_position_embeddings", NULL, "4096"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_stablelm = {
    .config = {.model_type = "stablelm",
               .has_scopes = true,
               .help = "StableLM 2 and StableLM 3B",
               .has_no_flex = true,
               .keys = keys,
               .derive = derive,
               .check = check},
    .family = &family,
};
