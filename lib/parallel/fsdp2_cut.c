/* SPDX-License-Identifier: MIT */
/*
 * FSDP2 over a model that lies on the card: weights in 4 bits cannot be made on the meta device, so
 * every rank makes the whole model, then fully_shard() cuts it, group by group.
 *
 * source: accelerate 1.15.0, utils/fsdp_utils.py (fsdp2_prepare_model); torch/distributed/fsdp/
 * _fully_shard/_fsdp_param.py (_init_sharded_param)
 */
#include "op/linear_4bit.h"
#include "parallel/fsdp2_group.h"

/* A weight of whole size becomes this rank's shard. */
static void shard_one(struct mpl_tape *tape, struct mpl_network *network, uint32_t i)
{
    struct mpl_parameter *p = &network->parameters[i];

    mpl_network_materialize_one(tape, network, i);
    mpl_drop(tape, p->tensor);
    p->tensor = NULL;
    if (p->quantized)
        p->quantized->packed = NULL;
}

void mpl_fsdp2_cut(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_fsdp2 *fsdp = network->sharding;

    for (uint32_t i = 0; i < network->parameter_count; i++)
        network->parameters[i].shards = 0;
    mpl_network_materialize(tape, network);
    for (uint32_t g = 1; g <= fsdp->count; g++) {
        const struct mpl_fsdp2_group *group = &fsdp->groups[g % fsdp->count];

        for (uint32_t i = 0; i < group->count && !tape->is_stopped; i++) {
            group->parameters[i].parameter->shards = fsdp->shards;
            shard_one(tape, network,
                      (uint32_t)(group->parameters[i].parameter - network->parameters));
        }
    }
}
