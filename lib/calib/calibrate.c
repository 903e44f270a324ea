/* SPDX-License-Identifier: MIT */
/* Calibration of a plan by its readings: estimates, fits of every way to read them, weights. */
#include "calib/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "calib/explain.h"
#include "calib/next_run.h"
#include "calib/terms.h"
#include "verdict/readings.h"

_Static_assert(MPL_CALIB_MOST_TERMS == MPL_CALIBRATION_MOST_TERMS, "files hold what fits find");
_Static_assert(MPL_CALIBRATION_MOST_ALTERNATIVES == MPL_SPEC_MOST_COMBINATIONS,
               "files hold what plans leave open");
_Static_assert(MPL_CALIB_MOST_READINGS == MPL_MAX_OBSERVATIONS, "fits hold what plans hold");

#define MOST_WAYS 9 /* three quantities in three units */

/* Way to read the numbers: each that allows it is of this quantity, in this unit. */
struct way {
    enum mpl_metric metric;
    enum mpl_unit unit;
};

struct work {
    const struct mpl_spec *spec;
    struct mpl_calib_report *report;
    struct mpl_estimator estimator;
    struct mpl_plan *bound;
    struct mpl_calib_parts *plan_parts; /* of each alternative */
    struct mpl_calib_parts *parts;      /* of each alternative and reading */
    struct way ways[MOST_WAYS];
    uint32_t way_count;
    double *evidence; /* of each alternative and way */
    struct memplan_error *err;
};

static uint32_t reading_count(const struct work *w)
{
    return w->report->plan.observation_count;
}

static const struct mpl_observation *reading(const struct work *w, uint32_t i)
{
    return &w->report->plan.observations[i];
}

static const struct mpl_alternative *alternative(const struct work *w, size_t a)
{
    return &w->report->estimate->alternatives[a];
}

static struct mpl_calib_parts *parts_of(const struct work *w, size_t a, uint32_t i)
{
    return &w->parts[a * reading_count(w) + i];
}

/* ---- estimates --------------------------------------------------------------------------------
 */

static enum memplan_status estimate_reading(struct work *w, size_t a, uint32_t i)
{
    const struct mpl_capacity *capacity = &alternative(w, a)->capacity;
    struct mpl_estimate estimate;
    enum memplan_status status =
        mpl_spec_bind_reading(w->spec, alternative(w, a)->combination, i, w->bound, w->err);

    if (status)
        return status;
    mpl_capacity_complete_plan(capacity, w->bound);
    w->bound->parallelism.rank = alternative(w, a)->rank;
    status = mpl_estimate_run(&w->estimator, w->bound, MPL_ESTIMATE_ALL, &estimate, w->err);
    if (!status)
        mpl_calib_parts_of(&estimate, capacity, w->bound, parts_of(w, a, i));
    return status;
}

static enum memplan_status estimate_all(struct work *w)
{
    const size_t count = w->report->estimate->alternative_count;
    struct mpl_arena *arena = &w->report->arena;
    enum memplan_status status = MEMPLAN_OK;

