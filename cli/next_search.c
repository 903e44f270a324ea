/* SPDX-License-Identifier: MIT */
/* What to run next: the search between what ran and what failed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "next.h"
#include "report.h"
#include "run.h"
#include "text.h"

#define MOST_VALUE ((int64_t)1 << 30)
#define CANDIDATES 12   /* of --explore */
#define SURELY     0.01 /* chances beyond which an outcome tells nothing */

#define DEFAULT_RISK 0.01 /* of the library */

static double entropy(double chance)
{
    if (chance <= 0 || chance >= 1)
        return 0;
    return -chance * log2(chance) - (1 - chance) * log2(1 - chance);
}

/* What the outcome would say of which alternative is right; of a single one, what it would say of
 * the margin. In bits. */
static double information(const json_t *report, double survival)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *one;
    double inside = 0;
    size_t i, left = 0;

    json_array_foreach(alternatives, i, one)
    {
        if (!report_is_left(one))
            continue;
        inside += report_number(one, "weight", 0) *
                  entropy(report_number(json_object_get(one, "peak"), "survival_probability", 0));
        left++;
    }
    return left > 1 ? fmax(0, entropy(survival) - inside) : entropy(survival);
}

/* Chance that an alternative fails where the smaller one of two runs is asked, given that the
 * larger one failed: a model that is wrong by some share about a run is so at each value, so
 * whatever makes the smaller fail makes the larger fail too. */
static double failure_given(const json_t *point, const json_t *failed)
{
    const double here = 1 - report_number(point, "survival_probability", 1);
    const double there = 1 - report_number(failed, "survival_probability", 1);

    return there > here ? here / there : here > 0 ? 1 : 0;
}

/* Survival of a report's run, given that the one of another report failed. Both are of one plan
 * with the same readings, so their alternatives stand in the same order. */
static double survival_given(const json_t *report, const json_t *failed)
{
    const json_t *here = json_object_get(report, "alternatives"), *one;
    const json_t *there = json_object_get(failed, "alternatives");
    double fails = 0;
    size_t i;

    if (!json_array_size(here) || json_array_size(here) != json_array_size(there))
        return 1 - failure_given(json_object_get(report, "peak"), json_object_get(failed, "peak"));
    json_array_foreach(here, i, one)
    {
        if (report_is_left(one))
            fails += report_number(one, "weight", 0) *
                     failure_given(json_object_get(one, "peak"),
                                   json_object_get(json_array_get(there, i), "peak"));
    }
    return fmin(1, fmax(0, 1 - fails));
}

/* What is said with that chance; as the library does it. */
static int verdict_of(double survival, double risk)
{
    return survival > 1 - (risk > 0 ? risk : DEFAULT_RISK) ? MEMPLAN_FITS
           : survival < 0.5                                ? MEMPLAN_DOES_NOT_FIT
                                                           : MEMPLAN_INSIDE_MARGIN;
}

static int set_value(struct next *next, int64_t value)
{
    struct memplan_error err;
    char assignment[96];

    snprintf(assignment, sizeof(assignment), "%s=%lld", next->field, (long long)value);
    return memplan_plan_set(next->plan, assignment, &err) ? message_error(&err, next->source) : 0;
}

/* report_out, if not NULL, is the report as JSON, new. */
static int ask_model(struct next *next, struct next_point *point, json_t **report_out)
{
    struct memplan_options options = {.size = sizeof(options),
                                      .risk = next->settings->risk,
                                      .ignore_readings = next->settings->no_readings,
                                      .no_suggestions = 1};
    struct memplan_report *report = NULL;
    struct memplan_error err;
    char *text = NULL;
    json_t *json;

    if (memplan_estimate(next->plan, &options, &report, &err))
        return message_error(&err, next->source);
    point->verdict = (int)memplan_report_verdict(report);
    json = memplan_report_to_json(report, &text, NULL) ? NULL : json_loads(text, 0, NULL);
    point->survival = report_number(json_object_get(json, "peak"), "survival_probability", -1);
    report_needs_left(json, &point->needs_low_bytes, &point->needs_high_bytes);
    if (next->at_failed && point->survival >= 0) {
        point->survival = survival_given(json, next->at_failed);
        point->verdict = verdict_of(point->survival, next->settings->risk);
    }
    point->bits = point->survival < 0 ? 0 : information(json, point->survival);
    if (report_out)
        *report_out = json_incref(json);
    json_decref(json);
    memplan_free(text);
    memplan_report_free(report);
    next->evaluations++;
    return 0;
}

static int evaluate(struct next *next, int64_t value, struct next_point *point)
{
    struct memplan_identity id = {.size = sizeof(id)};
    struct memplan_error err;
    int code = set_value(next, value);

    *point = (struct next_point){.value = value, .survival = -1};
    if (code)
        return code;
    if (memplan_plan_identity(next->plan, &id, &err))
        return message_error(&err, next->source);
    if (ledger_find_failure(&next->entries, &id, NULL)) {
        point->refused = true;
        point->verdict = MEMPLAN_DOES_NOT_FIT;
        return 0;
    }
    return ask_model(next, point, NULL);
}

/* The failure of the smallest value that stands against this plan with no more of anything else. */
static void find_failed(struct next *next, const struct memplan_identity *id)
{
    const size_t d = next->demand;
    struct memplan_identity at = *id;
    const struct ledger_entry *failure;
    int64_t value = INT64_MAX;

    /* The newest that stands at some value; then what stands below that. */
    for (;;) {
        at.demands[d] = (struct memplan_demand){value, value};
        failure = ledger_find_failure(&next->entries, &at, NULL);
        if (!failure)
            return;
        next->failed = failure;
        value = failure->id.demands[d].high - 1;
    }
}

