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

enum mpl_openness mpl_interval_openness(const struct memplan_report *report)
{
    static const char releases[] = "software.";

    if (!strcmp(report->plan.model.model_type, "eagle3"))
        return MPL_OPEN_DRAFTER;
    for (uint32_t i = 0; i < report->note_count; i++)
        if (report->notes[i].code == MPL_NOTE_FAMILY_ASSUMED ||
            report->notes[i].code == MPL_NOTE_FRAMEWORK_CODE ||
            (report->notes[i].code == MPL_NOTE_DEFAULT_TAKEN &&
             !strncmp(report->notes[i].path, releases, sizeof(releases) - 1)))
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

struct mpl_interval mpl_interval_of(const struct memplan_report *report, enum mpl_figure figure)
{
    const struct mpl_spread *spread = mpl_accuracy_spread(figure, mpl_interval_openness(report));
    double low = HUGE_VAL, high = 0, error = 0, margin;

    for (size_t i = 0; i < report->alternative_count; i++) {
        const struct mpl_alternative *a = &report->alternatives[i];
        double a_low, a_high;

        if (a->is_excluded)
            continue;
        ends_of(a, figure, &a_low, &a_high);
        low = fmin(low, a_low);
        high = fmax(high, a_high);
        error = fmax(error, a->error);
    }
    error = hypot(error, spread->deviation);
    margin = exp(mpl_accuracy_quantile(spread->points) * error);
    return (struct mpl_interval){(uint64_t)(low / margin), (uint64_t)fmin(high * margin, 0x1p62),
                                 error, spread};
}