    w->plan_parts = mpl_arena_zalloc(arena, count * sizeof(*w->plan_parts));
    w->parts = mpl_arena_zalloc(arena, count * reading_count(w) * sizeof(*w->parts));
    if (!w->plan_parts || !w->parts)
        return mpl_fail(w->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while calibrating");
    for (size_t a = 0; a < count && !status; a++) {
        mpl_calib_parts_of(&alternative(w, a)->estimate, &alternative(w, a)->capacity,
                           &w->report->estimate->plan, &w->plan_parts[a]);
        for (uint32_t i = 0; i < reading_count(w) && !status; i++)
            status = estimate_reading(w, a, i);
    }
    return status;
}

/* ---- which readings, read in which way --------------------------------------------------------
 */

static void mark_unusable(struct work *w)
{
    for (uint32_t i = 0; i < reading_count(w); i++) {
        struct mpl_calib_result *result = &w->report->results[i];
        const struct mpl_observation *o = reading(w, i);
        const uint32_t same = mpl_spec_same_reading(w->spec, &w->report->plan, i);

        if (same < i) {
            result->use = MPL_CALIB_REPEATED;
            snprintf(result->why, sizeof(result->why), "the same as reading %u, which counts once",
                     same + 1);
        } else if (o->outcome != MPL_OUTCOME_NUMBER && !(parts_of(w, 0, i)->usable > 0)) {
            result->use = MPL_CALIB_NO_CARD;
            snprintf(result->why, sizeof(result->why),
                     "an outcome says something only where the card is known");
        }
    }
}

static void list_ways(struct work *w)
{
    for (int metric = MPL_METRIC_ALLOCATED; metric <= MPL_METRIC_DEVICE; metric++)
        for (int unit = MPL_UNIT_BYTES; unit <= MPL_UNIT_GIB; unit++)
            for (uint32_t i = 0; i < reading_count(w); i++)
                if (reading(w, i)->outcome == MPL_OUTCOME_NUMBER &&
                    reading(w, i)->metrics & UINT32_C(1) << metric &&
                    reading(w, i)->units & UINT32_C(1) << unit) {
                    w->ways[w->way_count++] =
                        (struct way){(enum mpl_metric)metric, (enum mpl_unit)unit};
                    break;
                }
    if (!w->way_count)
        w->ways[w->way_count++] = (struct way){MPL_METRIC_ALLOCATED, MPL_UNIT_GB};
}

/* A reading that does not allow the way is read as it says itself, by its first choice. */
static struct way way_of(const struct mpl_observation *o, struct way wanted)
{
    if (!(o->metrics & UINT32_C(1) << wanted.metric))
        for (int metric = MPL_METRIC_DEVICE; metric >= MPL_METRIC_ALLOCATED; metric--)
            if (o->metrics & UINT32_C(1) << metric)
                wanted.metric = (enum mpl_metric)metric;
    if (!(o->units & UINT32_C(1) << wanted.unit))
        for (int unit = MPL_UNIT_GIB; unit >= MPL_UNIT_BYTES; unit--)
            if (o->units & UINT32_C(1) << unit)
                wanted.unit = (enum mpl_unit)unit;
    return wanted;
}

static double base_of(const struct mpl_calib_parts *parts, enum mpl_metric metric)
{
    return metric == MPL_METRIC_ALLOCATED  ? parts->allocated
           : metric == MPL_METRIC_RESERVED ? parts->reserved
                                           : parts->reserved + parts->taken;
}

static void pose_number(const struct work *w, const struct mpl_observation *o, struct way way,
                        const struct mpl_calib_parts *parts, struct mpl_calib_reading *r)
{
    const double rounding = o->value > 0 ? o->resolution / o->value / sqrt(12.0) : 0;

    r->kind = MPL_CALIB_NUMBER;
    r->base = base_of(parts, way.metric);
    r->read = mpl_reading_bytes(o->value, way.unit);
    r->noise = hypot(mpl_accuracy_of(&w->report->plan)->floor, rounding);
    if (way.metric != MPL_METRIC_ALLOCATED)
        r->noise = hypot(r->noise, w->report->reserved_noise);
    mpl_calib_slopes(w->report, parts, way.metric, r->slope);
}

/* A run that survived had at least the low end of the band, one that died less than the high end.
 */
static void pose_outcome(const struct work *w, const struct mpl_observation *o,
                         const struct mpl_calib_parts *parts, struct mpl_calib_reading *r)
{
    r->kind = o->outcome == MPL_OUTCOME_RAN ? MPL_CALIB_RAN : MPL_CALIB_DIED;
    r->base = o->outcome == MPL_OUTCOME_RAN ? parts->needs_low : parts->needs_high;
    r->read = parts->usable;
    r->noise =
        hypot(mpl_accuracy_of(&w->report->plan)->floor, parts->usable_spread / parts->usable);
    mpl_calib_slopes(w->report, parts, MPL_METRIC_ALLOCATED, r->slope);
}

static void pose(const struct work *w, size_t a, struct way way, struct mpl_calib_problem *problem)
{
    memset(problem, 0, sizeof(*problem));
    problem->terms = w->report->term_count;
    problem->readings = reading_count(w);
    for (uint32_t i = 0; i < problem->readings; i++) {
        const struct mpl_observation *o = reading(w, i);
        struct mpl_calib_reading *r = &problem->reading[i];

        r->is_left_out = w->report->results[i].use != MPL_CALIB_USED;
        if (o->outcome == MPL_OUTCOME_NUMBER)
            pose_number(w, o, way_of(o, way), parts_of(w, a, i), r);
        else if (!r->is_left_out)
            pose_outcome(w, o, parts_of(w, a, i), r);
    }
}

/* ---- fits -------------------------------------------------------------------------------------
 */

static uint32_t left_out(const struct mpl_calib_problem *problem)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < problem->readings; i++)
        count += problem->reading[i].is_left_out;
    return count;
}