/* The largest value that ran, with no less of anything else, and below what failed. */
static void find_ran(struct next *next, const struct memplan_identity *id)
{
    const size_t d = next->demand;
    struct memplan_identity low = *id;

    low.demands[d] = (struct memplan_demand){0, 0};
    for (size_t i = 0; i < next->entries.count; i++) {
        const struct ledger_entry *entry = &next->entries.list[i];

        if (!entry->failed && memplan_identity_dominates(&entry->id, &low) &&
            (!next->failed || entry->id.demands[d].high < next->failed->id.demands[d].high) &&
            (!next->ran || entry->id.demands[d].low > next->ran->id.demands[d].low))
            next->ran = entry;
    }
}

/* What does the model say of what failed? Where it would have let that through, what it says of
 * less is worth little; else what it says of less is taken given that failure. */
static int check_model(struct next *next)
{
    struct next_point point = {.survival = -1};
    json_t *report = NULL;
    int code;

    if (!next->failed)
        return 0;
    point.value = next->failed->id.demands[next->demand].high;
    if ((code = set_value(next, point.value)) || (code = ask_model(next, &point, &report)))
        return code;
    next->contradicted = point.survival > 1 - SURELY;
    if (point.survival >= 0 && !next->contradicted)
        next->at_failed = report;
    else
        json_decref(report);
    return 0;
}

/* The neighbours low, which fits, and high, which does not, as multiples of the step. */
static int find_boundary(struct next *next, int64_t most)
{
    const int64_t step = next->step;
    struct next_point point;
    int64_t low = 0, high = most / step + 1, k = 1;
    int code;

    /* Twice as much as long as it fits. */
    for (; k < high; k *= 2) {
        if ((code = evaluate(next, k * step, &point)))
            return code;
        if (point.verdict != MEMPLAN_FITS) {
            next->fails = point;
            high = k;
            break;
        }
        next->fits = point;
        low = k;
    }
    while (high - low > 1 && low < most / step) {
        k = low + (high - low) / 2;
        if ((code = evaluate(next, k * step, &point)))
            return code;
        if (point.verdict == MEMPLAN_FITS) {
            next->fits = point;
            low = k;
        } else {
            next->fails = point;
            high = k;
        }
    }
    return 0;
}

/* The run whose outcome is least certain, between what is known to run and what is known not to. */
static int explore(struct next *next, int64_t most)
{
    const int64_t step = next->step;
    const int64_t ran = next->ran ? next->ran->id.demands[next->demand].low / step : 0;
    int64_t first = ran + 1, last = most / step, fits = next->fits.value / step;
    struct next_point point;
    int code;

    /* Far beyond the boundary every run fails: there the search ends. */
    if (last > 4 * (fits + 1))
        last = 4 * (fits + 1);
    for (int pass = 0; pass < 2 && first <= last; pass++) {
        const int64_t stride = (last - first) / CANDIDATES + 1;

        for (int64_t k = first; k <= last; k += stride) {
            if ((code = evaluate(next, k * step, &point)))
                return code;
            if (!point.refused && point.bits > next->proposal.bits)
                next->proposal = point;
        }
        if (stride == 1 || !next->proposal.value)
            break;
        first = next->proposal.value / step - stride + 1 > ran + 1
                    ? next->proposal.value / step - stride + 1
                    : ran + 1;
        last = next->proposal.value / step + stride - 1;
    }
    if (next->proposal.bits < entropy(SURELY))
        next->proposal = (struct next_point){0};
    return 0;
}

/* What fits by the model, or what ran already where that is more; what ran alone where the model
 * was wrong. */
static int choose_safe(struct next *next)
{
    const int64_t ran = next->ran ? next->ran->id.demands[next->demand].low : 0;

    if (!next->contradicted)
        next->proposal = next->fits;
    if (ran <= next->proposal.value)
        return 0;
    return evaluate(next, ran, &next->proposal);
}

/* Where the model was wrong, halfway between what ran and what failed. */
static int halve(struct next *next, int64_t most)
{
    const int64_t step = next->step;
    const int64_t ran = next->ran ? next->ran->id.demands[next->demand].low / step : 0;
    const int64_t half = ran + (most / step - ran + 1) / 2;
    int code;

    if (half <= ran || half > most / step)
        return 0;
    code = evaluate(next, half * step, &next->proposal);
    next->proposal.bits = 1;
    return code;
}

int next_search(struct next *next)
{
    struct memplan_identity id = {.size = sizeof(id)}, open;
    struct memplan_error err;
    int64_t most = MOST_VALUE;
    int code;

    if (memplan_plan_identity(next->plan, &id, &err))
        return message_error(&err, next->source);
    find_failed(next, &id);
    find_ran(next, &id);
    if (next->failed)
        most = next->failed->id.demands[next->demand].high - 1;
    /* Readings are told with their value of the field, whichever value is being tried. */
    open = id;
    open.demands[next->demand] = (struct memplan_demand){0, INT64_MAX};
    if (ledger_join(&next->entries, &open, next->plan, &err))
        return message_error(&err, next->source);
    if ((code = check_model(next)) || (code = find_boundary(next, most)))
        return code;
    if (!next->settings->explore)
        return choose_safe(next);
    return next->contradicted ? halve(next, most) : explore(next, most);
}
