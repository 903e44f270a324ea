/* SPDX-License-Identifier: MIT */
/* parallelism.strategy: which wrapper goes around a network. */
#ifndef MPL_PARALLEL_STRATEGY_H
#define MPL_PARALLEL_STRATEGY_H

#include "step/network.h"

/** Wraps the network as its plan says; before its parameters have memory. */
enum memplan_status mpl_strategy_wrap(struct mpl_network *network, struct memplan_error *err);

/** A held tensor [numel] of a category, requested on a stream: a wrapper's own memory. */
struct mpl_tensor *mpl_take_flat(struct mpl_tape *tape, enum mpl_stream stream,
                                 enum mpl_category category, const char *op, enum mpl_dtype dtype,
                                 uint64_t numel);

#endif
