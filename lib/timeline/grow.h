/* SPDX-License-Identifier: MIT */
/* A timeline as it should be at another sequence length. */
#ifndef MPL_TIMELINE_GROW_H
#define MPL_TIMELINE_GROW_H

#include "base/fail.h"
#include "timeline/timeline.h"

/**
 * Writes into `to`, which borrows the events and marks of `from`, the requests of `from` with each
 * size multiplied by ratio to the power of its order. A forecast: what a real trace has besides
 * (kernels chosen by size, thresholds, the one more of an index) is not in it.
 * unit    bytes
 * errors  MEMPLAN_ERR_NOMEM
 */
enum memplan_status mpl_timeline_grow(const struct mpl_timeline *from, double ratio,
                                      struct mpl_timeline *to, struct memplan_error *err);

/** Frees what `to` owns: its requests. */
void mpl_timeline_free_grown(struct mpl_timeline *to);

#endif
