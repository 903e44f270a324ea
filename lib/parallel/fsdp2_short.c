/* SPDX-License-Identifier: MIT */
/*
 * FSDP2 on a rank whose shards are shorter than the largest: where rows do not divide by the ranks,
 * the last ones have fewer or none. Shards are padded, so that weights, gathers and reductions are
 * alike on all ranks; views of them are what the optimizer sees.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fully_shard.py (FSDPModule._apply), _fsdp_param.py
 * (_init_sharded_param, reset_sharded_param), release 2.13
 */
#include "parallel/fsdp2_group.h"

bool mpl_fsdp2_has_short(const struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (mpl_parameter_is_short(&network->parameters[i]))
            return true;
    return false;
}

static void pad_group(struct mpl_tape *tape, const struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (mpl_parameter_is_short(group->parameters[i].parameter))
            mpl_network_pad_one(tape, group->parameters[i].parameter);
}

void mpl_fsdp2_to_empty(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_fsdp2 *fsdp = network->sharding;

    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (p->shards)
            mpl_network_to_empty_one(tape, p);
        else
            mpl_network_materialize_one(tape, network, i);
        for (uint32_t g = 1; g < fsdp->count; g++) {
            const struct mpl_fsdp2_group *group = &fsdp->groups[g];

            if (group->count && group->parameters[group->count - 1].parameter == p)
                pad_group(tape, group);
        }
    }
    mpl_network_remake_tied(tape, network);
    pad_group(tape, &fsdp->groups[0]);
}
