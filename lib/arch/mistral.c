/* SPDX-License-Identifier: MIT */
/* source: transformers/models/mistral/modeling_mistral.py, configuration_mistral.py; release 5.24.0
 */
#include "arch/arch.h"
#include "part/causal_lm.h"

static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *layer)
{
    mpl_prenorm_layer_describe(network, (struct mpl_prenorm_layer *)layer, false, false);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .free_head_dim = 43,
             .position_rotary = 42,
             .lean_rotary = 42,
             .update_mask = 42,
             .split_mask = 46,
             .window_mask = 42,
             .flash_positions = 44,
             .flash = MPL_PAST_FLASH_REPEATED},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .layer_size = sizeof(struct mpl_prenorm_layer),
    .layer_room = 9,
    .describe_layer = describe_layer,
    .layer_forward = mpl_prenorm_layer_forward,
};

/* A window, where there is one, holds for every layer. */
static void derive(struct mpl_plan *plan)
{
    mpl_lm_fill_layer_types(&plan->model,
                            plan->model.sliding_window ? MPL_LAYER_SLIDING : MPL_LAYER_FULL);
}

static const struct mpl_config_key keys[] = {
    {"sliding_window", NULL, "4096"},
    {"max_position_embeddings", NULL, "131072"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_mistral = {
    .config = {.model_type = "mistral",
               .has_scopes = true,
               .help = "Mistral 7B, Nemo and Small (text)",
               .keys = keys,
               .derive = derive},
    .family = &family,
};
