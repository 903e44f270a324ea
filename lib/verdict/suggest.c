/* SPDX-License-Identifier: MIT */
/* What would fit: the largest sequence length, found by evaluating both sides of the boundary. */
#include <math.h>

#include "base/fail.h"
#include "verdict/verdict.h"

#define GRAIN   128
#define LONGEST (INT64_C(1) << 24) /* tokens; the search ends here */

/* The search leaves the first guess by a part of it, then by steps that double. */
#define FIRST_STEP 64

struct search {
    const struct mpl_spec *spec;
    struct memplan_report *report;
    struct mpl_estimator *estimator;
    struct mpl_plan *plan; /* scratch */
    struct memplan_error *err;
    enum memplan_status status;
    uint64_t needs_bytes; /* a budget that is enough for the last length that fits */
    double survival;
};

/* Traces one alternative at a length, into what is then judged. */
static void trace(struct search *s, const struct mpl_alternative *a, int64_t tokens,
                  struct mpl_estimate *estimate)
{
    s->status = mpl_spec_bind(s->spec, a->combination, s->plan, NULL, s->err);
    mpl_capacity_complete_plan(&a->capacity, s->plan);
    s->plan->training.sequence_length = tokens;
    if (!s->status)
        s->status = mpl_estimate_trace(s->estimator, s->plan, false, estimate, s->err);
}

/* Chance of survival of one alternative at a length. */
static double survive(struct search *s, const struct mpl_alternative *a, int64_t tokens)
{
    struct mpl_survival survival = {0};
    struct mpl_estimate estimate;
    const struct mpl_survival_case judged = {
        .estimator = s->estimator,
        .plan = s->plan,
        .estimate = &estimate,
        .capacity = &a->capacity,
        .error = mpl_accuracy_error(mpl_accuracy_of(&s->report->plan), tokens,
                                    s->report->farthest_reading),
        .risk = s->report->risk / a->weight,
    };

    trace(s, a, tokens, &estimate);
    if (!s->status)
        s->status = mpl_survival_judge(&judged, &survival, s->err);
    if (survival.enough_bytes > s->needs_bytes)
        s->needs_bytes = survival.enough_bytes;
    return s->status ? 0 : survival.probability;
}

/* Does a length fit? Ends as soon as the alternatives that fail weigh more than the risk. */
static bool fits(struct search *s, int64_t tokens)
{
    double chance = 1;

    s->needs_bytes = 0;
    for (size_t i = 0; i < s->report->alternative_count; i++) {
        const struct mpl_alternative *a = &s->report->alternatives[i];

        if (a->is_excluded)
            continue;
        chance -= a->weight * (1 - survive(s, a, tokens));
        if (s->status || chance <= 1 - s->report->risk)
            return false;
    }
    s->survival = chance;
    return true;
}

/* A length that overflows or passes a limit is a length that does not fit. */
static bool fits_at(struct search *s, int64_t tokens)
{
    bool result = fits(s, tokens);

    if (s->status == MEMPLAN_ERR_OVERFLOW || s->status == MEMPLAN_ERR_LIMIT) {
        s->status = MEMPLAN_OK;
        mpl_fail_clear(s->err);
    }
    return result;
}

static void found(struct search *s, int64_t tokens)
{
    struct mpl_suggestion *suggestion = &s->report->suggestion;

    suggestion->is_found = true;
    suggestion->sequence_length = tokens;
    suggestion->needs_bytes = s->needs_bytes;
    suggestion->survival = s->survival;
}

static int64_t on_grain(double tokens)
{
    if (!(tokens > GRAIN))
        return GRAIN;
    if (tokens > (double)LONGEST)
        return LONGEST;
    return (int64_t)tokens / GRAIN * GRAIN;
}

/* Peaks of the last step's phases at one length. */
struct sample {
    double tokens, peak[3];
};

static struct sample sample_of(const struct mpl_estimate *e, int64_t tokens)
{
    const struct mpl_step_bytes *last = &e->live_steps[e->step_count - 1];

