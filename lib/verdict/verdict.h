/* SPDX-License-Identifier: MIT */
/* Stage "verdict": fits, does not fit, inside the margin, cannot tell; and what would fit. */
#ifndef MPL_VERDICT_VERDICT_H
#define MPL_VERDICT_VERDICT_H

#include "pipeline.h"

/** Decides report->verdict and writes the reason, from the survival of the alternatives left. */
void mpl_verdict_decide(struct memplan_report *report);

/** The verdict of one probability. */
enum memplan_verdict mpl_verdict_of(double survival, double risk);

/** Looks for the largest multiple of 128 tokens that fits with the report's risk, and proves it by
 * evaluating the next one, which does not. */
enum memplan_status mpl_verdict_suggest(const struct mpl_spec *spec, struct memplan_report *report,
                                        struct mpl_estimator *estimator, struct memplan_error *err);

#endif
