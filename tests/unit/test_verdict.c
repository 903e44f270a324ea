/* SPDX-License-Identifier: MIT */
/* The verdict of a probability, its sentence, and the longest sequence that fits, by proof. */
#include "verdict/verdict.h"

#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

static const struct {
    double survival, risk;
    enum memplan_verdict verdict;
} verdict_table[] = {
    {1, 0.01, MEMPLAN_FITS},
    {0.9901, 0.01, MEMPLAN_FITS},
    {0.99, 0.01, MEMPLAN_INSIDE_MARGIN}, /* above 99 %, not at it */
    {0.95, 0.1, MEMPLAN_FITS},
    {0.85, 0.1, MEMPLAN_INSIDE_MARGIN},
    {0.5, 0.01, MEMPLAN_INSIDE_MARGIN},
    {0.4999, 0.01, MEMPLAN_DOES_NOT_FIT},
    {0.4999, 0.49, MEMPLAN_DOES_NOT_FIT},
    {0, 0.01, MEMPLAN_DOES_NOT_FIT},
    {-1, 0.01, MEMPLAN_CANNOT_TELL},
};

START_TEST(verdict_of_a_chance)
{
    ck_assert_int_eq(mpl_verdict_of(verdict_table[_i].survival, verdict_table[_i].risk),
                     verdict_table[_i].verdict);
}
END_TEST

/* ---- the sentence -----------------------------------------------------------------------------
 */

static struct memplan_report made;
static struct mpl_alternative two[2];

static const char *reason_at(double survival, enum mpl_capacity_state state)
{
    made = (struct memplan_report){
        .alternatives = two, .alternative_count = 2, .kept_count = 2, .risk = 0.01};
    two[0] = (struct mpl_alternative){
        .capacity = {.state = state, .usable_bytes = 40 * MPL_GIB},
        .estimate = {.needs = {.low_bytes = 30 * MPL_GIB, .high_bytes = 31 * MPL_GIB}}};
    two[1] = (struct mpl_alternative){
        .estimate = {.needs = {.low_bytes = 20 * MPL_GIB, .high_bytes = 35 * MPL_GIB}}};
    made.survival = survival;
    mpl_verdict_decide(&made);
    return made.reason;
}

START_TEST(reason_names_the_figures)
{
    ck_assert_str_eq(reason_at(1, MPL_CAPACITY_KNOWN),
                     "It fits: PyTorch's allocator needs 20.0 to 35.0 GiB over what the plan "
                     "leaves open, the card can give it about 40.0 GiB; the chance that every rank "
                     "survives is above 99.9 %.");
    ck_assert_int_eq(made.verdict, MEMPLAN_FITS);
    ck_assert_ptr_nonnull(strstr(reason_at(0.123, MPL_CAPACITY_KNOWN), "is 12.3 %."));
    ck_assert_int_eq(made.verdict, MEMPLAN_DOES_NOT_FIT);
    ck_assert_int_eq(strncmp(reason_at(0.7, MPL_CAPACITY_KNOWN), "It may or may not fit", 21), 0);
    ck_assert_int_eq(made.verdict, MEMPLAN_INSIDE_MARGIN);
}
END_TEST

START_TEST(reason_says_what_is_missing)
{
    ck_assert_ptr_nonnull(strstr(reason_at(-1, MPL_CAPACITY_NO_DEVICE), "device.gpu"));
    ck_assert_int_eq(made.verdict, MEMPLAN_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(reason_at(-1, MPL_CAPACITY_NOT_KNOWN), "device.context_bytes"));
    ck_assert_int_eq(made.verdict, MEMPLAN_CANNOT_TELL);
}
END_TEST

START_TEST(reason_leaves_excluded_ones_out)
{
    reason_at(1, MPL_CAPACITY_KNOWN);
    two[1].is_excluded = true;
    made.kept_count = 1;
    mpl_verdict_decide(&made);
    ck_assert_ptr_nonnull(strstr(made.reason, "needs 30.0 to 31.0 GiB, the card"));
}
END_TEST

/* ---- what would fit ---------------------------------------------------------------------------
 */

#define GRAIN   128
#define LONGEST (INT64_C(1) << 24)

/* One run of all stages; tokens 0: as the plan says. The caller frees the report. */
static struct memplan_report *run(const char *json, int64_t tokens, double risk, bool suggests)
{
    const struct memplan_options options = {
        .size = sizeof(options), .risk = risk, .no_suggestions = !suggests};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    struct mpl_spec *spec = NULL;
    char assignment[64];

    ck_assert_msg(!mpl_spec_load(json, strlen(json), "plan", &spec, &err), "%s", err.text);
    snprintf(assignment, sizeof(assignment), "training.sequence_length=%lld", (long long)tokens);
    if (tokens)
        ck_assert_msg(!mpl_spec_set(spec, assignment, &err), "%s", err.text);
    ck_assert_msg(!mpl_pipeline_run(spec, &options, NULL, NULL, &report, &err), "%s", err.text);
    mpl_spec_free(spec);
    return report;
}

