/* SPDX-License-Identifier: MIT */
/*
 * model.layer_types as configuration classes of transformers set them where a config does not.
 *
 * source: transformers/models/qwen3/configuration_qwen3.py, gemma3/configuration_gemma3.py; release
 * 5.24.0
 */
#include "base/fail.h"
#include "part/causal_lm.h"

/* Layers from max_window_layers on slide, when use_sliding_window says so. */
void mpl_lm_derive_qwen_layer_types(struct mpl_plan *plan)
{
    struct mpl_model *model = &plan->model;

    if (!model->use_sliding_window)
        model->sliding_window = 0;
    if (model->layer_types.count)
        return;
    mpl_lm_fill_layer_types(model, MPL_LAYER_FULL);
    for (int64_t i = model->max_window_layers; model->sliding_window && i < MPL_MAX_LAYERS; i++)
        model->layer_types.of[i] = MPL_LAYER_SLIDING;
}

void mpl_lm_fill_layer_pattern(struct mpl_model *model, int64_t period)
{
    const bool is_given = model->layer_types.count > 0;

    mpl_lm_fill_layer_types(model, MPL_LAYER_SLIDING);
    for (int64_t i = period - 1; !is_given && period > 0 && i < MPL_MAX_LAYERS; i += period)
        model->layer_types.of[i] = MPL_LAYER_FULL;
}

enum memplan_status mpl_lm_check_window(const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_model *m = &plan->model;

    for (int64_t i = 0; i < m->num_hidden_layers && !m->sliding_window; i++)
        if (m->layer_types.of[i] == MPL_LAYER_SLIDING)
            return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model/sliding_window",
                            "model.sliding_window: not given, expected a number of tokens: layer "
                            "%lld slides",
                            (long long)i);
    return MEMPLAN_OK;
}

void mpl_lm_fill_layer_types(struct mpl_model *model, enum mpl_layer_type type)
{
    if (model->layer_types.count)
        return;
    model->layer_types.count = (uint32_t)model->num_hidden_layers;
    for (int64_t i = 0; i < model->num_hidden_layers && i < MPL_MAX_LAYERS; i++)
        model->layer_types.of[i] = (uint8_t)type;
}
