/* SPDX-License-Identifier: MIT */
/* TABLE: how far memplan's figures have been from truth, by kind of run. */
#ifndef MPL_VERDICT_ACCURACY_H
#define MPL_VERDICT_ACCURACY_H

#include "spec/plan.h"

/** Relative standard deviations; see docs/accuracy.md for the cases behind them. */
struct mpl_accuracy {
    double floor;  /* of a figure at a length that was read, or nearer: readings cannot shrink it */
    double unread; /* instead of floor when the plan has no reading at all */
    double growth; /* added (in squares) for each doubling beyond the farthest reading */
    const char *source;
};

/** The row of the plan's kind of run. Borrowed, static. */
const struct mpl_accuracy *mpl_accuracy_of(const struct mpl_plan *plan);

/** Error of a prediction at `tokens` when the farthest reading was at farthest_tokens (0: none). */
double mpl_accuracy_error(const struct mpl_accuracy *accuracy, int64_t tokens,
                          int64_t farthest_tokens);

#endif
