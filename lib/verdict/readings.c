/* SPDX-License-Identifier: MIT */
/* Stage "readings": what was measured tells the alternatives apart. */
#include "verdict/readings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

static const struct {
    enum mpl_metric metric;
    const char *name;
} metric_table[] = {
    {MPL_METRIC_ALLOCATED, "allocated"},
    {MPL_METRIC_RESERVED, "reserved"},
    {MPL_METRIC_DEVICE, "device"},
};

static const struct {
    enum mpl_unit unit;
    const char *name;
    double bytes;
} unit_table[] = {
    {MPL_UNIT_BYTES, "bytes", 1},
    {MPL_UNIT_GB, "GB", 1e9},
    {MPL_UNIT_GIB, "GiB", 1073741824.0},
};

#define METRICS (sizeof(metric_table) / sizeof(metric_table[0]))
#define UNITS   (sizeof(unit_table) / sizeof(unit_table[0]))

const char *mpl_metric_name(enum mpl_metric metric)
{
    for (size_t i = 0; i < METRICS; i++)
        if (metric_table[i].metric == metric)
            return metric_table[i].name;
    return "unknown";
}

const char *mpl_unit_name(enum mpl_unit unit)
{
    for (size_t i = 0; i < UNITS; i++)
        if (unit_table[i].unit == unit)
            return unit_table[i].name;
    return "unknown";
}

double mpl_reading_bytes(double value, enum mpl_unit unit)
{
    for (size_t i = 0; i < UNITS; i++)
        if (unit_table[i].unit == unit)
            return value * unit_table[i].bytes;
    return value;
}

uint64_t mpl_prediction_bytes(const struct mpl_prediction *prediction, enum mpl_metric metric)
{
    switch (metric) {
    case MPL_METRIC_RESERVED:
        return prediction->reserved_bytes;
    case MPL_METRIC_DEVICE:
        return prediction->device_bytes;
    default:
        return prediction->allocated_bytes;
    }
}

static bool is_number(const struct mpl_observation *observation)
{
    return observation->outcome == MPL_OUTCOME_NUMBER;
}

/* ---- weights ----------------------------------------------------------------------------------
 */

/* Hypotheses that every number allows: one quantity and one unit for all of them. */
static void find_hypotheses(struct memplan_report *report)
{
    for (size_t m = 0; m < METRICS; m++)
        for (size_t u = 0; u < UNITS; u++) {
            bool allowed = false, forbidden = false;

            for (uint32_t i = 0; i < report->plan.observation_count; i++) {
                const struct mpl_observation *o = &report->plan.observations[i];

                if (!is_number(o))
                    continue;
                if (o->metrics & (1u << metric_table[m].metric) &&
                    o->units & (1u << unit_table[u].unit))
                    allowed = true;
                else
                    forbidden = true;
            }
            if (allowed && !forbidden && report->hypothesis_count < MPL_MAX_HYPOTHESES)
                report->hypotheses[report->hypothesis_count++] = (struct mpl_hypothesis){
                    metric_table[m].metric, unit_table[u].unit, 0, HUGE_VAL, false};
        }
}

/* The one way to read number i when readings do not share one: its own only or first choice. */
static struct mpl_hypothesis own_reading(const struct mpl_observation *o)
{
    struct mpl_hypothesis own = {MPL_METRIC_ALLOCATED, MPL_UNIT_BYTES, 0, HUGE_VAL, false};

    for (size_t m = METRICS; m-- > 0;)
        if (o->metrics & (1u << metric_table[m].metric))
            own.metric = metric_table[m].metric;
    for (size_t u = UNITS; u-- > 0;)
        if (o->units & (1u << unit_table[u].unit))
            own.unit = unit_table[u].unit;
    return own;
}

/* Predicted over read, minus one. */
static double difference(const struct mpl_observation *o, const struct mpl_prediction *p,
                         const struct mpl_hypothesis *h)
{
    const struct mpl_hypothesis own = h ? *h : own_reading(o);

    return (double)mpl_prediction_bytes(p, own.metric) / mpl_reading_bytes(o->value, own.unit) - 1;
}

/* How far a number may lie from a right prediction: memplan's own error, and its rounding. */
static double tolerance(const struct memplan_report *report, const struct mpl_observation *o)
{
    const double rounding = o->value > 0 ? o->resolution / o->value / sqrt(12.0) : 0;

    return hypot(mpl_accuracy_of(&report->plan)->floor, rounding);
}

/* Chances of outcomes are kept away from 0: a model may be wrong in ways it does not know. */
#define LEAST_CHANCE 1e-4

static double log_chance(double chance)
{
    return log(chance < LEAST_CHANCE ? LEAST_CHANCE : chance);
}

/* Log-likelihood of all readings under one alternative and one way to read the numbers (NULL: each
 * its own). *worst_out is the largest difference in numbers, *at_out its reading. */
static double log_likelihood(const struct memplan_report *report,
                             const struct mpl_alternative *alternative,
                             const struct mpl_hypothesis *h, double *worst_out, uint32_t *at_out)
{
    double sum = 0;

    *worst_out = 0;
    *at_out = 0;
    for (uint32_t i = 0; i < report->plan.observation_count; i++) {
        const struct mpl_observation *o = &report->plan.observations[i];
        const struct mpl_prediction *p = &alternative->predictions[i];

        if (is_number(o)) {
            const double d = difference(o, p, h), z = log1p(d) / tolerance(report, o);

            sum -= z * z / 2;
            if (fabs(d) > fabs(*worst_out)) {
                *worst_out = d;
                *at_out = i;
            }
        } else if (p->survival >= 0) {
            sum += log_chance(o->outcome == MPL_OUTCOME_RAN ? p->survival : 1 - p->survival);
        }
    }
    return sum;
}