/* A reading that an alternative cannot explain costs it as much as the farthest one it may have,
 * and what the reading would have told. */
static double solve(const struct work *w, size_t a, struct way way,
                    struct mpl_calib_problem *problem, struct mpl_calib_fit *fit)
{
    const double dropped = MPL_CALIB_CONTRADICTION * MPL_CALIB_CONTRADICTION / 2;
    uint32_t before;

    pose(w, a, way, problem);
    before = left_out(problem);
    mpl_calib_solve_robustly(problem, fit);
    return fit->evidence - (dropped - log(mpl_accuracy_of(&w->report->plan)->floor)) *
                               (double)(left_out(problem) - before);
}

static enum memplan_status fit_all(struct work *w, struct mpl_calib_problem *problem)
{
    struct mpl_calib_report *report = w->report;
    const size_t count = report->estimate->alternative_count;
    struct mpl_arena *arena = &report->arena;

    w->evidence = mpl_arena_zalloc(arena, count * MOST_WAYS * sizeof(*w->evidence));
    report->fits = mpl_arena_zalloc(arena, count * sizeof(*report->fits));
    report->weights = mpl_arena_zalloc(arena, count * sizeof(*report->weights));
    report->metrics = mpl_arena_zalloc(arena, count * sizeof(*report->metrics));
    report->units = mpl_arena_zalloc(arena, count * sizeof(*report->units));
    if (!w->evidence || !report->fits || !report->weights || !report->metrics || !report->units)
        return mpl_fail(w->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while calibrating");
    for (size_t a = 0; a < count; a++)
        for (uint32_t h = 0; h < w->way_count; h++)
            w->evidence[a * MOST_WAYS + h] = solve(w, a, w->ways[h], problem, &report->fits[a]);
    return MEMPLAN_OK;
}

/* Weights over all ways to read; each alternative keeps the fit of its likeliest way. */
static void weigh(struct work *w, struct mpl_calib_problem *problem)
{
    struct mpl_calib_report *report = w->report;
    const size_t count = report->estimate->alternative_count;
    double best = -HUGE_VAL, total = 0;

    for (size_t a = 0; a < count; a++)
        for (uint32_t h = 0; h < w->way_count; h++)
            best = fmax(best, w->evidence[a * MOST_WAYS + h]);
    for (size_t a = 0; a < count; a++) {
        uint32_t likely = 0;

        for (uint32_t h = 0; h < w->way_count; h++) {
            const double ratio = exp(w->evidence[a * MOST_WAYS + h] - best);

            if (ratio * MPL_EXCLUSION_RATIO >= 1)
                report->weights[a] += ratio;
            if (w->evidence[a * MOST_WAYS + h] > w->evidence[a * MOST_WAYS + likely])
                likely = h;
        }
        total += report->weights[a];
        report->metrics[a] = w->ways[likely].metric;
        report->units[a] = w->ways[likely].unit;
        solve(w, a, w->ways[likely], problem, &report->fits[a]);
    }
    for (size_t a = 0; a < count; a++) {
        report->weights[a] /= total;
        if (report->weights[a] > report->weights[report->best])
            report->best = a;
    }
}

/* What the likeliest alternative makes of each reading. */
static void tell_results(struct work *w, struct mpl_calib_problem *problem)
{
    struct mpl_calib_report *report = w->report;
    const size_t a = report->best;
    struct mpl_calib_fit *fit = &report->fits[a], prior;

    mpl_calib_prior(report->term_count, &prior);
    solve(w, a, (struct way){report->metrics[a], report->units[a]}, problem, fit);
    for (uint32_t i = 0; i < problem->readings; i++) {
        const struct mpl_calib_reading *r = &problem->reading[i];
        const struct mpl_observation *o = reading(w, i);
        struct mpl_calib_result *result = &report->results[i];
        const struct way way = way_of(o, (struct way){report->metrics[a], report->units[a]});
        double deviation;

        if (result->use == MPL_CALIB_NO_CARD)
            continue;
        result->metric = way.metric;
        result->unit = way.unit;
        result->predicted_bytes = r->base;
        result->read_bytes = r->read;
        if (!(r->base > 0))
            continue;
        result->corrected_bytes = r->base * exp(mpl_calib_shift(problem, fit, r, &deviation));
        result->distance = mpl_calib_distance(problem, &prior, r);
        if (result->use == MPL_CALIB_USED && r->is_left_out)
            mpl_calib_explain(report, problem, fit, parts_of(w, a, i), i);
        if (result->use == MPL_CALIB_USED && o->outcome == MPL_OUTCOME_NUMBER) {
            const double tokens = (double)o->sequence_length;

            report->low_tokens = report->low_tokens > 0 ? fmin(report->low_tokens, tokens) : tokens;
            report->high_tokens = fmax(report->high_tokens, tokens);
        }
    }
    mpl_calib_group(report, problem);
}

/* Which plan it is, and where the readings were that count. */
static enum memplan_status name_plan(struct work *w)
{
    struct mpl_calib_report *report = w->report;
    bool is_used[MPL_MAX_OBSERVATIONS] = {false};

