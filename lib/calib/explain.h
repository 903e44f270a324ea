/* SPDX-License-Identifier: MIT */
/* What readings cannot tell, and why one is not used. */
#ifndef MPL_CALIB_EXPLAIN_H
#define MPL_CALIB_EXPLAIN_H

#include "calib/terms.h"

/** Marks reading i as contradicting, and says why: how far off, and as what it would agree. */
void mpl_calib_explain(struct mpl_calib_report *report, const struct mpl_calib_problem *problem,
                       const struct mpl_calib_fit *fit, const struct mpl_calib_parts *parts,
                       uint32_t i);

/** Fills report->group: terms that grow alike in all readings that were used. */
void mpl_calib_group(struct mpl_calib_report *report, const struct mpl_calib_problem *problem);

/** Share of a term's prior variance that the readings took away, 0 to 1. */
double mpl_calib_told(const struct mpl_calib_report *report, uint32_t term);

/** Deviation of the sum of a group's terms, before the readings and after them, relative to the
 * plan's allocated peak. */
void mpl_calib_group_deviation(const struct mpl_calib_report *report, int group, double *before,
                               double *after);

#endif
