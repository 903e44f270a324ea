/* SPDX-License-Identifier: MIT */
/* What would fit: the largest sequence length, found by evaluating both sides of the boundary. */
#include "base/fail.h"
#include "spec/config_class.h"
#include "verdict/forecast.h"
#include "verdict/verdict.h"

#define GRAIN   128
#define LONGEST (INT64_C(1) << 24) /* tokens; the search ends here at the latest */

struct search {
    const struct mpl_spec *spec;
    struct memplan_report *report;
    struct mpl_estimator *estimator;
    struct mpl_plan *plan; /* of the alternative that was traced last */
    const struct mpl_alternative *bound;
    struct memplan_error *err;
    enum memplan_status status;
    struct mpl_survival *chances; /* of each alternative, at the length that is tried */
    size_t hardest;               /* the alternative that refused a length last */
    int64_t longest;              /* tokens where the search ends: on the grain */
};

/* Traces one alternative at a length, into what is then judged. */
static void trace(struct search *s, const struct mpl_alternative *a, int64_t tokens,
                  struct mpl_estimate *estimate)
{
    if (s->bound != a) {
        s->status = mpl_spec_bind(s->spec, a->combination, s->plan, NULL, s->err);
        mpl_capacity_complete_plan(&a->capacity, s->plan);
        s->bound = a;
    }
    s->plan->training.sequence_length = tokens;
    s->plan->parallelism.rank = a->rank;
    if (!s->status)
        s->status = mpl_estimate_trace(s->estimator, s->plan, false, estimate, s->err);
}

/* How far a length is judged. */
enum effort {
    EFFORT_FIRST,    /* one replay: may refuse, cannot accept */
    EFFORT_DECIDING, /* until the answer is certain, should all alternatives be alike */
    EFFORT_ALL,      /* the chance itself */
};

/* Chance of survival of one alternative at a length. */
static void survive(struct search *s, size_t alternative, int64_t tokens, enum effort effort)
{
    const struct mpl_alternative *a = &s->report->alternatives[alternative];
    struct mpl_estimate estimate;
    struct mpl_capacity capacity = a->capacity;
    struct mpl_survival_case judged = {
        .estimator = s->estimator,
        .plan = s->plan,
        .estimate = &estimate,
        .capacity = &capacity,
        .error = mpl_accuracy_error(&s->report->accuracy, tokens, s->report->farthest_reading),
        .risk = s->report->risk / a->weight,
        .enough = effort == EFFORT_DECIDING ? s->report->risk : 0,
        .most_replays = effort == EFFORT_FIRST ? 1 : 0,
    };

    trace(s, a, tokens, &estimate);
    if (!s->status)
        mpl_correction_judge(&a->correction, &s->report->accuracy, (double)tokens,
                             (double)estimate.live_peak, &capacity, &judged.error);
    if (!s->status)
        s->status = mpl_survival_judge(&judged, &s->chances[alternative], s->err);
}

/* Chance of survival over all alternatives that are left: at most this, and at least. */
static double chance_at_most(const struct search *s)
{
    double chance = 1;

    for (size_t i = 0; i < s->report->alternative_count; i++)
        chance -= s->report->alternatives[i].weight * (1 - s->chances[i].probability);
    return chance;
}

static double chance_at_least(const struct search *s)
{
    double chance = 1;

    for (size_t i = 0; i < s->report->alternative_count; i++)
        chance -= s->report->alternatives[i].weight * (1 - s->chances[i].at_least);
    return chance;
}

/* Judges one alternative; false when no other can make up for it. */
static bool stays_possible(struct search *s, size_t i, int64_t tokens, enum effort effort)
{
    survive(s, i, tokens, effort);
    if (!s->status && chance_at_most(s) > 1 - s->report->risk)
        return true;
    s->hardest = i;
    return false;
}

/* Judges as far as needed: first the alternative that refused last, then all others, and those that
 * are not exact once more where that decides. */
