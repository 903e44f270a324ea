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

    if (base->lm->past.facts && !mpl_is_flash(network->plan->training.attention))
        base->is_sliding = base->index % 2 == 0; /* it makes a mask of its own */
    block->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    block->mlp = mpl_mlp_add_gated(network, false);
    block->before_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "input_layernorm");
    block->after_attention = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_attention_layernorm");
    block->before_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "pre_feedforward_layernorm");
    block->after_mlp = mpl_block_norm(network, MPL_NORM_RMS_ONE, "post_feedforward_layernorm");
}

/* Before 4.48 a layer that slides makes its own mask: where(tril(ones_like(mask), -window), min,
 * mask), whose names stay until it returns. */
static struct mpl_tensor *layer_forward(struct mpl_tape *tape, void *context,
                                        struct mpl_tensor *input)
{
    const struct mpl_block *block = context;
    struct mpl_lm *lm = block->base.lm;
    const struct mpl_tensor *mask = lm->full.tensor;
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *ones, *beyond, *lowest, *out;

    if (!lm->past.facts || !block->base.is_sliding || !mask || mask->is_void)
        return mpl_block_forward(tape, context, input);
    ones = mpl_hold(mpl_empty(tape, "ones_like.default", MPL_BOOL, &mask->shape));
    beyond = mpl_hold(mpl_empty(tape, "tril.default", MPL_BOOL, &mask->shape));
    mpl_drop(tape, ones);
    lowest =
        mpl_hold(mpl_empty(tape, "scalar_tensor.default", (enum mpl_dtype)mask->dtype, &scalar));
    lm->sliding.tensor =
        mpl_hold(mpl_empty(tape, "where.self", (enum mpl_dtype)mask->dtype, &mask->shape));
    mpl_drop(tape, lowest);
    out = mpl_hold(mpl_block_forward(tape, context, input));
    mpl_drop(tape, beyond);
    mpl_drop(tape, lm->sliding.tensor);
    lm->sliding.tensor = NULL;
    return mpl_return(out);
}

static const struct mpl_lm_family family = {
    .past = {.first = 42,
             .free_head_dim = 42,
             .position_rotary = 42,
             .lean_rotary = 42,
             .update_mask = 42,
             .split_mask = 44,
             .attention_function = 47,
             .loss_function = 46,
             .flash_works = 43,
             .flash_fails = 47,
             .has_no_rest = true},
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
    .enter = mpl_gemma_enter,
    .finish_logits = mpl_gemma_cap_logits,
    .extra_room = 1,
    .layer_size = sizeof(struct mpl_block),
    .describe_layer = describe_layer,
    .layer_forward = layer_forward,
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
    .config = {.model_type = "gemma2",
               .has_scopes = true,
               .help = "Gemma 2",
               .keys = keys,
               .attention = "\"eager\"",
               .derive = derive,
               .check = check},
    .family = &family,
};
