/* SPDX-License-Identifier: MIT */
/*
 * The EAGLE-3 drafter's step against recorded ones: live bytes and their composition in traced
 * runs; allocated, reserved and the band of needs of compiled runs on a simulated card.
 */
#include "cases.h"
#include "eagle3_category.h"
#include "test.h"

#include <string.h>

#define LIVE_SHARE      0.01
#define ALLOCATED_SHARE 0.02
#define RESERVED_SHARE  0.04
#define NEEDS_SHARE     0.03

static struct case_file traced, card;

/* ---- traced -----------------------------------------------------------------------------------
 */

START_TEST(live_peak_is_the_traced_one)
{
    struct case_run run;
    const json_t *composition;
    const char *name;
    const json_t *bytes;
    struct eagle3_composition mine;

    case_run_start(&run, traced.lines[_i], false);
    case_expect("eagle3-trace.jsonl", &run, "peak", LIVE_SHARE, eagle3_live_peak(&run, &mine),
                json_integer_value(json_object_get(run.result, "peak")));
    composition = json_object_get(run.result, "live_at_peak");
    json_object_foreach((json_t *)(uintptr_t)composition, name, bytes)
    {
        char figure[64];

        snprintf(figure, sizeof(figure), "at_peak:%s", name);
        case_expect("eagle3-trace.jsonl", &run, figure,
                    LIVE_SHARE * (double)mine.total / ((double)json_integer_value(bytes) + 1),
                    eagle3_bytes_of(&mine, name), json_integer_value(bytes));
    }
    case_run_end(&run);
}
END_TEST

START_TEST(parameters_are_the_traced_ones)
{
    struct case_run run;

    case_run_start(&run, traced.lines[_i], false);
    ck_assert_int_eq((json_int_t)run.estimator.trace.parameters,
                     json_integer_value(json_object_get(run.result, "parameters")));
    ck_assert_int_eq((json_int_t)run.estimator.trace.trainable_parameters,
                     json_integer_value(json_object_get(run.result, "trainable_parameters")));
    case_run_end(&run);
}
END_TEST

/* ---- on a card --------------------------------------------------------------------------------
 */

/* Cases that ran without a limit: peaks, and the band of needs for both kinds of segments. */
static void check_unlimited(struct case_run *run)
{
    static const char *const confs[] = {"", "expandable_segments:True"};
    static const char *const names[] = {"default", "expandable_segments:True"};
    struct memplan_error err = {0};
    struct mpl_estimate *e = &run->estimate;

    ck_assert(!mpl_estimate_peaks(&run->estimator, &run->plan, e, &err));
    case_expect("eagle3-card.jsonl", run, "allocated", ALLOCATED_SHARE, e->unlimited.allocated_peak,
                json_integer_value(json_object_get(run->result, "peak")));
    case_expect("eagle3-card.jsonl", run, "reserved", RESERVED_SHARE, e->unlimited.reserved_peak,
                json_integer_value(json_object_get(run->result, "peak_reserved")));
    for (int i = 0; i < 2; i++) {
        const json_t *band = json_object_get(json_object_get(run->result, "needs"), names[i]);
        const json_int_t mib = 1 << 20;
        char figure[64];

        if (!band)
            continue;
        snprintf(run->plan.device.allocator_conf, sizeof(run->plan.device.allocator_conf), "%s",
                 confs[i]);
        ck_assert(!mpl_estimate_peaks(&run->estimator, &run->plan, e, &err) &&
                  !mpl_estimate_needs(&run->estimator, e, &err));
        snprintf(figure, sizeof(figure), "needs_low:%s", i ? "expandable" : "default");
        case_expect("eagle3-card.jsonl", run, figure, NEEDS_SHARE, e->needs.low_bytes,
                    mib * json_integer_value(json_object_get(band, "lowest_that_ran_mib")));
        snprintf(figure, sizeof(figure), "needs_high:%s", i ? "expandable" : "default");
        case_expect("eagle3-card.jsonl", run, figure, NEEDS_SHARE, e->needs.high_bytes,
                    mib * json_integer_value(json_object_get(band, "highest_that_failed_mib")));
    }
}

/* Cases on a small card: the outcome, unless the budget lies so near the band's ends that the
 * tolerance of needs decides. */
static void check_outcome(struct case_run *run)
{
    const bool survived = json_is_true(json_object_get(run->result, "survived"));
    const uint64_t budget =
        (uint64_t)(run->plan.device.total_bytes - run->plan.device.context_bytes -
                   run->plan.device.nccl_bytes);
    struct memplan_error err = {0};
    struct mpl_estimate *e = &run->estimate;

    ck_assert(!mpl_estimate_peaks(&run->estimator, &run->plan, e, &err) &&
              !mpl_estimate_needs(&run->estimator, e, &err));
    if (survived)
        ck_assert_msg((double)e->needs.low_bytes * (1 - NEEDS_SHARE) <= (double)budget,
                      "%s ran on %llu, needs begin at %llu", run->id, (unsigned long long)budget,
                      (unsigned long long)e->needs.low_bytes);
    else
        ck_assert_msg((double)e->needs.high_bytes * (1 + NEEDS_SHARE) >= (double)budget,
                      "%s failed on %llu, needs end at %llu", run->id, (unsigned long long)budget,
                      (unsigned long long)e->needs.high_bytes);
}

START_TEST(card_run_is_the_recorded_one)
{
    struct case_run run;

    case_run_start(&run, card.lines[_i], true);
    if (run.plan.device.total_bytes >= INT64_C(1) << 40)
        check_unlimited(&run);
    else
        check_outcome(&run);
    case_run_end(&run);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("eagle3");
    int status;

    traced = case_file_read("eagle3-trace.jsonl");
    card = case_file_read("eagle3-card.jsonl");
    tcase_add_loop_test(tcase, parameters_are_the_traced_ones, 0, traced.count);
    tcase_add_loop_test(tcase, live_peak_is_the_traced_one, 0, traced.count);
    tcase_add_loop_test(tcase, card_run_is_the_recorded_one, 0, card.count);
    status = test_run("eagle3", tcase);
    case_file_free(&traced);
    case_file_free(&card);
    return status;
}
