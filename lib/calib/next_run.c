/* SPDX-License-Identifier: MIT */
/* Which further run would tell most: expected information of a reading of allocated at a length. */
#include "calib/next_run.h"

#include <math.h>
#include <string.h>

#include "verdict/correction.h"

#define GRAIN 128

/* The calibration as it would be applied. Other alternatives' are summed up the same way. */
static void sum_up(const struct mpl_calib_report *report, size_t a, struct mpl_correction *c)
{
    struct mpl_calibration calibration = {.term_count = report->term_count,
                                          .reserved_noise = report->reserved_noise};
    struct mpl_calibration_alternative one = {.weight = 1};

    memcpy(calibration.terms, report->terms, sizeof(calibration.terms));
    memcpy(one.value, report->fits[a].value, sizeof(one.value));
    memcpy(one.covariance, report->fits[a].covariance, sizeof(one.covariance));
    mpl_correction_sum(&calibration, &one, &report->estimate->alternatives[a].estimate,
                       (double)report->plan.training.sequence_length,
                       (double)report->plan.training.sequence_length *
                           (double)report->plan.training.micro_batch_size,
                       c);
}

/* The peak at a length, its parts grown by their orders. */
static double grown(const struct mpl_calib_report *report, size_t a, double tokens)
{
    const struct mpl_composition *c = &report->estimate->alternatives[a].estimate.composition;
    const double ratio = tokens / (double)report->plan.training.sequence_length;

    return (double)c->by_order[MPL_CONSTANT] + (double)c->by_order[MPL_LINEAR] * ratio +
           (double)c->by_order[MPL_QUADRATIC] * ratio * ratio;
}

static double quadratic(const struct mpl_correction *c, const double *x, const double *y)
{
    double sum = 0;

    for (int i = 0; i < MPL_DIRECTIONS; i++)
        for (int j = 0; j < MPL_DIRECTIONS; j++)
            sum += x[i] * c->covariance[i][j] * y[j];
    return sum;
}

static void gradient_at(const struct mpl_calib_report *report, const struct mpl_correction *c,
                        double tokens, double *gradient)
{
    const double allocated = grown(report, report->best, tokens);
    const struct mpl_correction_point p = {MPL_FIGURE_ALLOCATED, tokens, allocated, allocated, 0};

    mpl_correction_gradient(c, &p, gradient);
}

/* Variance of ln(allocated) between the alternatives that are left, each with its shift. */
static double between(const struct mpl_calib_report *report, double tokens)
{
    double mean = 0, square = 0;

    for (size_t a = 0; a < report->estimate->alternative_count; a++) {
        struct mpl_correction c;
        struct mpl_correction_point p = {MPL_FIGURE_ALLOCATED, tokens, grown(report, a, tokens), 0,
                                         0};
        double gradient[MPL_DIRECTIONS], value;

        if (!(report->weights[a] > 0))
            continue;
        sum_up(report, a, &c);
        mpl_correction_gradient(&c, &p, gradient);
        value = log(p.allocated);
        for (int i = 0; i < MPL_DIRECTIONS; i++)
            value += gradient[i] * c.mean[i];
        mean += report->weights[a] * value;
        square += report->weights[a] * value * value;
    }
    return fmax(square - mean * mean, 0);
}

/* Chance that one alternative survives at a length, by the end of its band grown. */
static double chance_of(const struct mpl_calib_report *report, size_t i, double tokens)
{
    const struct mpl_alternative *a = &report->estimate->alternatives[i];
    const double allocated = grown(report, i, tokens);
    const double gaps = (double)a->estimate.needs.high_bytes - (double)a->estimate.live_peak;
    const double ratio = tokens / (double)report->plan.training.sequence_length;
    struct mpl_survival_case judged = {.error = report->estimate->accuracy.unread};
    struct mpl_capacity capacity = a->capacity;
    struct mpl_correction c;

    sum_up(report, i, &c);
    c.low_tokens = report->low_tokens;
    c.high_tokens = report->high_tokens;
    mpl_correction_judge(&c, &report->estimate->accuracy, tokens, allocated, &capacity,
                         &judged.error);
    judged.capacity = &capacity;
    return mpl_survival_if_needs(&judged, allocated + gaps * fmax(ratio, 1));
}

/* The same over all that are left; -1 without a card. */
static double chance(const struct mpl_calib_report *report, double tokens)
{
    double sum = 0;

    if (report->estimate->alternatives[report->best].capacity.state != MPL_CAPACITY_KNOWN)
        return -1;
    for (size_t i = 0; i < report->estimate->alternative_count; i++)
        if (report->weights[i] > 0)
            sum += report->weights[i] * chance_of(report, i, tokens);
    return sum;
}

static void insert(struct mpl_calib_report *report, struct mpl_calib_run run)
{
    uint32_t at =
        report->run_count < MPL_CALIB_MOST_RUNS ? report->run_count++ : MPL_CALIB_MOST_RUNS - 1;

    for (; at > 0 && report->runs[at - 1].bits < run.bits; at--)
        report->runs[at] = report->runs[at - 1];
    report->runs[at] = run;
}

static void consider(struct mpl_calib_report *report, const struct mpl_correction *c, double tokens,
                     double risk)
{
    const double noise = mpl_accuracy_of(&report->plan)->floor, variance = noise * noise;
    double here[MPL_DIRECTIONS], there[MPL_DIRECTIONS], own, across, target;
    struct mpl_calib_run run = {.tokens = (int64_t)tokens};

    run.survival = chance(report, tokens);
    if (run.survival >= 0 && run.survival < 1 - risk)
        return;
    gradient_at(report, c, tokens, here);
    gradient_at(report, c, (double)report->plan.training.sequence_length, there);
    own = quadratic(c, here, here);
    across = quadratic(c, here, there);
    target = quadratic(c, there, there) - across * across / (own + variance);
    run.bits = 0.5 * log2(1 + (own + between(report, tokens)) / variance);
    run.deviation = sqrt(fmax(target, 0) + variance);
    insert(report, run);
}

/* From half of the shortest length at hand to four times the longest, by factors of the root of 2,
 * on the grain. */
void mpl_calib_next_run(struct mpl_calib_report *report, double risk)
{
    const double plan = (double)report->plan.training.sequence_length;
    double low = plan, high = plan, there[MPL_DIRECTIONS];
    struct mpl_correction c;

    if (report->low_tokens > 0) {
        low = fmin(low, report->low_tokens);
        high = fmax(high, report->high_tokens);
    }
    sum_up(report, report->best, &c);
    c.low_tokens = report->low_tokens;
    c.high_tokens = report->high_tokens;
    gradient_at(report, &c, plan, there);
    report->deviation_before =
        hypot(sqrt(fmax(quadratic(&c, there, there), 0)), mpl_accuracy_of(&report->plan)->floor);
    for (double tokens = low / 2; tokens <= high * 4.001; tokens *= sqrt(2.0)) {
        const double grained = fmax(floor(tokens / GRAIN + 0.5), 1) * GRAIN;

        consider(report, &c, grained, risk);
    }
}