static bool is_likely(struct search *s, int64_t tokens, bool is_proof)
{
    const struct memplan_report *report = s->report;
    const enum effort effort = is_proof ? EFFORT_DECIDING : EFFORT_FIRST;

    for (size_t i = 0; i < report->alternative_count; i++)
        s->chances[i] = (struct mpl_survival){.probability = 1, .at_least = 1};
    if (!stays_possible(s, s->hardest, tokens, effort) || !is_proof)
        return !s->status && chance_at_most(s) > 1 - report->risk;
    for (size_t i = 0; i < report->alternative_count; i++)
        if (i != s->hardest && !report->alternatives[i].is_excluded &&
            !stays_possible(s, i, tokens, effort))
            return false;
    for (size_t i = 0; i < report->alternative_count && chance_at_least(s) <= 1 - report->risk; i++)
        if (s->chances[i].at_least < s->chances[i].probability &&
            !stays_possible(s, i, tokens, EFFORT_ALL))
            return false;
    return true;
}

/* Does a length fit? No is certain, and so is yes when a proof is asked for. One that overflows or
 * passes a limit does not fit. */
static bool fits(struct search *s, int64_t tokens, bool is_proof)
{
    const bool result = is_likely(s, tokens, is_proof);

    if (s->status == MEMPLAN_ERR_OVERFLOW || s->status == MEMPLAN_ERR_LIMIT) {
        s->status = MEMPLAN_OK;
        mpl_fail_clear(s->err);
    }
    return result;
}

/* Writes down a length that was just proven to fit. */
static void found(struct search *s, int64_t tokens)
{
    struct mpl_suggestion *suggestion = &s->report->suggestion;

    *suggestion = (struct mpl_suggestion){
        .is_found = true, .sequence_length = tokens, .survival = chance_at_least(s)};
    for (size_t i = 0; i < s->report->alternative_count; i++)
        if (s->chances[i].enough_bytes > suggestion->needs_bytes)
            suggestion->needs_bytes = s->chances[i].enough_bytes;
}

static int64_t on_grain(const struct search *s, double tokens)
{
    if (!(tokens > GRAIN))
        return GRAIN;
    if (tokens > (double)s->longest)
        return s->longest;
    return (int64_t)tokens / GRAIN * GRAIN;
}

static int64_t power_of_two_below(int64_t tokens)
{
    int64_t power = GRAIN;

    while (power < (tokens + 1) / 2)
        power *= 2;
    return power;
}

/* The next length to try below one that fails. Where a step would be a good part of it, the
 * prediction says little there: then coarse lengths first, so that the search ends soon. */
static int64_t next_below(const struct search *s, int64_t tokens, int64_t step)
{
    return step > tokens / 8 ? power_of_two_below(tokens) : on_grain(s, (double)(tokens - step));
}

/* What is known of the boundary: the longest that fits and the shortest that does not; 0: none. */
struct bounds {
    int64_t fitting, failing;
    bool is_proven;  /* that the one fits; else only its first replay did not refuse it */
    bool is_growing; /* the last that was tried fits */
    int64_t step;    /* how far the next may be from it */
};

static bool is_closed(const struct search *s, const struct bounds *b)
{
    if (b->failing)
        return b->failing == GRAIN || (b->is_proven && b->failing - b->fitting <= GRAIN);
    return b->is_proven && b->fitting >= s->longest;
}

static void put(struct bounds *b, int64_t tokens, bool is_fitting, bool is_proof)
{
    b->is_growing = is_fitting;
    if (is_fitting) {
        b->fitting = tokens;
        b->is_proven = is_proof;
        return;
    }
    b->failing = tokens;
    if (tokens == b->fitting)
        b->fitting = 0;
}

/* Away from the last by steps that double, but no farther than halfway to the other bound. */
static int64_t next_length(const struct search *s, struct bounds *b)
{
    const int64_t step = b->step, gap = b->failing - b->fitting;

    b->step *= 2;
    if (!b->failing)
        return on_grain(s, (double)(b->fitting + step));
    if (!b->fitting)
        return next_below(s, b->failing, step);
    if (gap > GRAIN && step > gap / 2)
        return on_grain(s, (double)(b->fitting + b->failing) / 2);
    if (gap > GRAIN)
        return b->is_growing ? b->fitting + step : b->failing - step;
    b->step = GRAIN; /* should the proof fail */
    return b->fitting;
}

