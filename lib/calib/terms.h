/* SPDX-License-Identifier: MIT */
/* The terms of a calibration, their priors, and how the readings depend on them. */
#ifndef MPL_CALIB_TERMS_H
#define MPL_CALIB_TERMS_H

#include "calib/calibrate.h"

/** What one alternative predicts at one reading's settings. */
struct mpl_calib_parts {
    double allocated, reserved, taken, needs_low, needs_high, tokens, all_tokens;
    double both[MPL_CATEGORY_COUNT][MPL_ORDER_COUNT];
    double usable, usable_spread; /* of the card; 0: not known */
};

void mpl_calib_parts_of(const struct mpl_estimate *estimate, const struct mpl_capacity *capacity,
                        const struct mpl_plan *plan, struct mpl_calib_parts *parts);

/** Fills report->terms, their priors and the noise, for the parts of the plan and of `count`
 * readings: everywhere the priors together allow at least the error of the table. */
void mpl_calib_make_terms(struct mpl_calib_report *report, const struct mpl_calib_parts *plan,
                          const struct mpl_calib_parts *readings, size_t count);

/** Slopes of ln(allocated), or with `metric` of reserved and device. */
void mpl_calib_slopes(const struct mpl_calib_report *report, const struct mpl_calib_parts *parts,
                      enum mpl_metric metric, double *slope);

#endif
