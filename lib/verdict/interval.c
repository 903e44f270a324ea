/* SPDX-License-Identifier: MIT */
/* How wrong a figure of a report may be: errors of measured points around what is left open. */
#include "verdict/interval.h"

#include <math.h>
#include <string.h>

const char *mpl_figure_name(enum mpl_figure figure)
{
    static const char *const names[MPL_FIGURE_COUNT] = {"allocated", "reserved", "needs", "device"};

    return names[figure];
}

enum mpl_openness mpl_interval_openness(const struct mpl_plan *plan, const struct mpl_notes *notes)
{
    static const char releases[] = "software.";

    if (!strcmp(plan->model.model_type, "eagle3"))
        return MPL_OPEN_DRAFTER;
    for (uint32_t i = 0; i < notes->count; i++)
        if (notes->notes[i].kind == MPL_NOTE_ASSUMED || notes->notes[i].kind == MPL_NOTE_OWN_CODE ||
            (notes->notes[i].kind == MPL_NOTE_DEFAULT &&
             !strncmp(notes->notes[i].path, releases, sizeof(releases) - 1)))
            return MPL_OPEN_RELEASES;
    return MPL_OPEN_NOTHING;
}

/* What one alternative says, in bytes: both ends where the figure is a band. */
static void ends_of(const struct mpl_alternative *a, enum mpl_figure figure, double *low,
                    double *high)
{
    const struct mpl_capacity *c = &a->capacity;
    const double reserved = (double)a->estimate.unlimited.reserved_peak;

    *low = *high = reserved;
    if (figure == MPL_FIGURE_ALLOCATED) {
        *low = *high = (double)a->estimate.unlimited.allocated_peak;
    } else if (figure == MPL_FIGURE_NEEDS) {
        *low = (double)a->estimate.needs.low_bytes;
        *high = (double)a->estimate.needs.high_bytes;
    } else if (figure == MPL_FIGURE_DEVICE) {
        const double taken = (double)mpl_capacity_taken(c);

        *low += taken - ((double)c->context.expected_bytes - (double)c->context.low_bytes) -
                ((double)c->nccl.expected_bytes - (double)c->nccl.low_bytes);
        *high += taken + ((double)c->context.high_bytes - (double)c->context.expected_bytes) +
                 ((double)c->nccl.high_bytes - (double)c->nccl.expected_bytes);
    }
}

double mpl_interval_shift(const struct memplan_report *report, const struct mpl_alternative *a,
                          enum mpl_figure figure, double *deviation)
{
    const struct mpl_accuracy *accuracy = mpl_accuracy_of(&report->plan);
    const double spread = mpl_accuracy_spread(figure, report->openness)->deviation;
    const struct mpl_correction_point p = {figure, (double)report->plan.training.sequence_length,
                                           (double)a->estimate.unlimited.allocated_peak,
                                           (double)a->estimate.unlimited.reserved_peak,
                                           (double)mpl_capacity_taken(&a->capacity)};

    if (!a->correction.is_known) {
        double surprise;
        const double shift = mpl_correction_surprise(&a->correction, &surprise);

        *deviation = figure == MPL_FIGURE_NEEDS
                         ? a->error /* has the spread in it where there is no reading */
                         : hypot(mpl_accuracy_error(accuracy, report->plan.training.sequence_length,
                                                    report->farthest_reading),
                                 spread);
        return figure == MPL_FIGURE_NEEDS ? shift : 0;
    }
    return mpl_correction_shift(&a->correction, accuracy, hypot(accuracy->unread, spread), &p,
                                deviation);
}

/* Share of the alternatives' distributions, by weight, that lies below (or above) ln(bytes). */
static double share_beyond(const struct memplan_report *report, enum mpl_figure figure,
                           double log_bytes, bool is_low)
{
    const struct mpl_spread *spread = mpl_accuracy_spread(figure, report->openness);
    const double stretch = mpl_accuracy_quantile(spread->points) / mpl_accuracy_quantile(0);
    double share = 0;

    for (size_t i = 0; i < report->alternative_count; i++) {
        const struct mpl_alternative *a = &report->alternatives[i];
        double low, high, deviation, shift, z;

        if (a->is_excluded)
            continue;
        ends_of(a, figure, &low, &high);
        shift = mpl_interval_shift(report, a, figure, &deviation);
        z = (log_bytes - log(is_low ? low : high) - shift) / (deviation * stretch);
        share += a->weight * 0.5 * erfc((is_low ? -z : z) / sqrt(2.0));
    }
    return share;
}

/* Where the share beyond is what an interval leaves out on one side. */
static double find_end(const struct memplan_report *report, enum mpl_figure figure, double low,
                       double high, bool is_low)
{
    low = log(low);
    high = log(high);
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        const bool is_less =
            share_beyond(report, figure, middle, is_low) < (1 - MPL_INTERVAL_COVERAGE) / 2;

        if (is_less == is_low)
            low = middle;
        else
            high = middle;
    }
    return exp(is_low ? low : high);
}

struct mpl_interval mpl_interval_of(const struct memplan_report *report, enum mpl_figure figure)
{
    const struct mpl_spread *spread = mpl_accuracy_spread(figure, report->openness);
    double low = HUGE_VAL, high = 0, widest = 0, margin;

    for (size_t i = 0; i < report->alternative_count; i++) {
        const struct mpl_alternative *a = &report->alternatives[i];
        double a_low, a_high, deviation, factor;

        if (a->is_excluded)
            continue;
        ends_of(a, figure, &a_low, &a_high);
        factor = exp(mpl_interval_shift(report, a, figure, &deviation));
        low = fmin(low, a_low * factor);
        high = fmax(high, a_high * factor);
        widest = fmax(widest, deviation);
    }
    margin = exp(mpl_accuracy_quantile(spread->points) * widest);
    low /= margin;
    high *= margin;
    /* Weights that readings gave say more than the span does. */
    if (report->is_calibrated) {
        const double end = find_end(report, figure, low, high, true);

        high = find_end(report, figure, low, high, false);
        low = end;
    }
    return (struct mpl_interval){(uint64_t)low, (uint64_t)fmin(high, 0x1p62), widest, spread};
}
