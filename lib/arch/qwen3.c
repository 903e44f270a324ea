/* SPDX-License-Identifier: MIT */
/* source: transformers/models/qwen3/modeling_qwen3.py, configuration_qwen3.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/causal_lm.h"

/* Queries and keys are normalised by head. */
static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *base)
{
    const struct mpl_model *m = &network->plan->model;
    struct mpl_prenorm_layer *layer = (struct mpl_prenorm_layer *)base;

    layer->attention =
        mpl_attention_add(network, "self_attn", m->attention_bias, m->attention_bias);
    layer->attention.q_norm = mpl_norm_add(network, MPL_NORM_RMS, "self_attn.q_norm", m->head_dim);
    layer->attention.k_norm = mpl_norm_add(network, MPL_NORM_RMS, "self_attn.k_norm", m->head_dim);
    layer->mlp = mpl_gated_mlp_add(network, "mlp", m->intermediate_size, false);
    layer->input_norm = mpl_norm_add(network, MPL_NORM_RMS, "input_layernorm", m->hidden_size);
    layer->post_norm =
        mpl_norm_add(network, MPL_NORM_RMS, "post_attention_layernorm", m->hidden_size);
}

static const struct mpl_lm_family family = {
    .past = {.first = 51},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .has_full_mask = true,
    .layer_size = sizeof(struct mpl_prenorm_layer),
    .layer_room = 15,
    .describe_layer = describe_layer,
    .layer_forward = mpl_prenorm_layer_forward,
};

static const struct mpl_config_key keys[] = {{"head_dim", NULL, "128"}, {NULL, NULL, NULL}};

const struct mpl_arch mpl_arch_qwen3 = {
    .config = {.model_type = "qwen3",
               .has_scopes = true,
               .help = "Qwen3, dense",
               .keys = keys,
               .derive = mpl_lm_derive_qwen_layer_types},
    .family = &family,
};
