/* SPDX-License-Identifier: MIT */
/*
 * ZeroRedundancyOptimizer: whole parameters are dealt out to ranks, and each rank's optimizer
 * updates its own; then they are broadcast.
 *
 * source: torch/distributed/optim/zero_redundancy_optimizer.py, release 2.13
 */
#ifndef MPL_PARALLEL_ZERO_REDUNDANCY_H
#define MPL_PARALLEL_ZERO_REDUNDANCY_H

#include "optim/optim.h"

/** Leaves in *local what the rank that holds most updates of *all, whose memory it shares; the
 * optimizer for all parameters without zero1. Before the parameters have memory. */
enum memplan_status mpl_zero_redundancy_select(const struct mpl_plan *plan,
                                               const struct mpl_optim *all, struct mpl_arena *arena,
                                               struct mpl_optim *local, struct memplan_error *err);

/** parameters_as_bucket_view: the weights move into one bucket for each rank. */
void mpl_zero_redundancy_construct(struct mpl_tape *tape, const struct mpl_plan *plan,
                                   const struct mpl_optim *all);

struct mpl_rank_signs;

/** Which parameters each rank updates. */
enum memplan_status mpl_zero_redundancy_sign(const struct mpl_plan *plan,
                                             const struct mpl_optim *all, struct mpl_arena *arena,
                                             struct mpl_rank_signs *signs,
                                             struct memplan_error *err);

#endif
