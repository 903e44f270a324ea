/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: which module gathers a weight: the one that has it, or a leaf around it.
 *
 * source: deepspeed/runtime/zero/parameter_offload.py (iter_params, _register_deepspeed_module),
 * leaf_module_config.py (DEFAULT_LEAF_MODULE_CLASSES), utils/z3_leaf_module.py
 */
#include <string.h>

#include "base/bytes.h"
#include "parallel/zero3.h"
#include "spec/plan.h"

/* Length of the name of the module that has a parameter. */
static size_t module_length(const struct mpl_parameter *parameter)
{
    const char *dot = strrchr(parameter->name, '.');

    return dot ? (size_t)(dot - parameter->name) : 0;
}

static bool is_in_module(const struct mpl_parameter *parameter, const char *module, size_t length)
{
    return !strncmp(parameter->name, module, length) && parameter->name[length] == '.';
}

bool mpl_zero3_has_same_module(const struct mpl_zero3_weight *weight)
{
    const size_t length = module_length(weight->parameter);

    return weight > weight->zero->weights && length == module_length(weight[-1].parameter) &&
           is_in_module(weight[-1].parameter, weight->parameter->name, length);
}

static void own(struct mpl_zero3_weight *weight, struct mpl_zero3_module *module)
{
    weight->owners[weight->owners[0] ? 1 : 0] = module;
    module->count++;
}

/* ...SparseMoeBlock, where it is a leaf: all that lies beside its experts, and they. */
static void find_leaf(struct mpl_zero3 *zero, const struct mpl_zero3_weight *experts)
{
    static const char tail[] = ".experts.gate_up_proj";
    const char *name = experts->parameter->name;
    const size_t length = strlen(name), block = length - (sizeof(tail) - 1);
    struct mpl_zero3_module *leaf = NULL;

    if (length < sizeof(tail) || strcmp(name + block, tail) != 0)
        return;
    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_zero3_weight *weight = &zero->weights[i];
        const uint32_t at = (uint32_t)(weight->parameter - zero->network->parameters);

        if (!is_in_module(weight->parameter, name, block))
            continue;
        if (!leaf)
            leaf = &zero->modules[mpl_module_of_weight(at, true)];
        leaf->is_leaf = true;
        own(weight, leaf);
    }
}

static void find_owners(struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->count; i++)
        find_leaf(zero, &zero->weights[i]);
    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_zero3_weight *weight = &zero->weights[i];
        const uint32_t at = (uint32_t)(weight->parameter - zero->network->parameters);

        if (weight->owners[0])
            continue;
        own(weight, mpl_zero3_has_same_module(weight)
                        ? weight[-1].owners[0]
                        : &zero->modules[mpl_module_of_weight(at, false)]);
        if (weight->parameter->is_tied)
            own(weight, &zero->modules[mpl_module_of_weight(at, true)]);
    }
}

static void count_elements(struct mpl_zero3 *zero)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < zero->network->parameter_count; i++) {
        const bool is_weight = !zero->network->parameters[i].is_buffer;

        zero->numel_before[i + 1] =
            mpl_add(zero->numel_before[i], is_weight ? zero->weights[next].numel : 0);
        next += is_weight;
    }
}

bool mpl_zero3_find_modules(struct mpl_zero3 *zero, struct mpl_arena *arena)
{
    count_elements(zero);
    find_owners(zero);
    for (uint32_t i = 0; i < zero->module_count; i++) {
        struct mpl_zero3_module *module = &zero->modules[i];

        module->weights = module->count
                              ? mpl_arena_zalloc(arena, module->count * sizeof(*module->weights))
                              : NULL;
        if (module->count && !module->weights)
            return false;
        module->count = 0;
    }
    for (uint32_t i = 0; i < zero->count; i++)
        for (int k = 0; k < 2; k++) {
            struct mpl_zero3_module *module = zero->weights[i].owners[k];

            if (module)
                module->weights[module->count++] = &zero->weights[i];
        }
    return true;
}
