/* SPDX-License-Identifier: MIT */
/* Stage "verdict": which rank is judged, where ranks differ. */
#ifndef MPL_VERDICT_RANKS_H
#define MPL_VERDICT_RANKS_H

#include "pipeline.h"

/**
 * The estimate of the worst rank, with all its parts, into a->estimate. What the estimator traced
 * last is that rank, which plan names afterwards. The worst is the one that holds most; when the
 * report wants all ranks, each class of them is replayed (a->figures), and it is the one whose band
 * of needs ends highest.
 */
enum memplan_status mpl_ranks_estimate(struct mpl_estimator *estimator, struct mpl_plan *plan,
                                       struct memplan_report *report, struct mpl_alternative *a,
                                       struct memplan_error *err);

#endif
