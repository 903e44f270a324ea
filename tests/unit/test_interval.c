/* SPDX-License-Identifier: MIT */
/* Intervals: the quantile, which row a plan belongs to, and the span of what is left open. */
#include "verdict/interval.h"

#include <math.h>
#include <string.h>

#include "test.h"

static struct memplan_report report;
static struct mpl_alternative alternatives[2];
static struct mpl_notes notes;

static void start(const char *model_type)
{
    memset(&report, 0, sizeof(report));
    memset(alternatives, 0, sizeof(alternatives));
    memset(&notes, 0, sizeof(notes));
    strcpy(report.plan.model.model_type, model_type);
    report.openness = MPL_OPEN_NOTHING;
    report.plan.training.sequence_length = 1024;
    report.alternatives = alternatives;
    report.alternative_count = 2;
    for (size_t i = 0; i < 2; i++) {
        alternatives[i].error = 0.01;
        alternatives[i].estimate.unlimited.allocated_peak = 1000000000 * (i + 1);
        alternatives[i].estimate.unlimited.reserved_peak = 3000000000;
        alternatives[i].estimate.needs.low_bytes = 1000000000;
        alternatives[i].estimate.needs.high_bytes = 1100000000;
    }
}

static void take_default(const char *path)
{
    notes.notes[notes.count].kind = MPL_NOTE_DEFAULT;
    strcpy(notes.notes[notes.count++].path, path);
}

/* Tables of Student's t, 97.5 %. */
START_TEST(quantile_is_that_of_the_tables)
{
    ck_assert(fabs(mpl_accuracy_quantile(0) - 1.95996) < 1e-5);
    ck_assert(fabs(mpl_accuracy_quantile(7) - 2.3646) < 1e-3);
    ck_assert(fabs(mpl_accuracy_quantile(9) - 2.2622) < 1e-3);
    ck_assert(fabs(mpl_accuracy_quantile(15) - 2.1314) < 1e-3);
    ck_assert(fabs(mpl_accuracy_quantile(48) - 2.0106) < 1e-3);
}
END_TEST

START_TEST(kind_is_told_from_the_releases)
{
    start("eagle3");
    ck_assert_int_eq(mpl_interval_openness(&report.plan, &notes), MPL_OPEN_DRAFTER);
    start("llama");
    take_default("training.attention");
    ck_assert_int_eq(mpl_interval_openness(&report.plan, &notes), MPL_OPEN_NOTHING);
    take_default("software.pytorch");
    ck_assert_int_eq(mpl_interval_openness(&report.plan, &notes), MPL_OPEN_RELEASES);
}
END_TEST

/* 1 to 2 GB, widened by 2.040 deviations of 1 and 0.09 % in squares. */
START_TEST(spans_what_is_left_open)
{
    const double margin = exp(2.0395 * hypot(mpl_accuracy_of(&report.plan)->unread, 0.0009));
    struct mpl_interval i;

    start("llama");
    i = mpl_interval_of(&report, MPL_FIGURE_ALLOCATED);
    ck_assert(fabs((double)i.low_bytes / (1e9 / margin) - 1) < 1e-4);
    ck_assert(fabs((double)i.high_bytes / (2e9 * margin) - 1) < 1e-4);
    alternatives[1].is_excluded = true;
    i = mpl_interval_of(&report, MPL_FIGURE_ALLOCATED);
    ck_assert(fabs((double)i.high_bytes / (1e9 * margin) - 1) < 1e-4);
}
END_TEST

START_TEST(needs_is_a_band_with_the_verdicts_error)
{
    struct mpl_interval i;

    start("llama");
    i = mpl_interval_of(&report, MPL_FIGURE_NEEDS);
    ck_assert(fabs(i.deviation - 0.01) < 1e-12);
    ck_assert(fabs((double)i.low_bytes / (1e9 / exp(0.0195996)) - 1) < 1e-6);
    ck_assert(fabs((double)i.high_bytes / (1.1e9 * exp(0.0195996)) - 1) < 1e-6);
}
END_TEST

/* Readings below the prediction do not widen a verdict: only what is short is burnt. */
START_TEST(open_releases_widen_the_verdict)
{
    const double table = mpl_accuracy_spread(MPL_FIGURE_NEEDS, MPL_OPEN_RELEASES)->deviation;
    struct mpl_accuracy open, written;

    start("llama");
    open = mpl_accuracy_judging(&report.plan, MPL_OPEN_RELEASES);
    written = mpl_accuracy_judging(&report.plan, MPL_OPEN_NOTHING);
    ck_assert(fabs(open.unread - hypot(written.unread, table)) < 1e-12);
    ck_assert(open.floor == written.floor); /* one reading says what the releases do */
    ck_assert(table > written.unread);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("interval");

    tcase_add_test(tcase, quantile_is_that_of_the_tables);
    tcase_add_test(tcase, kind_is_told_from_the_releases);
    tcase_add_test(tcase, spans_what_is_left_open);
    tcase_add_test(tcase, needs_is_a_band_with_the_verdicts_error);
    tcase_add_test(tcase, open_releases_widen_the_verdict);
    return test_run("interval", tcase);
}
