/* SPDX-License-Identifier: MIT */
/* source: transformers/models/llama/modeling_llama.py, configuration_llama.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/causal_lm.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *layer)
{
    const bool has_bias = network->plan->model.attention_bias;

    mpl_prenorm_layer_describe(network, (struct mpl_prenorm_layer *)layer, has_bias, has_bias);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .free_head_dim = 45,
             .position_rotary = 40,
             .lean_rotary = 41,
             .shared_rotary = 43,
             .update_mask = 40,
             .split_mask = 44,
             .loss_function = 46,
             .flash_positions = 44},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_prenorm_layer),
    .layer_room = 16,
    .describe_layer = describe_layer,
    .layer_forward = mpl_prenorm_layer_forward,
};

const struct mpl_arch mpl_arch_llama = {
    .config = {.model_type = "llama",
               .has_scopes = true,
               .help = "Llama 1 to 3 and models of its form"},
    .family = &family,
};
