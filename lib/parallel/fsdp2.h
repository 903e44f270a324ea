/* SPDX-License-Identifier: MIT */
/*
 * FSDP2 (torch.distributed.fsdp.fully_shard) around the modules of a network: which memory one rank
 * takes for shards, gathered parameters and reduced gradients, when, and on which stream.
 *
 * It knows modules, never families. A group is a module of the network (modules[0], the root, owns
 * what no other group owns); which modules become groups follows from their kind and the plan's
 * "wrap". A family has three duties: describe its modules with their kind, run them through
 * mpl_module_call(), and read weights with mpl_network_weight() inside the module's forward. A
 * module may be called several times in one forward. The root's own forward is run through
 * mpl_network_call() (step/network.h).
 *
 * source: torch/distributed/fsdp/_fully_shard/ (_fsdp_state.py, _fsdp_param_group.py,
 * _fsdp_collectives.py, _fsdp_param.py), release 2.13
 */
#ifndef MPL_PARALLEL_FSDP2_H
#define MPL_PARALLEL_FSDP2_H

#include "step/network.h"

/** MixedPrecisionPolicy; MPL_DTYPE_NONE: none for that part. */
struct mpl_fsdp2_policy {
    enum mpl_dtype param_dtype, reduce_dtype;
    bool cast_forward_inputs; /* PyTorch's default: true */
};

/** How the root and the other groups are sharded. */
struct mpl_fsdp2_options {
    struct mpl_fsdp2_policy group, root;
    enum mpl_wrap wrap;
    int64_t world_size, replicate; /* shards: world_size / replicate */
    int64_t reshard, root_reshard; /* as in the plan; unset: true, but false for the root */
    int64_t tail_reshard;          /* of the last norm with the head; unset: false */
};

/** What a plan's "parallelism" says. The root has the policy of the others, unless root_dtype is
 * another one than param_dtype: then it is gathered in that, and reduced as it is. (The parameters'
 * own format means no policy.) */
struct mpl_fsdp2_options mpl_fsdp2_options_of(const struct mpl_plan *plan);

/**
 * Makes the groups and hooks the modules; sets network->sharding, after which
 * mpl_network_materialize() makes shards. What is not modelled is refused by name. Arena memory.
 */
enum memplan_status mpl_fsdp2_wrap(struct mpl_network *network,
                                   const struct mpl_fsdp2_options *options,
                                   struct memplan_error *err);

#endif
