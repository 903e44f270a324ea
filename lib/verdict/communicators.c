/* SPDX-License-Identifier: MIT */
/*
 * The communicators that a strategy makes, and what NCCL takes for them on one card. A process
 * group has none until something is sent over it.
 *
 * source: PyTorch 2.13: torch/distributed/device_mesh.py (_init_one_process_group: a mesh of one
 * dimension over all ranks uses the default group), distributed/fsdp/_init_utils.py
 * (_init_process_group_state), nn/parallel/distributed.py, optim/zero_redundancy_optimizer.py;
 * DeepSpeed 0.19.6: utils/groups.py (_clone_world_group)
 */
#include "verdict/communicators.h"

static uint32_t nodes_of(uint32_t ranks, uint32_t per_node)
{
    return (ranks + per_node - 1) / per_node;
}

static void add(struct mpl_communicators *list, uint32_t count, const struct mpl_nccl_group *group)
{
    if (count && group->ranks > 1)
        list->of[list->count++] = (struct mpl_communicator){.group = *group, .count = count};
}

/* The two dimensions of a mesh: shards are neighbours, replicas are so many shards apart.
 * shape: ranks of each group; on a node that holds several shards groups, as many replicas */
static void add_mesh(struct mpl_communicators *list, uint32_t world, uint32_t replicate,
                     uint32_t per_node)
{
    const uint32_t shards = world / replicate;
    const uint32_t near = per_node / shards ? per_node / shards : 1; /* replicas of one node */

    add(list, 1,
        &(struct mpl_nccl_group){"shards", "the sharding dimension of the mesh", shards,
                                 nodes_of(shards, per_node), false});
    add(list, 1,
        &(struct mpl_nccl_group){"replicas", "the replicating dimension of the mesh", replicate,
                                 nodes_of(replicate, near), false});
    add(list, 1,
        &(struct mpl_nccl_group){"default group",
                                 "all ranks; has a communicator once a barrier or a metric uses it",
                                 world, nodes_of(world, per_node), true});
}

static void add_world(struct mpl_communicators *list, enum mpl_strategy strategy, uint32_t world,
                      uint32_t per_node)
{
    struct mpl_nccl_group group = {"all ranks",
                                   "the default group; FSDP over one mesh dimension "
                                   "uses it",
                                   world, nodes_of(world, per_node), false};

    if (strategy == MPL_STRATEGY_DDP)
        group.why = "the default group, which DDP and ZeroRedundancyOptimizer use";
    if (strategy == MPL_STRATEGY_ZERO1 || strategy == MPL_STRATEGY_ZERO2)
        group.why = "DeepSpeed's copy of the default group";
    add(list, 1, &group);
    if (strategy != MPL_STRATEGY_ZERO1 && strategy != MPL_STRATEGY_ZERO2)
        return;
    group.name = "default group";
    group.why = "all ranks; has a communicator once a barrier uses it";
    group.is_uncertain = true;
    add(list, 1, &group);
}

static struct mpl_nccl_setup setup_of(const struct mpl_plan *plan, const struct mpl_device_row *row)
{
    struct mpl_nccl_setup setup = {.link = plan->device.link ? plan->device.link
                                           : row             ? row->link
                                                             : MPL_LINK_UNKNOWN,
                                   .major = plan->nccl.major,
                                   .minor = plan->nccl.minor,
                                   .channels = (uint32_t)plan->parallelism.nccl_channels,
                                   .buffer_bytes = (uint64_t)plan->parallelism.nccl_buffer_bytes};

    if (plan->device.compute_capability > 0)
        setup.compute_capability = (uint32_t)(plan->device.compute_capability * 10 + 0.5);
    else if (row)
        setup.compute_capability = row->compute_capability;
    return setup;
}

static void sum_up(struct mpl_communicators *list)
{
    list->sum = (struct mpl_range){0, 0, 0, "no communication between ranks"};
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mpl_communicator *c = &list->of[i];

        list->sum.low_bytes = mpl_add(list->sum.low_bytes, mpl_mul(c->count, c->each.low_bytes));
        list->sum.expected_bytes =
            mpl_add(list->sum.expected_bytes, mpl_mul(c->count, c->each.expected_bytes));
        list->sum.high_bytes = mpl_add(list->sum.high_bytes, mpl_mul(c->count, c->each.high_bytes));
        if (!c->group.is_uncertain && i == 0)
            list->sum.source = c->each.source;
    }
}

void mpl_communicators_list(const struct mpl_plan *plan, const struct mpl_device_row *row,
                            struct mpl_communicators *list)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const uint32_t world = (uint32_t)p->world_size, replicate = (uint32_t)p->replicate;
    const uint32_t per_node = p->gpus_per_node > 0 ? (uint32_t)p->gpus_per_node : 8;
    const struct mpl_nccl_setup setup = setup_of(plan, row);

    *list = (struct mpl_communicators){0};
    if (p->strategy != MPL_STRATEGY_NONE && replicate > 1)
        add_mesh(list, world, replicate, per_node);
    else if (p->strategy != MPL_STRATEGY_NONE)
        add_world(list, p->strategy, world, per_node);
    if (p->strategy != MPL_STRATEGY_NONE)
        add(list, (uint32_t)p->extra_process_groups,
            &(struct mpl_nccl_group){"further groups", "parallelism.extra_process_groups", world,
                                     nodes_of(world, per_node), false});
    for (uint32_t i = 0; i < list->count; i++)
        list->of[i].each = mpl_nccl_group_bytes(&list->of[i].group, &setup);
    sum_up(list);
}
