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

/** A figure of a report that has an interval. */
enum mpl_figure {
    MPL_FIGURE_ALLOCATED = 0,
    MPL_FIGURE_RESERVED,
    MPL_FIGURE_NEEDS,
    MPL_FIGURE_DEVICE,
    MPL_FIGURE_COUNT,
};

/** What measured points were sorted by: what is modelled, and whether the plan says its software.
 */
enum mpl_openness {
    MPL_OPEN_DRAFTER = 0, /* the EAGLE-3 drafter: recorded runs of a card stand behind it */
    MPL_OPEN_NOTHING,     /* other steps, releases written */
    MPL_OPEN_RELEASES, /* at least one release is a default, or the code is not what is modelled */
    MPL_OPEN_COUNT,
};

/** How far measured figures lay beyond the span of what their plans leave open. */
struct mpl_spread {
    double deviation; /* root mean square of ln(measured / nearest end of the span) */
    uint32_t points;  /* behind it; 0: none, a normal distribution */
    const char *source;
};

/** The row of a figure and a kind of plan. Borrowed, static. */
const struct mpl_spread *mpl_accuracy_spread(enum mpl_figure figure, enum mpl_openness openness);

/**
 * What a verdict is made with: the row of the plan's kind of run, its unread widened, in squares,
 * by what measured points had above the figures of plans as open as this one.
 */
struct mpl_accuracy mpl_accuracy_judging(const struct mpl_plan *plan, enum mpl_openness openness);

/** "releases written" and its like; static. */
const char *mpl_openness_name(enum mpl_openness openness);

/** Deviations to either side that hold 95 % of Student's t, for a deviation that was told from so
 * many points; 0: of a normal distribution. */
double mpl_accuracy_quantile(uint32_t points);

#endif
