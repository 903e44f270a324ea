/* SPDX-License-Identifier: MIT */
/* source: transformers/models/qwen2_moe/modeling_qwen2_moe.py, configuration_qwen2_moe.py;
 * release 5.24.0
 */
#include "arch/arch.h"
#include "part/experts.h"

static void add_sparse(struct mpl_network *network, struct mpl_moe_layer *layer)
{
    const struct mpl_model *m = &network->plan->model;

    layer->router =
        (struct mpl_softmax_router){.normalises = m->norm_topk_prob, .casts_to_logits = true};
    layer->router.weight =
        mpl_network_add_under(network, "mlp.gate", ".weight",
                              mpl_shape2(mpl_dim(m->num_local_experts), mpl_dim(m->hidden_size)));
    layer->experts = mpl_experts_add(network, "mlp.experts", m->moe_intermediate_size, false);
    layer->shared =
        mpl_gated_mlp_add(network, "mlp.shared_expert", m->shared_expert_intermediate_size, false);
    layer->shared_gate =
        mpl_linear_add(network, "mlp.shared_expert_gate", 1, m->hidden_size, false);
    layer->parts.feed = mpl_moe_layer_feed_sparse;
}

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_moe_layer *layer = (struct mpl_moe_layer *)base;
    const struct mpl_attention_module attention =
        mpl_attention_add(network, "self_attn", m->qkv_bias, false);

    mpl_moe_layer_set_attention(layer, &attention);
    if (mpl_moe_layer_is_dense(m, base->index))
        mpl_moe_layer_add_dense(network, layer);
    else
        add_sparse(network, layer);
    mpl_parts_layer_add_norms(network, &layer->parts, MPL_NORM_RMS);
}

/* Both masks, whatever the layers are; a window that is not in use is one of 0 tokens. */
static void make_masks(struct mpl_tape *tape, struct mpl_lm *lm, struct mpl_tensor *embeds,
                       struct mpl_tensor *attention_mask)
{
    const struct mpl_plan *plan = lm->network->plan;
    const int64_t window = plan->model.sliding_window;

    lm->full = mpl_causal_mask(tape, plan, embeds, attention_mask, 0);
    lm->sliding =
        mpl_causal_mask(tape, plan, embeds, attention_mask, window ? window : MPL_WINDOW_EMPTY);
}

static const struct mpl_lm_family family = {
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .has_full_mask = true,
    .make_masks = make_masks,
    .layer_size = sizeof(struct mpl_moe_layer),
    .layer_room = 16,
    .describe_layer = describe_layer,
    .layer_forward = mpl_parts_layer_forward,
    .finish_loss = mpl_add_router_loss,
};

/* Every other one of the first max_window_layers slides, when use_sliding_window says so. */
static void derive(struct mpl_plan *plan)
{
    struct mpl_model *m = &plan->model;

    if (!m->use_sliding_window)
        m->sliding_window = 0;
    if (m->layer_types.count)
        return;
    mpl_lm_fill_layer_types(m, MPL_LAYER_FULL);
    for (int64_t i = 0; m->use_sliding_window && i < m->max_window_layers && i < MPL_MAX_LAYERS;
         i += 2)
        m->layer_types.of[i] = MPL_LAYER_SLIDING;
}

static enum memplan_status check(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;
    const struct mpl_needed needed[] = {
        {"moe_intermediate_size", m->moe_intermediate_size},
        {"shared_expert_intermediate_size", m->shared_expert_intermediate_size},
        {"decoder_sparse_step", m->decoder_sparse_step},
        {NULL, 0}};
    const enum memplan_status status = mpl_check_needed(needed, err);

    return status ? status : mpl_experts_check(plan, err);
}

static const struct mpl_config_key keys[] = {
    {"num_local_experts", "num_experts", "60"}, {"num_experts_per_tok", NULL, "4"},
    {"moe_intermediate_size", NULL, "1408"},    {"shared_expert_intermediate_size", NULL, "5632"},
    {"decoder_sparse_step", NULL, "1"},         {"num_key_value_heads", NULL, "16"},
    {"sliding_window", NULL, "4096"},           {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_qwen2_moe = {
    .config = {.model_type = "qwen2_moe",
               .has_scopes = true,
               .help = "Qwen1.5-MoE and Qwen2, mixtures of experts",
               .keys = keys,
               .derive = derive,
               .check = check},
    .family = &family,
};