    report->file = calloc(1, sizeof(*report->file));
    if (!report->file)
        return mpl_fail(w->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while calibrating");
    for (uint32_t i = 0; i < reading_count(w); i++)
        is_used[i] = report->results[i].use == MPL_CALIB_USED &&
                     reading(w, i)->outcome == MPL_OUTCOME_NUMBER;
    mpl_calibration_span(w->spec, is_used, report->low_tokens, report->high_tokens, report->file);
    return mpl_calibration_identify(w->spec, report->file, w->err);
}

static enum memplan_status run(struct work *w, double risk)
{
    struct mpl_calib_report *report = w->report;
    const struct memplan_options options = {
        .size = sizeof(options), .risk = risk, .ignore_readings = 1, .no_suggestions = 1};
    struct mpl_calib_problem *problem = mpl_arena_alloc(&report->arena, sizeof(*problem));
    enum memplan_status status;

    w->bound = mpl_arena_alloc(&report->arena, sizeof(*w->bound));
    if (!w->bound || !problem)
        return mpl_fail(w->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while calibrating");
    if ((status = mpl_pipeline_run(w->spec, &options, NULL, NULL, &report->estimate, w->err)))
        return status;
    report->plan = report->estimate->plan;
    if (!reading_count(w))
        return mpl_fail(w->err, MEMPLAN_ERR_VALUE, "/observations",
                        "observations: found none, expected at least one reading");
    if ((status = estimate_all(w)))
        return status;
    mpl_calib_make_terms(report, &w->plan_parts[report->estimate->best],
                         parts_of(w, report->estimate->best, 0), reading_count(w));
    mark_unusable(w);
    list_ways(w);
    if ((status = fit_all(w, problem)))
        return status;
    weigh(w, problem);
    tell_results(w, problem);
    mpl_calib_next_run(report, risk > 0 ? risk : report->estimate->risk);
    return name_plan(w);
}

enum memplan_status mpl_calibrate(const struct mpl_spec *spec, double risk,
                                  struct mpl_calib_report **report_out, struct memplan_error *err)
{
    struct work w = {.spec = spec, .err = err};
    enum memplan_status status;

    w.report = calloc(1, sizeof(*w.report));
    if (!w.report || mpl_estimator_init(&w.estimator, err))
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while calibrating");
    else
        status = run(&w, risk);
    mpl_estimator_free(&w.estimator);
    if (status)
        mpl_calib_free(w.report);
    else
        *report_out = w.report;
    return status;
}

void mpl_calib_free(struct mpl_calib_report *report)
{
    if (!report)
        return;
    memplan_report_free(report->estimate);
    mpl_calibration_free(report->file);
    mpl_arena_free(&report->arena);
    free(report);
}