static struct mpl_suggestion suggest(const char *json, double risk)
{
    struct memplan_report *report = run(json, 0, risk, true);
    const struct mpl_suggestion suggestion = report->suggestion;

    memplan_report_free(report);
    return suggestion;
}

static double survival_at(const char *json, int64_t tokens, double risk)
{
    struct memplan_report *report = run(json, tokens, risk, false);
    const double survival = report->survival;

    memplan_report_free(report);
    return survival;
}

static const struct {
    const char *json;
    double risk;
} suggest_table[] = {
    {TINY_PLAN("1024", "60000000"), 0.01},
    {TINY_PLAN("128", "60000000"), 0.2},    /* another risk, another start */
    {TINY_PLAN("100", "60000000"), 0.01},   /* starts off the grain */
    {TINY_PLAN("65536", "60000000"), 0.01}, /* starts far above */
    {TINY_PLAN("1024", "60000000000"), 0.01},
    {"{" TINY_MODEL("{\"any_of\": [1000, 1500, 2000]}") ", " TINY_TRAINING("1024") ", " TINY_CARD(
         "60000000") "}",
     0.01},
    {"{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 1024, \"attention\": \"eager\","
                            " \"autocast\": \"bfloat16\"}, " TINY_CARD("500000000") "}",
     0.01},
    {"{" TINY_MODEL("1000") ", " TINY_TRAINING(
         "1024") ", \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4},"
                 " \"device\": {\"gpu\": \"RTX PRO 6000 Blackwell\"}}",
     0.01},
};

/* The length fits and the next one does not: each evaluated on its own. */
START_TEST(suggestion_is_the_boundary)
{
    const char *json = suggest_table[_i].json;
    const double risk = suggest_table[_i].risk;
    const struct mpl_suggestion s = suggest(json, risk);
    double here;

    ck_assert(s.is_found && s.sequence_length % GRAIN == 0);
    ck_assert_int_eq(s.fails_at, s.sequence_length + GRAIN);
    here = survival_at(json, s.sequence_length, risk);
    ck_assert_msg(here > 1 - risk, "%g at %lld", here, (long long)s.sequence_length);
    ck_assert_msg(s.survival > 1 - risk && s.survival < here + 1e-9, "%g and %g", s.survival, here);
    ck_assert(survival_at(json, s.fails_at, risk) <= 1 - risk);
}
END_TEST

/* Every multiple of 128 up to 8192, one by one. */
START_TEST(suggestion_is_what_trying_all_finds)
{
    const char *json = TINY_PLAN("512", "60000000");
    const struct mpl_suggestion s = suggest(json, 0.01);
    int64_t longest = 0, first_failure = 0;

    for (int64_t tokens = GRAIN; tokens <= 8192; tokens += GRAIN) {
        if (survival_at(json, tokens, 0.01) > 0.99)
            longest = tokens;
        else if (!first_failure)
            first_failure = tokens;
    }
    ck_assert_msg(longest > 0 && first_failure == longest + GRAIN, "%lld, %lld", (long long)longest,
                  (long long)first_failure);
    ck_assert_int_eq(s.sequence_length, longest);
}
END_TEST

START_TEST(nothing_fits)
{
    const struct mpl_suggestion s = suggest(TINY_PLAN("1024", "2000000"), 0.01);

    ck_assert(!s.is_found);
    ck_assert_int_eq(s.fails_at, GRAIN);
}
END_TEST

START_TEST(everything_fits)
{
    const struct mpl_suggestion s = suggest(TINY_PLAN("1024", "1000000000000000"), 0.01);

    ck_assert(s.is_found);
    ck_assert_int_eq(s.sequence_length, LONGEST);
    ck_assert_int_eq(s.fails_at, 0);
}
END_TEST

/* A budget that is enough is not less than the band of that length begins with. */
START_TEST(suggestion_needs_are_enough)
{
    const char *json = TINY_PLAN("1024", "60000000");
    const struct mpl_suggestion s = suggest(json, 0.01);
    struct memplan_report *report = run(json, s.sequence_length, 0.01, false);

    ck_assert_uint_ge(s.needs_bytes, report->alternatives[0].estimate.needs.low_bytes);
    ck_assert_uint_le(s.needs_bytes, report->alternatives[0].capacity.usable_bytes);
    memplan_report_free(report);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("verdict");

    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, verdict_of_a_chance, 0, ROWS(verdict_table));
    tcase_add_test(tcase, reason_names_the_figures);
    tcase_add_test(tcase, reason_says_what_is_missing);
    tcase_add_test(tcase, reason_leaves_excluded_ones_out);
    tcase_add_loop_test(tcase, suggestion_is_the_boundary, 0, ROWS(suggest_table));
    tcase_add_test(tcase, suggestion_is_what_trying_all_finds);
    tcase_add_test(tcase, nothing_fits);
    tcase_add_test(tcase, everything_fits);
    tcase_add_test(tcase, suggestion_needs_are_enough);
    return test_run("verdict", tcase);
}
