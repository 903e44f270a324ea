/* SPDX-License-Identifier: MIT */
/* source: transformers/models/qwen2/modeling_qwen2.py, configuration_qwen2.py; release 5.24.0 */
#include "arch/arch.h"
#include "part/causal_lm.h"
#include "spec/text.h"

/* Bias in q, k and v, none in o. */
static void describe_layer(struct mpl_network *network, struct mpl_lm_layer *layer)
{
    mpl_prenorm_layer_describe(network, (struct mpl_prenorm_layer *)layer, true, false);
}

static const struct mpl_lm_family family = {
    .past = {.first = 40,
             .position_rotary = 45,
             .lean_rotary = 45,
             .shared_rotary = 45,
             .update_mask = 42,
             .split_mask = 44,
             .window_mask = 46,
             .loss_function = 46,
             .flash_positions = 44,
             .flash = MPL_PAST_FLASH_REPEATED},
    .base = "model",
    .embedding = "embed_tokens",
    .layers = "layers",
    .norm = "norm",
    .head = "lm_head",
    .has_full_mask = true,
    .layer_size = sizeof(struct mpl_prenorm_layer),
    .layer_room = 12,
    .describe_layer = describe_layer,
    .layer_forward = mpl_prenorm_layer_forward,
};

/* Before 4.42 the window holds whatever use_sliding_window says. */
static void derive(struct mpl_plan *plan)
{
    const int64_t window = plan->model.sliding_window;

    mpl_lm_derive_qwen_layer_types(plan);
    if (!mpl_version_at_least(&plan->transformers, 4, 42, 0))
        plan->model.sliding_window = window;
}

static const struct mpl_config_key keys[] = {
    {"max_position_embeddings", NULL, "32768"},
    {"sliding_window", NULL, "4096"},
    {NULL, NULL, NULL},
};

const struct mpl_arch mpl_arch_qwen2 = {
    .config = {.model_type = "qwen2",
               .keys = keys,
               .has_scopes = true,
               .help = "Qwen1.5, Qwen2 and Qwen2.5",
               .derive = derive},
    .family = &family,
};
