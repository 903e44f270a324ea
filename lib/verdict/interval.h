/* SPDX-License-Identifier: MIT */
/* How wrong a figure of a report may be. */
#ifndef MPL_VERDICT_INTERVAL_H
#define MPL_VERDICT_INTERVAL_H

#include "pipeline.h"

#define MPL_INTERVAL_COVERAGE 0.95

/** Holds the true figure in 95 of 100 cases. */
struct mpl_interval {
    uint64_t low_bytes, high_bytes;
    double deviation; /* of ln(figure) beyond the span of what is left open */
    const struct mpl_spread *spread;
};

/** Which rows of the table of measured errors a plan belongs to, by what was noted as it was bound.
 */
enum mpl_openness mpl_interval_openness(const struct mpl_plan *plan, const struct mpl_notes *notes);

/**
 * From the lowest to the highest figure of the alternatives that are left, widened on either side
 * by the spread of measured points and the error that the verdict uses, in squares. device also by
 * the ranges of what lies outside of PyTorch's allocator. With a calibration, which has weighed the
 * alternatives, the same share of their distributions instead, each shifted.
 */
struct mpl_interval mpl_interval_of(const struct memplan_report *report, enum mpl_figure figure);

/** Shift of ln of a figure by the calibration, 0 without one, and the deviation around it. */
double mpl_interval_shift(const struct memplan_report *report, const struct mpl_alternative *a,
                          enum mpl_figure figure, double *deviation);

const char *mpl_figure_name(enum mpl_figure figure); /* "allocated" */

#endif
