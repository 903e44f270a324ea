/* SPDX-License-Identifier: MIT */
/*
 * FSDP1: how a model's weights come to the card, before and while units are made.
 *
 * source: torch/distributed/fsdp/_init_utils.py (_move_module_to_device, _sync_module_params_and_
 * buffers); transformers 4.48.3, modeling_utils.py (_load_state_dict_into_meta_model)
 */
#include "parallel/ddp.h"
#include "parallel/fsdp1_unit.h"
#include "spec/text.h"

void mpl_fsdp1_bring(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_network *network = unit->fsdp->network;
    struct mpl_parameter **list = mpl_arena_zalloc(
        &tape->arena, (unit->count + network->parameter_count + 1) * sizeof(*list));
    uint32_t count = 0;

    for (uint32_t i = 0; i < network->parameter_count && unit == unit->fsdp->units && list; i++)
        if (network->parameters[i].is_buffer) {
            if (!network->parameters[i].tensor)
                mpl_network_materialize_one(tape, network, i);
            list[count++] = &network->parameters[i];
        }
    for (uint32_t i = 0; i < unit->count; i++)
        if (unit->pieces[i].parameter && !unit->pieces[i].parameter->tensor)
            mpl_network_materialize_one(
                tape, network, (uint32_t)(unit->pieces[i].parameter - network->parameters));
    for (uint32_t i = 0; i < unit->count && list; i++)
        if (unit->pieces[i].parameter)
            list[count++] = unit->pieces[i].parameter;
    if (network->plan->parallelism.sync_module_states)
        mpl_ddp_broadcast(tape, list, count);
}

void mpl_fsdp1_load(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_plan *plan = network->plan;
    const bool is_quantized = plan->training.quantization.name != MPL_QUANTIZATION_NONE;

    if (plan->training.from_config ||
        (is_quantized && mpl_version_at_least(&plan->transformers, 5, 0, 0)))
        mpl_network_materialize(tape, network);
    else if (is_quantized)
        mpl_network_quantize_to_host(tape, network);
}
