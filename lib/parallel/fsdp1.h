/* SPDX-License-Identifier: MIT */
/*
 * FSDP1 (torch.distributed.fsdp.FullyShardedDataParallel) around the modules of a network: flat
 * parameters, where one rank keeps, gathers and reduces them, and on which stream.
 *
 * It knows modules, never families; which become units follows from their kind and the plan's
 * "wrap". Each unit flattens its parameters into one, and a unit's weights are views of what is
 * gathered. The unit stands outside a checkpointed module: recomputation uses what the unit's
 * backward has gathered.
 *
 * record_stream() is not modelled: a block that another stream used is free at once, as where the
 * host is never far ahead of the GPU; a GPU that is always behind makes the allocator reserve more.
 *
 * source: torch/distributed/fsdp/_runtime_utils.py, _flat_param.py, _init_utils.py, release 2.13
 */
#ifndef MPL_PARALLEL_FSDP1_H
#define MPL_PARALLEL_FSDP1_H

#include "step/network.h"

/** Makes the units and hooks the modules; what is not modelled is refused by name. Arena memory. */
enum memplan_status mpl_fsdp1_wrap(struct mpl_network *network, struct memplan_error *err);

struct mpl_rank_signs;

/** Ranks that share one flat parameter; 1: none. */
uint64_t mpl_fsdp1_shards(const struct mpl_network *network);

/** Which pieces of parameters lie in which shard. (fsdp1_flat.c) */
void mpl_fsdp1_sign(const struct mpl_network *network, struct mpl_rank_signs *signs);

#endif