static void name_reading(const struct mpl_observation *o, char *text, size_t size)
{
    if (is_number(o))
        snprintf(text, size, "%g at %lld tokens", o->value, (long long)o->sequence_length);
    else
        snprintf(text, size, "%s at %lld tokens",
                 o->outcome == MPL_OUTCOME_RAN ? "ran" : "out of memory",
                 (long long)o->sequence_length);
}

/* Says which reading excludes an alternative: its farthest number, or an outcome. */
static void say_why(const struct memplan_report *report, struct mpl_alternative *a,
                    const struct mpl_hypothesis *h)
{
    double worst;
    uint32_t at;
    char reading[64];
    const struct mpl_observation *o;

    log_likelihood(report, a, h, &worst, &at);
    for (uint32_t i = 0; i < report->plan.observation_count; i++) {
        const double s = a->predictions[i].survival;

        o = &report->plan.observations[i];
        if (is_number(o) || s < 0)
            continue;
        if ((o->outcome == MPL_OUTCOME_RAN ? s : 1 - s) >= 0.01)
            continue;
        name_reading(o, reading, sizeof(reading));
        snprintf(a->excluded_by, sizeof(a->excluded_by),
                 "reading %u (%s): it would have survived with a chance of %.2g", i + 1, reading,
                 s);
        return;
    }
    o = &report->plan.observations[at];
    name_reading(o, reading, sizeof(reading));
    snprintf(
        a->excluded_by, sizeof(a->excluded_by), "reading %u (%s): %.2f GB %s predicted, %.1f %% %s",
        at + 1, reading,
        (double)mpl_prediction_bytes(&a->predictions[at], h ? h->metric : own_reading(o).metric) /
            1e9,
        mpl_metric_name(h ? h->metric : own_reading(o).metric), fabs(worst) * 100,
        worst > 0 ? "above" : "below");
}

/* Normal tail that no single reading should reach under a right model: 1 in 15,000. */
#define CONTRADICTION 4.0

struct table {
    double *log_likelihoods; /* alternatives x ways */
    uint32_t ways;
    double best;
};

static const struct mpl_hypothesis *way(const struct memplan_report *report, uint32_t h)
{
    return report->hypothesis_count ? &report->hypotheses[h] : NULL;
}

static void fill_table(struct memplan_report *report, struct table *table)
{
    table->best = -HUGE_VAL;
    for (size_t a = 0; a < report->alternative_count; a++)
        for (uint32_t h = 0; h < table->ways; h++) {
            double worst, *cell = &table->log_likelihoods[a * table->ways + h];
            uint32_t at;

            *cell = log_likelihood(report, &report->alternatives[a], way(report, h), &worst, &at);
            if (*cell > table->best)
                table->best = *cell;
            if (report->hypothesis_count && fabs(worst) < fabs(report->hypotheses[h].nearest))
                report->hypotheses[h].nearest = worst;
        }
}

/* Relative likelihoods; cells too unlikely are dropped, and what has no cell left is excluded. */
static void share_weights(struct memplan_report *report, const struct table *table)
{
    double total = 0;

    for (size_t a = 0; a < report->alternative_count; a++)
        report->alternatives[a].weight = 0;
    for (size_t a = 0; a < report->alternative_count; a++)
        for (uint32_t h = 0; h < table->ways; h++) {
            const double ratio = exp(table->log_likelihoods[a * table->ways + h] - table->best);

            if (ratio * MPL_EXCLUSION_RATIO < 1)
                continue;
            report->alternatives[a].weight += ratio;
            if (report->hypothesis_count)
                report->hypotheses[h].weight += ratio;
            total += ratio;
        }
    for (size_t a = 0; a < report->alternative_count; a++) {
        report->alternatives[a].weight /= total;
        report->alternatives[a].is_excluded = report->alternatives[a].weight <= 0;
    }
    for (uint32_t h = 0; h < report->hypothesis_count; h++) {
        report->hypotheses[h].weight /= total;
        report->hypotheses[h].is_excluded = report->hypotheses[h].weight <= 0;
    }
}

static void explain_exclusions(struct memplan_report *report)
{
    const struct mpl_hypothesis *likely = NULL;

    for (uint32_t h = 0; h < report->hypothesis_count; h++)
        if (!likely || report->hypotheses[h].weight > likely->weight)
            likely = &report->hypotheses[h];
    for (size_t a = 0; a < report->alternative_count; a++)
        if (report->alternatives[a].is_excluded)
            say_why(report, &report->alternatives[a], likely);
}

static bool has_numbers(const struct memplan_report *report)
{
    for (uint32_t i = 0; i < report->plan.observation_count; i++)
        if (is_number(&report->plan.observations[i]))
            return true;
    return false;
}

enum memplan_status mpl_readings_weigh(struct memplan_report *report, struct memplan_error *err)
{
    struct table table = {0};

    if (has_numbers(report))
        find_hypotheses(report);
    table.ways = report->hypothesis_count ? report->hypothesis_count : 1;
    table.log_likelihoods = mpl_arena_alloc(&report->arena, report->alternative_count * table.ways *
                                                                sizeof(*table.log_likelihoods));
    if (!table.log_likelihoods)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while weighing readings");
    fill_table(report, &table);
    report->readings_contradict =
        table.best < -CONTRADICTION * CONTRADICTION / 2 * report->plan.observation_count;
    share_weights(report, &table);
    explain_exclusions(report);
    return MEMPLAN_OK;
}
