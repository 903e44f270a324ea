/* SPDX-License-Identifier: MIT */
/* What readings cannot tell, and why one is not used. */
#include "calib/explain.h"

#include <math.h>
#include <stdio.h>

#include "verdict/readings.h"

/* What people confuse, and how many times the number then is what was meant. */
static const struct {
    const char *words;
    double times;
} confused[] = {
    {"GB for GiB", 1.073741824},
    {"GiB for GB", 1 / 1.073741824},
    {"MiB for GiB", 1024},
    {"MB for GB", 1000},
    {"MiB for GB", 1e9 / 1048576},
    {"GiB for MiB", 1.0 / 1024},
    {"GB for MB", 1e-3},
    {"GB for MiB", 1048576 / 1e9},
    {"bytes for GB", 1e9},
    {"bytes for GiB", 1073741824.0},
    {"bytes for MiB", 1048576},
    {"GB for bytes", 1e-9},
    {"GiB for bytes", 1 / 1073741824.0},
    {"bits for bytes", 1 / 8.0},
    {"the quantity alone", 1},
};

/* Within this many deviations a reading taken in another way agrees. */
#define AGREES 2.0

/* The confusion of units, and the quantity, that would bring a number nearest; nothing when none
 * brings it near. */
static void find_agreement(const struct mpl_calib_report *report,
                           const struct mpl_calib_problem *problem, const struct mpl_calib_fit *fit,
                           const struct mpl_calib_parts *parts, uint32_t i, char *text, size_t size)
{
    const double base[] = {0, parts->allocated, parts->reserved, parts->reserved + parts->taken};
    double nearest = AGREES;

    for (int metric = MPL_METRIC_ALLOCATED; metric <= MPL_METRIC_DEVICE; metric++)
        for (size_t u = 0; u < sizeof(confused) / sizeof(confused[0]); u++) {
            struct mpl_calib_reading r = problem->reading[i];
            double distance, deviation;

            r.base = base[metric];
            r.read *= confused[u].times;
            mpl_calib_slopes(report, parts, (enum mpl_metric)metric, r.slope);
            distance = mpl_calib_distance(problem, fit, &r);
            if (distance >= nearest)
                continue;
            nearest = distance;
            snprintf(text, size, "; were %s confused, and it is %s memory, it would be %.1f %% off",
                     confused[u].words, mpl_metric_name((enum mpl_metric)metric),
                     100 * fabs(expm1(log(r.base / r.read) +
                                      mpl_calib_shift(problem, fit, &r, &deviation))));
        }
}

void mpl_calib_explain(struct mpl_calib_report *report, const struct mpl_calib_problem *problem,
                       const struct mpl_calib_fit *fit, const struct mpl_calib_parts *parts,
                       uint32_t i)
{
    const struct mpl_observation *o = &report->plan.observations[i];
    struct mpl_calib_result *result = &report->results[i];
    const double distance = mpl_calib_distance(problem, fit, &problem->reading[i]);
    const char *against = distance > result->distance ? "beside the other readings" : "by itself";
    char hint[128] = "";

    result->use = MPL_CALIB_CONTRADICTS;
    if (o->outcome != MPL_OUTCOME_NUMBER) {
        snprintf(result->why, sizeof(result->why),
                 "%s, though %.1f GiB are needed of %.1f GiB: %.1f deviations off",
                 o->outcome == MPL_OUTCOME_RAN ? "it ran" : "it died",
                 result->corrected_bytes / MPL_GIB, result->read_bytes / MPL_GIB,
                 fmax(distance, result->distance));
        return;
    }
    find_agreement(report, problem, fit, parts, i, hint, sizeof(hint));
    snprintf(result->why, sizeof(result->why),
             "%+.1f %% from the prediction, %.1f deviations of what corrections may be, %s%s",
             100 * (result->read_bytes / result->predicted_bytes - 1),
             fmax(distance, result->distance), against, hint);
}

/* Slopes of two terms over the readings that were used point the same way. */
#define ALIKE 0.999

static double product(const struct mpl_calib_problem *p, uint32_t k, uint32_t j)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->readings; i++)
        if (!p->reading[i].is_left_out)
            sum += p->reading[i].slope[k] * p->reading[i].slope[j];
    return sum;
}

void mpl_calib_group(struct mpl_calib_report *report, const struct mpl_calib_problem *p)
{
    int groups = 0;

    for (uint32_t k = 0; k < p->terms; k++) {
        const double own = product(p, k, k);

        report->group[k] = -1;
        for (uint32_t j = 0; j < k && own > 0 && report->group[k] < 0; j++)
            if (report->group[j] >= 0 && product(p, k, j) >= ALIKE * sqrt(own * product(p, j, j)))
                report->group[k] = report->group[j];
        if (own > 0 && report->group[k] < 0)
            report->group[k] = groups++;
    }
}

double mpl_calib_told(const struct mpl_calib_report *report, uint32_t term)
{
    return fmax(1 - report->fits[report->best].covariance[term][term], 0);
}

void mpl_calib_group_deviation(const struct mpl_calib_report *report, int group, double *before,
                               double *after)
{
    const struct mpl_calib_fit *fit = &report->fits[report->best];
    const struct mpl_alternative *a = &report->estimate->alternatives[report->best];
    struct mpl_calib_parts parts;
    double slope[MPL_CALIBRATION_MOST_TERMS], prior = 0, posterior = 0;

    mpl_calib_parts_of(&a->estimate, &a->capacity, &report->plan, &parts);
    mpl_calib_slopes(report, &parts, MPL_METRIC_DEVICE, slope);
    for (uint32_t k = 0; k < report->term_count; k++)
        for (uint32_t j = 0; j < report->term_count && report->group[k] == group; j++)
            if (report->group[j] == group) {
                prior += k == j ? slope[k] * slope[k] : 0;
                posterior += slope[k] * fit->covariance[k][j] * slope[j];
            }
    *before = sqrt(prior);
    *after = sqrt(fmax(posterior, 0));
}
