/* SPDX-License-Identifier: MIT */
/* The terms of a calibration: what may be wrong, and by how much before anything was read. */
#include "calib/terms.h"

#include <math.h>
#include <string.h>

#include "verdict/interval.h"

#define LEAST_SHARE 0.002 /* of the peak: smaller parts are left to what is not modelled */

/*
 * Weights of the priors, which are scaled until together they allow the error of the table of
 * measured points. States are a quarter: their sizes are exact in every recorded run, and what a
 * plan may get wrong of them are its fields. What is not modelled at all is a quarter too, of the
 * whole peak. Both are planning values; the scale is measured.
 */
#define STATE_WEIGHT       0.25
#define NOT_MODELLED_SHARE 0.25

static double weight_of(enum mpl_category category)
{
    switch (category) {
    case MPL_CATEGORY_PARAMETERS:
    case MPL_CATEGORY_BUFFERS:
    case MPL_CATEGORY_GRADIENTS:
    case MPL_CATEGORY_OPTIMIZER_STATE:
        return STATE_WEIGHT;
    default:
        return 1;
    }
}

void mpl_calib_parts_of(const struct mpl_estimate *e, const struct mpl_capacity *c,
                        const struct mpl_plan *plan, struct mpl_calib_parts *parts)
{
    *parts = (struct mpl_calib_parts){
        .allocated = (double)e->unlimited.allocated_peak,
        .reserved = (double)e->unlimited.reserved_peak,
        .taken = (double)mpl_capacity_taken(c),
        .needs_low = (double)e->needs.low_bytes,
        .needs_high = (double)e->needs.high_bytes,
        .tokens = (double)plan->training.sequence_length,
        .all_tokens =
            (double)plan->training.sequence_length * (double)plan->training.micro_batch_size,
    };
    for (int category = 0; category < MPL_CATEGORY_COUNT; category++)
        for (int order = 0; order < MPL_ORDER_COUNT; order++)
            parts->both[category][order] = (double)e->composition.by_both[category][order];
    if (c->state == MPL_CAPACITY_KNOWN) {
        parts->usable = (double)c->usable_bytes;
        parts->usable_spread = c->spread_bytes;
    }
}

/* Bytes of allocated that a term stands for; 0: it moves other figures. */
static double bytes_of(const struct mpl_calibration_term *term, const struct mpl_calib_parts *parts)
{
    switch (term->kind) {
    case MPL_TERM_PART:
        return parts->both[term->category][term->order];
    case MPL_TERM_CONSTANT:
        return term->bytes;
    case MPL_TERM_TOKENS:
        return term->bytes * parts->all_tokens / term->tokens;
    default:
        return 0;
    }
}

void mpl_calib_slopes(const struct mpl_calib_report *report, const struct mpl_calib_parts *parts,
                      enum mpl_metric metric, double *slope)
{
    const double device = parts->reserved + parts->taken;
    const double share = metric == MPL_METRIC_DEVICE ? parts->reserved / device : 1;

    for (uint32_t k = 0; k < report->term_count; k++) {
        const struct mpl_calibration_term *term = &report->terms[k];

        slope[k] = share * term->prior * bytes_of(term, parts) / parts->allocated;
        if (term->kind == MPL_TERM_ALLOCATOR && metric != MPL_METRIC_ALLOCATED)
            slope[k] = share * term->prior;
        if (term->kind == MPL_TERM_OUTSIDE && metric == MPL_METRIC_DEVICE)
            slope[k] = term->prior * term->bytes / device;
    }
}

static void add(struct mpl_calib_report *report, struct mpl_calibration_term term)
{
    if (report->term_count < MPL_CALIBRATION_MOST_TERMS)
        report->terms[report->term_count++] = term;
}

static bool is_large(const struct mpl_calib_parts *parts, int category, int order)
{
    return parts->both[category][order] > LEAST_SHARE * parts->allocated;
}

/* Parts that are large in the plan or in a reading, with the weights as priors. */
static void list_terms(struct mpl_calib_report *report, const struct mpl_calib_parts *plan,
                       const struct mpl_calib_parts *readings, size_t count)
{
    for (int category = 0; category < MPL_CATEGORY_COUNT; category++)
        for (int order = 0; order < MPL_ORDER_COUNT; order++) {
            bool is_listed = is_large(plan, category, order);

            for (size_t i = 0; i < count; i++)
                is_listed |= is_large(&readings[i], category, order);
            if (is_listed)
                add(report,
                    (struct mpl_calibration_term){MPL_TERM_PART, category, order,
                                                  weight_of((enum mpl_category)category), 0, 0});
        }
    add(report, (struct mpl_calibration_term){MPL_TERM_CONSTANT, 0, 0, NOT_MODELLED_SHARE,
                                              plan->allocated, 0});
    add(report, (struct mpl_calibration_term){MPL_TERM_TOKENS, 0, 0, NOT_MODELLED_SHARE,
                                              plan->allocated, plan->all_tokens});
}

static double deviation_of(const struct mpl_calib_report *report,
                           const struct mpl_calib_parts *parts)
{
    double slope[MPL_CALIBRATION_MOST_TERMS], squares = 0;

    mpl_calib_slopes(report, parts, MPL_METRIC_ALLOCATED, slope);
    for (uint32_t k = 0; k < report->term_count; k++)
        squares += slope[k] * slope[k];
    return sqrt(squares);
}

/* Variance that reserved has and allocated has not: of points that say their releases, since where
 * something is open it moves both, and hides what is the allocator's alone. */
static double reserved_beyond(enum mpl_openness open)
{
    const enum mpl_openness row = open == MPL_OPEN_DRAFTER ? open : MPL_OPEN_NOTHING;
    const double reserved = mpl_accuracy_spread(MPL_FIGURE_RESERVED, row)->deviation;
    const double allocated = mpl_accuracy_spread(MPL_FIGURE_ALLOCATED, row)->deviation;

    return fmax(reserved * reserved - allocated * allocated, 0);
}

void mpl_calib_make_terms(struct mpl_calib_report *report, const struct mpl_calib_parts *plan,
                          const struct mpl_calib_parts *readings, size_t count)
{
    const struct mpl_accuracy *accuracy = mpl_accuracy_of(&report->plan);
    const enum mpl_openness open = report->estimate->openness;
    const double allocated = mpl_accuracy_spread(MPL_FIGURE_ALLOCATED, open)->deviation;
    const double beyond = reserved_beyond(open);
    double least;

    /* The table's errors hold the part that no correction explains. */
    report->prior_deviation =
        sqrt(fmax(accuracy->unread * accuracy->unread - accuracy->floor * accuracy->floor, 0) +
             allocated * allocated);
    list_terms(report, plan, readings, count);
    least = deviation_of(report, plan);
    for (size_t i = 0; i < count; i++)
        least = fmin(least, deviation_of(report, &readings[i]));
    for (uint32_t k = 0; k < report->term_count; k++)
        report->terms[k].prior *= report->prior_deviation / least;
    /* Of what reserved scatters more than allocated, half the variance is taken to be the set-up's
     * and half the run's own: a planning value. */
    report->reserved_noise = sqrt(beyond / 2);
    add(report, (struct mpl_calibration_term){MPL_TERM_ALLOCATOR, 0, 0, sqrt(beyond / 2), 0, 0});
    if (plan->usable_spread > 0)
        add(report,
            (struct mpl_calibration_term){MPL_TERM_OUTSIDE, 0, 0, 1, plan->usable_spread, 0});
}