static void try_length(struct search *s, struct bounds *b, int64_t tokens, bool is_proof)
{
    const bool is_fitting = fits(s, tokens, is_proof);

    put(b, tokens, is_fitting, is_proof);
    if (is_fitting && is_proof)
        found(s, tokens);
}

/* Tries a length. Many replays prove that one fits, a single one may refuse it: so only what may be
 * the answer is proven. */
static void narrow(struct search *s, struct bounds *b, int64_t tokens)
{
    try_length(s, b, tokens,
               tokens == b->fitting || tokens >= s->longest ||
                   (b->failing && b->failing - tokens <= 2 * GRAIN));
}

/* The same search on the last trace, grown: such a replay costs a quarter of a real try. It ends
 * with two grains between the bounds, whose middle is then tried. */
static struct bounds forecast_bounds(struct search *s, struct bounds b)
{
    struct mpl_forecast forecast = {
        .report = s->report,
        .alternative = s->bound,
        .estimator = s->estimator,
        .tokens = s->plan->training.sequence_length,
    };
    bool is_fitting;

    while (!s->status && !is_closed(s, &b) && !(b.failing && b.failing - b.fitting <= 2 * GRAIN)) {
        const int64_t tokens = next_length(s, &b);

        s->status = mpl_forecast_survives(&forecast, tokens, &is_fitting, s->err);
        put(&b, tokens, is_fitting, true);
    }
    mpl_timeline_free_grown(&forecast.grown);
    return b;
}

/* Where the prediction says little, its guess is only the longest that may fit. */
static int64_t first_length(const struct search *s, int64_t guess, int64_t step)
{
    return guess < s->longest && step > guess / 8 ? power_of_two_below(guess) : guess;
}

/* A first length; from its trace, where the boundary should be; both sides of that, and on from
 * there should it not be. */
static struct bounds find_bounds(struct search *s, int64_t start)
{
    struct bounds b = {.step = on_grain(s, mpl_forecast_step(s->report, start))}, expected;

    narrow(s, &b, first_length(s, start, b.step));
    if (s->status || is_closed(s, &b))
        return b;
    expected = forecast_bounds(s, b);
    if (s->status)
        return b;
    b.step = GRAIN;
    if (expected.failing)
        try_length(s, &b, on_grain(s, (double)(expected.fitting + expected.failing) / 2), true);
    else
        try_length(s, &b, expected.fitting, true);
    while (!s->status && !is_closed(s, &b))
        narrow(s, &b, next_length(s, &b));
    return b;
}

/* Of the alternatives that can refuse a length alone, the one that needs most. */
static size_t hardest_of(const struct memplan_report *report)
{
    size_t hardest = report->best;

    for (size_t i = 0; i < report->alternative_count; i++) {
        const struct mpl_alternative *a = &report->alternatives[i];

        if (!a->is_excluded && a->weight > report->risk &&
            a->estimate.needs.high_bytes > report->alternatives[hardest].estimate.needs.high_bytes)
            hardest = i;
    }
    return hardest;
}

enum memplan_status mpl_verdict_suggest(const struct mpl_spec *spec, struct memplan_report *report,
                                        struct mpl_estimator *estimator, struct memplan_error *err)
{
    struct search s = {.spec = spec, .report = report, .estimator = estimator, .err = err};
    struct bounds bounds;

    s.plan = mpl_arena_alloc(&report->arena, sizeof(*s.plan));
    s.chances = mpl_arena_alloc(&report->arena, report->alternative_count * sizeof(*s.chances));
    if (!s.plan || !s.chances)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while looking for what fits");
    s.longest = mpl_longest_sequence(&report->plan.model);
    if (s.longest < GRAIN)
        return MEMPLAN_OK;
    s.longest = s.longest < LONGEST ? s.longest / GRAIN * GRAIN : LONGEST;
    s.hardest = hardest_of(report);
    bounds = find_bounds(&s, on_grain(&s, mpl_forecast_length(report, s.longest)));
    report->suggestion.fails_at = bounds.failing;
    return s.status;
}
