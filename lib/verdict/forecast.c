/* SPDX-License-Identifier: MIT */
/* Where the boundary should lie, told from runs at other lengths. */
#include "verdict/forecast.h"

#include <math.h>

static const struct mpl_alternative *best_of(const struct memplan_report *report)
{
    return &report->alternatives[report->best];
}

/* The highest live phase at a length, each part of it grown from the plan's length by its order. */
static double live_at(const struct memplan_report *report, double tokens)
{
    const double ratio = tokens / (double)report->plan.training.sequence_length;
    double highest = 0;

    for (int phase = 0; phase < MPL_PHASE_COUNT; phase++) {
        const uint64_t *orders = best_of(report)->estimate.peak_orders[phase];

        highest = fmax(highest, (double)orders[MPL_CONSTANT] + (double)orders[MPL_LINEAR] * ratio +
                                    (double)orders[MPL_QUADRATIC] * ratio * ratio);
    }
    return highest;
}

/* What is needed beyond the live peak shrinks with shorter sequences and is not said to grow with
 * longer ones: a guess that is too long is refused after few replays, one that is too short has to
 * be proven to fit. */
static double needs_at(const struct memplan_report *report, double tokens)
{
    const struct mpl_estimate *e = &best_of(report)->estimate;
    const double ratio = tokens / (double)report->plan.training.sequence_length;

    return live_at(report, tokens) +
           ((double)e->needs.high_bytes - (double)e->live_peak) * fmin(ratio, 1);
}

static double error_at(const struct memplan_report *report, double tokens)
{
    return mpl_accuracy_error(&report->accuracy, (int64_t)tokens, report->farthest_reading);
}

double mpl_forecast_length(const struct memplan_report *report, int64_t longest)
{
    double low = 0, high = (double)longest;

    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        struct mpl_capacity capacity = best_of(report)->capacity;
        struct mpl_survival_case c = {.capacity = &capacity, .error = error_at(report, middle)};

        mpl_correction_judge(&best_of(report)->correction, &report->accuracy, middle,
                             live_at(report, middle), &capacity, &c.error);
        if (mpl_survival_if_needs(&c, needs_at(report, middle)) < 1 - report->risk)
            high = middle;
        else
            low = middle;
    }
    return low;
}

double mpl_forecast_step(const struct memplan_report *report, int64_t tokens)
{
    const double near = (double)tokens * (1 - 1.0 / 64), here = needs_at(report, (double)tokens);
    const double slope = (here - needs_at(report, near)) / ((double)tokens - near);
    const double error = error_at(report, (double)tokens);
    const double step = hypot(best_of(report)->capacity.spread_bytes, error * here) / slope;

    return step < (double)tokens ? step : (double)tokens;
}

enum memplan_status mpl_forecast_survives(struct mpl_forecast *forecast, int64_t tokens,
                                          bool *survives, struct memplan_error *err)
{
    const struct mpl_alternative *a = forecast->alternative;
    struct mpl_capacity capacity = a->capacity;
    struct mpl_survival_case c = {
        .capacity = &capacity,
        .error = error_at(forecast->report, (double)tokens),
        .risk = forecast->report->risk / a->weight,
    };
    struct mpl_replay_result result = {0};
    enum memplan_status status =
        mpl_timeline_grow(&forecast->estimator->trace.timeline,
                          (double)tokens / (double)forecast->tokens, &forecast->grown, err);

    mpl_correction_judge(&a->correction, &forecast->report->accuracy, (double)tokens,
                         live_at(forecast->report, (double)tokens), &capacity, &c.error);
    if (!status)
        status = mpl_replay_run(forecast->estimator->replay, &forecast->grown,
                                mpl_survival_boundary_budget(&c), &result, err);
    *survives = !status && result.survived;
    return status;
}
