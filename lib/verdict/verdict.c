/* SPDX-License-Identifier: MIT */
/* Stage "verdict": fits, does not fit, inside the margin, cannot tell. */
#include "verdict/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict/interval.h"

/* Below this chance a run is said not to fit; between here and 1 - risk it is inside the margin. */
#define EVEN_CHANCE 0.5

static double gib(double bytes)
{
    return bytes / (double)MPL_GIB;
}

enum memplan_verdict mpl_verdict_of(double survival, double risk)
{
    if (survival < 0)
        return MEMPLAN_CANNOT_TELL;
    if (survival > 1 - risk)
        return MEMPLAN_FITS;
    return survival < EVEN_CHANCE ? MEMPLAN_DOES_NOT_FIT : MEMPLAN_INSIDE_MARGIN;
}

/* Lowest and highest end of the bands that are left; without bands, of what is allocated. */
static void span_of_needs(const struct memplan_report *report, double *low, double *high)
{
    const bool has_needs = !report->has_peaks_only;

    *low = *high = -1;
    for (size_t a = 0; a < report->alternative_count; a++) {
        const struct mpl_alternative *alternative = &report->alternatives[a];
        const struct mpl_estimate *e = &alternative->estimate;
        const uint64_t allocated = e->unlimited.allocated_peak;

        if (alternative->is_excluded)
            continue;
        *low =
            fmin(*low < 0 ? INFINITY : *low, (double)(has_needs ? e->needs.low_bytes : allocated));
        *high = fmax(*high, (double)(has_needs ? e->needs.high_bytes : allocated));
    }
}

static const char *opening(enum memplan_verdict verdict)
{
    switch (verdict) {
    case MEMPLAN_FITS:
        return "It fits";
    case MEMPLAN_DOES_NOT_FIT:
        return "It does not fit";
    default:
        return "It may or may not fit";
    }
}

static void append(struct memplan_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One more sentence of the reason. */
static void append(struct memplan_report *report, const char *format, ...)
{
    const size_t used = strlen(report->reason);
    va_list args;

    va_start(args, format);
    vsnprintf(report->reason + used, sizeof(report->reason) - used, format, args);
    va_end(args);
}

/* How the calibration moved it; the physics above stays what it is. */
static void explain_calibration(struct memplan_report *report)
{
    const struct mpl_alternative *a = &report->alternatives[report->best];
    const struct mpl_correction *c = &a->correction;
    const double tokens = (double)report->plan.training.sequence_length;
    const bool is_inside = !c->is_outside && tokens >= c->low_tokens && tokens <= c->high_tokens;
    double deviation;
    const double shift = mpl_interval_shift(report, a, MPL_FIGURE_NEEDS, &deviation);

    append(report, " The calibration moves needs by %+.1f %%, give or take %.1f %%%s.",
           100 * expm1(shift), 100 * deviation,
           is_inside ? ""
                     : "; this plan lies outside of its readings, so that the interval is "
                       "wider and nothing is taken off");
}

/* What would narrow a margin that is wide because the plan says little. */
static void explain_openness(struct memplan_report *report)
{
    append(report,
           " Releases or code that are left open widen the margin by %.1f %%; releases that are "
           "written (software), or readings, narrow it.",
           100 * mpl_accuracy_spread(MPL_FIGURE_NEEDS, report->openness)->deviation);
}

/* What a failure that was not foreseen says of this plan. */
static void explain_surprise(struct memplan_report *report)
{
    const struct mpl_correction *c = &report->alternatives[report->best].correction;
    double deviation;
    const double shift = mpl_correction_surprise(c, &deviation);

    append(report,
           " A run that ran out of memory should have had %.1f %% to spare: needs are taken to be "
           "%.1f %% higher, give or take %.1f %%.",
           100 * expm1(c->surprise), 100 * expm1(shift), 100 * deviation);
}

static void explain(struct memplan_report *report)
{
    const struct mpl_capacity *c = &report->alternatives[report->best].capacity;
    double low, high;
    char chance[32], needs[64];

    span_of_needs(report, &low, &high);
    if (report->survival > 0.9995)
        snprintf(chance, sizeof(chance), "above 99.9 %%");
    else if (report->survival < 0.0005)
        snprintf(chance, sizeof(chance), "below 0.1 %%");
    else
        snprintf(chance, sizeof(chance), "%.1f %%", report->survival * 100);
    if (gib(high) - gib(low) < 0.05)
        snprintf(needs, sizeof(needs), "%.1f GiB", gib(high));
    else
        snprintf(needs, sizeof(needs), "%.1f to %.1f GiB", gib(low), gib(high));
    snprintf(report->reason, sizeof(report->reason),
             "%s: PyTorch's allocator %s %s%s, the card can give it about %.1f GiB; the chance "
             "that every rank survives is %s.",
             opening(report->verdict), report->has_peaks_only ? "allocates" : "needs", needs,
             report->kept_count > 1 ? " over what the plan leaves open" : "",
             gib((double)c->usable_bytes), chance);
    if (report->is_calibrated)
        explain_calibration(report);
    else if (report->alternatives[report->best].correction.surprise > 0)
        explain_surprise(report);
    else if (report->verdict == MEMPLAN_INSIDE_MARGIN && !report->farthest_reading &&
             report->openness == MPL_OPEN_RELEASES)
        explain_openness(report);
}

void mpl_verdict_decide(struct memplan_report *report)
{
    const struct mpl_capacity *c = &report->alternatives[report->best].capacity;

    report->verdict = mpl_verdict_of(report->survival, report->risk);
    if (c->state == MPL_CAPACITY_NO_DEVICE)
        snprintf(report->reason, sizeof(report->reason),
                 "Cannot tell: the plan names no card (device.gpu) and gives no "
                 "device.total_bytes; the figures are a prediction without a verdict.");
    else if (c->state == MPL_CAPACITY_NOT_KNOWN)
        snprintf(report->reason, sizeof(report->reason),
                 "Cannot tell: nothing is known about the CUDA context of this card; give "
                 "device.context_bytes.");
    else
        explain(report);
}
