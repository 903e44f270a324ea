/* SPDX-License-Identifier: MIT */
/* Dumps of stages as tab-separated text: the timeline's events, the allocator's counters. */
#ifndef MPL_EMIT_DUMP_H
#define MPL_EMIT_DUMP_H

#include "estimate/estimate.h"

/** Traces and replays the plan again and writes the stages asked for (bits of enum memplan_stage).
 * Texts are malloc'ed; those not asked for stay NULL. */
enum memplan_status mpl_dump_run(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                 uint32_t stages, char **timeline_out, char **replay_out,
                                 struct memplan_error *err);

#endif