    return (struct sample){
        (double)tokens,
        {(double)last->forward_peak, (double)last->backward_peak, (double)last->optimizer_peak}};
}

/* The highest phase at a length, each phase a straight line through two samples. */
static double peak_between(const struct sample *a, const struct sample *b, double tokens)
{
    double highest = 0;

    for (int i = 0; i < 3; i++) {
        const double slope = (b->peak[i] - a->peak[i]) / (b->tokens - a->tokens);

        highest = fmax(highest, a->peak[i] + slope * (tokens - a->tokens));
    }
    return highest;
}

/*
 * Where the boundary should lie for the most likely alternative, when its peak is on straight
 * lines through two samples and what it needs beyond that grows with the length. A first guess;
 * both sides are evaluated after it.
 */
static int64_t boundary_between(const struct search *s, const struct sample *a,
                                const struct sample *b)
{
    const struct mpl_alternative *best = &s->report->alternatives[s->report->best];
    const double beyond_per_token =
        ((double)best->estimate.needs.high_bytes - (double)best->estimate.live_peak) /
        (double)s->report->plan.training.sequence_length;
    struct mpl_survival_case c = {.capacity = &best->capacity};
    double low = 0, high = (double)LONGEST;

    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;

        c.error = mpl_accuracy_error(mpl_accuracy_of(s->plan), (int64_t)middle,
                                     s->report->farthest_reading);
        if (mpl_survival_if_needs(&c, peak_between(a, b, middle) + beyond_per_token * middle) <
            1 - s->report->risk)
            high = middle;
        else
            low = middle;
    }
    return on_grain(low);
}

static int64_t guess(struct search *s)
{
    const struct mpl_alternative *best = &s->report->alternatives[s->report->best];
    const int64_t start = s->report->plan.training.sequence_length;
    const int64_t half = on_grain((double)start / 2), other = half == start ? 2 * start : half;
    struct mpl_estimate there;
    struct sample a, b;

    trace(s, best, other, &there);
    if (s->status || !best->estimate.step_count || !there.step_count)
        return start;
    a = sample_of(&best->estimate, start);
    b = sample_of(&there, other);
    return boundary_between(s, &a, &b);
}

/* What is known of the boundary: the longest that fits and the shortest that does not; 0: none. */
struct bounds {
    int64_t fitting, failing;
};

/* Brackets the boundary by steps that double, away from a first length. */
static struct bounds bracket(struct search *s, int64_t start, int64_t step)
{
    struct bounds bounds = {0, 0};
    int64_t at = on_grain((double)start);

    while (!s->status) {
        if (fits_at(s, at)) {
            found(s, at);
            bounds.fitting = at;
            if (bounds.failing || at >= LONGEST)
                break;
            at = on_grain((double)(at + step));
        } else {
            bounds.failing = at;
            if (bounds.fitting || at == GRAIN)
                break;
            at = on_grain((double)(at - step));
        }
        step *= 2;
    }
    return bounds;
}

static struct bounds bisect(struct search *s, struct bounds bounds)
{
    while (!s->status && bounds.failing && bounds.failing - bounds.fitting > GRAIN) {
        const int64_t middle = on_grain((double)(bounds.fitting + bounds.failing) / 2);

        if (fits_at(s, middle)) {
            found(s, middle);
            bounds.fitting = middle;
        } else {
            bounds.failing = middle;
        }
    }
    return bounds;
}

enum memplan_status mpl_verdict_suggest(const struct mpl_spec *spec, struct memplan_report *report,
                                        struct mpl_estimator *estimator, struct memplan_error *err)
{
    struct search s = {.spec = spec, .report = report, .estimator = estimator, .err = err};
    int64_t start;

    s.plan = mpl_arena_alloc(&report->arena, sizeof(*s.plan));
    if (!s.plan)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while looking for what fits");
    start = guess(&s);
    report->suggestion.fails_at =
        bisect(&s, bracket(&s, start, on_grain((double)start / FIRST_STEP))).failing;
    return s.status;
}
