/* SPDX-License-Identifier: MIT */
/*
 * Which linear layers compute in float8.
 *
 * source: torchao 0.18.0: float8/float8_linear_utils.py (convert_to_float8_training,
 * _auto_filter_for_recipe), float8/config.py (from_recipe_name); torchtitan: filter_fqns;
 * accelerate 1.12.0: utils/ao.py (find_first_last_linear_layers, filter_linear_layers)
 */
#include "part/float8.h"

#include <string.h>

#include "base/fail.h"
#include "base/join.h"
#include "op/linear_float8.h"

#define ALIGNMENT 16 /* of both sizes of a weight: what _scaled_mm takes */

static const char auto_filter[] = "auto_filter_small_kn";

/* Layers too small to gain: _auto_filter_for_tensorwise, _auto_filter_for_rowwise. */
static bool is_small(enum mpl_float8_recipe recipe, int64_t out, int64_t in)
{
    if (recipe == MPL_FLOAT8_TENSORWISE)
        return in <= 4096 && out <= 1024;
    return out <= 2048 || in <= 1024 || (out <= 4096 && in <= 2048);
}

static bool is_filtered(const struct mpl_network *network, const char *name, int64_t out,
                        int64_t in)
{
    const struct mpl_float8_spec *spec = &network->plan->training.float8;
    char path[sizeof(network->parameters[0].name)];

    mpl_join(path, sizeof(path), (const char *[]){network->prefix, name}, 2);
    for (uint32_t i = 0; i < spec->filter.count; i++)
        if (!strcmp(spec->filter.of[i], auto_filter) ? is_small(spec->recipe, out, in)
                                                     : strstr(path, spec->filter.of[i]) != NULL)
            return true;
    return out % ALIGNMENT != 0 || in % ALIGNMENT != 0;
}

static const struct mpl_float8_config *make_config(struct mpl_network *network)
{
    const struct mpl_float8_spec *spec = &network->plan->training.float8;
    struct mpl_float8_config *config = mpl_arena_zalloc(network->arena, sizeof(*config));

    if (!config)
        return NULL;
    config->is_rowwise = spec->recipe != MPL_FLOAT8_TENSORWISE;
    config->has_wide_weight_mm = spec->recipe == MPL_FLOAT8_ROWWISE_WITH_GW_HP;
    config->rounds_scales =
        spec->rounds_scales == MPL_UNSET ? config->is_rowwise : spec->rounds_scales == MPL_TRUE;
    return config;
}

void mpl_float8_add(struct mpl_network *network, const char *name, uint32_t weight, int64_t out,
                    int64_t in)
{
    if (weight == MPL_NO_PARAMETER)
        return;
    if (!network->has_linear)
        network->first_linear = weight;
    network->has_linear = true;
    network->last_linear = weight;
    if (is_filtered(network, name, out, in))
        return;
    if (!network->float8)
        network->float8 = make_config(network);
    network->parameters[weight].float8 = network->float8;
    network->has_float8_head |= network->is_in_head;
}

struct mpl_tensor *mpl_float8_call(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_parameter *weight = &network->parameters[linear->weight];

    return mpl_op_linear_float8(tape, x,
                                &(struct mpl_float8_layer){
                                    .weight = weight->tensor,
                                    .scale = weight->float8_scale,
                                    .bias = mpl_parameter_of(network, linear->bias),
                                    .config = weight->float8,
                                });
}

enum memplan_status mpl_float8_check(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_training *t = &network->plan->training;
    uint32_t converted = 0;

    if (t->float8.recipe == MPL_FLOAT8_NONE)
        return MEMPLAN_OK;
    if (t->float8.filter_first_and_last && network->has_linear) {
        network->has_float8_head &= !network->parameters[network->last_linear].float8;
        network->parameters[network->first_linear].float8 = NULL;
        network->parameters[network->last_linear].float8 = NULL;
    }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        converted += network->parameters[i].float8 != NULL;
    if (!converted)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/float8/filter_fqns",
                        "training.float8: no linear layer of the model is left to compute in "
                        "float8");
    if (network->has_float8_head &&
        (t->loss.name != MPL_LOSS_CROSS_ENTROPY || t->loss.logits_to_keep))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/float8/filter_fqns",
                        "training.float8.filter_fqns: an output head in float8 is modelled with "
                        "training.loss.name cross_entropy and all logits; name it here");
    return MEMPLAN_OK;
}
