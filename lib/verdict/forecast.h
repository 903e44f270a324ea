/* SPDX-License-Identifier: MIT */
/* Where the boundary should lie, told from runs at other lengths. A forecast proves nothing: it
 * says where to look. */
#ifndef MPL_VERDICT_FORECAST_H
#define MPL_VERDICT_FORECAST_H

#include "pipeline.h"
#include "timeline/grow.h"

/** The longest sequence, in tokens, whose needs survive with the report's risk: live bytes of its
 * best alternative grown by their orders, and pools that do not grow beyond the plan's. */
double mpl_forecast_length(const struct memplan_report *report, int64_t longest);

/** Tokens over which the prediction changes by one deviation of the error, so that the boundary is
 * likely within a few such steps of a forecast. */
double mpl_forecast_step(const struct memplan_report *report, int64_t tokens);

/** A run that is replayed at other lengths than its own: one alternative's, as the estimator holds
 * it. Zero `grown`, and free it with mpl_timeline_free_grown. */
struct mpl_forecast {
    const struct memplan_report *report;
    const struct mpl_alternative *alternative;
    struct mpl_estimator *estimator;
    int64_t tokens; /* that the trace is of */
    struct mpl_timeline grown;
};

/**
 * Does that run survive at another length, its sizes grown by their orders, on the budget that
 * decides it? Pools and gaps are in this; kernels that are chosen by size are not.
 * errors  MEMPLAN_ERR_NOMEM
 */
enum memplan_status mpl_forecast_survives(struct mpl_forecast *forecast, int64_t tokens,
                                          bool *survives, struct memplan_error *err);

#endif
