/* SPDX-License-Identifier: MIT */
/*
 * Stage "readings": what was measured tells the alternatives apart. Readings never change a
 * prediction: they weigh the combinations, and the ways in which the numbers can be read.
 */
#ifndef MPL_VERDICT_READINGS_H
#define MPL_VERDICT_READINGS_H

#include "pipeline.h"

/** An alternative (or a way to read the numbers) is dropped when the readings are this many times
 * less likely under it than under the best one. */
#define MPL_EXCLUSION_RATIO 100.0

/** Predictions of every reading by every alternative; those of the memo, which may be NULL, where
 * it has them, and into it where it has none. */
enum memplan_status mpl_readings_predict(const struct mpl_spec *spec, struct memplan_report *report,
                                         struct mpl_estimator *estimator,
                                         struct mpl_readings_memo *memo, struct memplan_error *err);

/** Weights, exclusions with their figures, hypotheses. */
enum memplan_status mpl_readings_weigh(struct memplan_report *report, struct memplan_error *err);

/** A reading of as much or more that ran, of the same plan: it contradicts a failure. NULL: none.
 */
const struct mpl_observation *mpl_readings_ran_beside(const struct mpl_plan *plan,
                                                      const struct mpl_observation *failed);

/** Bytes of a reading in a unit. */
double mpl_reading_bytes(double value, enum mpl_unit unit);

/** What an alternative predicts for a quantity. */
uint64_t mpl_prediction_bytes(const struct mpl_prediction *prediction, enum mpl_metric metric);

const char *mpl_metric_name(enum mpl_metric metric);
const char *mpl_unit_name(enum mpl_unit unit);

#endif
