/* SPDX-License-Identifier: MIT */
/* The largest and least value of a field that fits: against trying every value, and its answers
 * where there is none. */
#include <memplan.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

static struct memplan_error err;

static struct memplan_plan *load(const char *json)
{
    struct memplan_plan *plan = NULL;

    ck_assert_msg(!memplan_plan_load(json, strlen(json), "plan", &plan, &err), "%s", err.text);
    return plan;
}

static enum memplan_verdict verdict_at(struct memplan_plan *plan, const char *path, int64_t value)
{
    const struct memplan_options options = {.size = sizeof(options), .no_suggestions = 1};
    struct memplan_report *report = NULL;
    enum memplan_verdict verdict = MEMPLAN_CANNOT_TELL;
    char assignment[128];

    snprintf(assignment, sizeof(assignment), "%s=%lld", path, (long long)value);
    if (!memplan_plan_set(plan, assignment, &err) &&
        !memplan_estimate(plan, &options, &report, &err))
        verdict = memplan_report_verdict(report);
    memplan_report_free(report);
    return verdict;
}

static struct memplan_search_result find(const struct memplan_plan *plan,
                                         const struct memplan_search_options *options,
                                         struct memplan_search **search)
{
    struct memplan_search_result result = {.size = sizeof(result)};

    ck_assert_msg(!memplan_search(plan, options, search, &err), "%s", err.text);
    ck_assert_int_eq(memplan_search_describe(*search, &result, &err), MEMPLAN_OK);
    return result;
}

/* ---- against trying every value ---------------------------------------------------------------
 */

#define SHARDED_PLAN(ranks)                                                                        \
    "{" TINY_MODEL("60000") ", " TINY_TRAINING("64") ", " TINY_SOFTWARE ", " TINY_CARD(            \
        "125000000") ", \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": " ranks "}}"

static const struct {
    const char *json, *field, *path;
    int64_t from, to, grain;
    uint32_t least;
} cases[] = {
    {TINY_PLAN("64", "33554432"), "sequence_length", "training.sequence_length", 1, 1400, 8, 0},
    {TINY_PLAN("64", "33554432"), "sequence_length", "training.sequence_length", 1, 900, 1, 0},
    {TINY_PLAN("64", "33554432"), "micro_batch_size", "training.micro_batch_size", 1, 60, 1, 0},
    {TINY_PLAN("256", "33554432"), "num_hidden_layers", "model.num_hidden_layers", 1, 90, 1, 0},
    {TINY_PLAN("256", "33554432"), "device.total_bytes", "device.total_bytes", 1048576, 134217728,
     2097152, 1},
    {TINY_PLAN("64", "33554432"), "intermediate_size", "model.intermediate_size", 16, 40000, 160,
     0},
    {SHARDED_PLAN("24"), "replicate", "parallelism.replicate", 1, 24, 1, 0},
    {SHARDED_PLAN("2"), "world_size", "parallelism.world_size", 1, 48, 1, 1},
};

START_TEST(as_by_trying_all)
{
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = cases[_i].field,
                                                   .from = cases[_i].from,
                                                   .to = cases[_i].to,
                                                   .has_from = 1,
                                                   .has_to = 1,
                                                   .multiple_of = cases[_i].grain,
                                                   .wants_least = cases[_i].least};
    struct memplan_plan *plan = load(cases[_i].json);
    struct memplan_search *search = NULL;
    const struct memplan_search_result r = find(plan, &options, &search);
    int64_t expected = -1, last = -1;
    uint32_t changes = 0;

    for (int64_t v = 0; v <= cases[_i].to; v += cases[_i].grain) {
        const enum memplan_verdict verdict =
            v < cases[_i].from ? MEMPLAN_CANNOT_TELL : verdict_at(plan, cases[_i].path, v);

        if (verdict == MEMPLAN_CANNOT_TELL)
            continue;
        changes += last >= 0 && (verdict == MEMPLAN_FITS) != last;
        last = verdict == MEMPLAN_FITS;
        if (last && (!cases[_i].least || expected < 0))
            expected = v;
    }
    ck_assert_int_eq(r.verdict, MEMPLAN_FITS);
    ck_assert_int_eq(verdict_at(plan, cases[_i].path, r.value), MEMPLAN_FITS);
    if (r.has_beyond)
        ck_assert_int_ne(verdict_at(plan, cases[_i].path, r.beyond), MEMPLAN_FITS);
    if (changes <= 1) /* one boundary: there is nothing to miss */
        ck_assert_int_eq(r.value, expected);
    ck_assert_int_ge(changes, 1); /* a row without a boundary tests nothing */
    ck_assert_int_le(r.points, 64);
    memplan_search_free(search);
    memplan_plan_free(plan);
}
END_TEST

/* Both sides of the boundary have all figures, the others their peaks. */
START_TEST(sides_are_complete)
{
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = "sequence_length"};
    struct memplan_plan *plan = load(TINY_PLAN("64", "33554432"));
    struct memplan_search *search = NULL;
    const struct memplan_search_result r = find(plan, &options, &search);
    struct memplan_point point = {.size = sizeof(point)};
    uint32_t complete = 0, count = 0;

    for (; memplan_search_point(search, count, &point); count++) {
        complete += point.summary.needs_high_bytes > 0;
        if (point.value == r.value)
            ck_assert_int_eq(point.summary.verdict, MEMPLAN_FITS);
        if (point.value == r.beyond)
            ck_assert_int_ne(point.summary.verdict, MEMPLAN_FITS);
    }
    ck_assert_uint_eq(count, r.points);
    ck_assert_uint_eq(complete, 2);
    ck_assert_int_eq(r.multiple_of, 128);
    ck_assert_int_eq(r.beyond, r.value + 128);
    ck_assert_int_eq(r.trend, MEMPLAN_TREND_RISES);
    memplan_search_free(search);
    memplan_plan_free(plan);
}
END_TEST

/* The same values as the search for the longest sequence in a report. */
START_TEST(agrees_with_the_suggestion)
{
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = "sequence_length"};
    struct memplan_plan *plan = load(TINY_PLAN("64", "33554432"));
    struct memplan_search *search = NULL;
    struct memplan_report *report = NULL;
    const struct memplan_search_result r = find(plan, &options, &search);
    char *json = NULL, expected[128];

    ck_assert_int_eq(memplan_estimate(plan, NULL, &report, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_report_to_json(report, &json, &err), MEMPLAN_OK);
    snprintf(expected, sizeof(expected), "\"training.sequence_length\":%lld}", (long long)r.value);
    ck_assert_msg(strstr(json, expected) != NULL, "%s", expected);
    snprintf(expected, sizeof(expected), "\"fails\":%lld}", (long long)r.beyond);
    ck_assert_msg(strstr(json, expected) != NULL, "%s", expected);
    memplan_free(json);
    memplan_report_free(report);
    memplan_search_free(search);
    memplan_plan_free(plan);
}
END_TEST

/* ---- no value ---------------------------------------------------------------------------------
 */

START_TEST(nothing_fits)
{
    const struct memplan_search_options options = {
        .size = sizeof(options), .field = "sequence_length", .multiple_of = 1};
    struct memplan_plan *plan = load(TINY_PLAN("64", "1048576"));
    struct memplan_search *search = NULL;
    const struct memplan_search_result r = find(plan, &options, &search);

    ck_assert_int_eq(r.verdict, MEMPLAN_DOES_NOT_FIT);
    ck_assert_int_eq(r.has_beyond, 0);
    memplan_search_free(search);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(no_card)
{
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = "sequence_length"};
    struct memplan_plan *plan = load("{" TINY_MODEL("1000") ", " TINY_TRAINING("64") "}");
    struct memplan_search *search = NULL;
    const struct memplan_search_result r = find(plan, &options, &search);

    ck_assert_int_eq(r.verdict, MEMPLAN_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(r.reason, "names no card"));
    ck_assert_uint_eq(r.points, 1); /* the others would say the same */
    memplan_search_free(search);
    memplan_plan_free(plan);
}
END_TEST

static const struct {
    const char *field;
    int64_t from, to, grain;
    const char *text;
} refused[] = {
    {"training.attention", 0, 0, 0, "holds no number"},
    {"sequence_lenght", 0, 0, 0, "sequence_length"},
    {"", 0, 0, 0, ""},
    {"observations[].bytes", 0, 0, 0, "observation"},
    {"card.total_mib", 0, 0, 0, "device.total_bytes"},
    {"sequence_length", 9, 8, 0, "9 .. 8"},
    {"sequence_length", 1, 127, 128, "no multiple of 128"},
    {"sequence_length", -5, 8, 1, "-5 .. 8"},
    {"sequence_length", 1, 8, -1, "multiples of -1"},
    {"world_size", 2, 8, 1, "no value of parallelism.world_size is possible"},
};

START_TEST(refusals)
{
    const uint32_t has_range = refused[_i].from || refused[_i].to;
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = refused[_i].field,
                                                   .from = refused[_i].from,
                                                   .to = refused[_i].to,
                                                   .has_from = has_range,
                                                   .has_to = has_range,
                                                   .multiple_of = refused[_i].grain};
    struct memplan_plan *plan = load(TINY_PLAN("64", "33554432"));
    struct memplan_search *search = NULL;

    ck_assert_int_eq(memplan_search(plan, &options, &search, &err), MEMPLAN_ERR_VALUE);
    ck_assert_msg(strstr(err.text, refused[_i].text) != NULL, "%s", err.text);
    ck_assert_ptr_null(search);
    memplan_plan_free(plan);
}
END_TEST

/* ---- names and readings -----------------------------------------------------------------------
 */

START_TEST(short_names)
{
    static const struct {
        const char *name, *path;
    } names[] = {{"training.sequence_length", "training.sequence_length"},
                 {"sequence_length", "training.sequence_length"},
                 {"evaluation.sequence_length", "training.evaluation.sequence_length"},
                 {"world_size", "parallelism.world_size"},
                 {"lora.r", "training.lora.r"},
                 {"total_bytes", "device.total_bytes"},
                 {"ttt_steps", "training.ttt_steps"},
                 {"head_dim", "model.head_dim"}};
    struct memplan_field field;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        ck_assert_int_eq(memplan_field_find(names[i].name, &field, &err), MEMPLAN_OK);
        ck_assert_str_eq(field.path, names[i].path);
    }
    ck_assert_int_eq(memplan_field_find(NULL, &field, &err), MEMPLAN_ERR_ARG);
}
END_TEST

/* A reading was of the plan as it stands: it says the same whatever the field becomes. */
START_TEST(readings_are_held)
{
    static const char *const fields[] = {"training.micro_batch_size", "device.total_bytes",
                                         "training.sequence_length"};
    struct memplan_plan *plan = load("{" TINY_MODEL("1000") ", " TINY_TRAINING("64") ", " TINY_CARD(
        "25165824") ", \"observations\": [{\"sequence_length\": 64, \"outcome\": \"ran\"}, "
                    "{\"sequence_length\": 64, \"outcome\": \"ran\", \"set\": "
                    "{\"training.micro_batch_size\": 3}}]}");
    char *json = NULL;

    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(memplan_plan_pin_readings(plan, fields[i], &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_plan_check(plan, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_plan_to_json(plan, &json, &err), MEMPLAN_OK);
    ck_assert_ptr_nonnull(strstr(json, "\"training.micro_batch_size\": null"));
    ck_assert_ptr_nonnull(strstr(json, "\"training.micro_batch_size\": 3"));
    ck_assert_ptr_nonnull(strstr(json, "\"device.total_bytes\": 25165824"));
    ck_assert_ptr_null(strstr(json, "\"training.sequence_length\":"));
    ck_assert_int_eq(memplan_plan_pin_readings(plan, "no.field", &err), MEMPLAN_ERR_VALUE);
    memplan_free(json);
    memplan_plan_free(plan);
}
END_TEST

/* Without the band the peaks and the verdict are the same. */
START_TEST(peaks_only_agree)
{
    struct memplan_options options = {.size = sizeof(options), .no_suggestions = 1};
    struct memplan_plan *plan = load(TINY_PLAN("512", "25165824"));
    struct memplan_summary all = {.size = sizeof(all)}, peaks = all;
    struct memplan_report *report = NULL;
    char *json = NULL;

    ck_assert_int_eq(memplan_estimate(plan, &options, &report, &err), MEMPLAN_OK);
    memplan_report_summary(report, &all, &err);
    memplan_report_free(report);
    options.peaks_only = 1;
    ck_assert_int_eq(memplan_estimate(plan, &options, &report, &err), MEMPLAN_OK);
    memplan_report_summary(report, &peaks, &err);
    ck_assert_int_eq(memplan_report_to_json(report, &json, &err), MEMPLAN_OK);
    ck_assert_ptr_null(strstr(json, "needs_bytes"));
    ck_assert_uint_eq(peaks.needs_high_bytes, 0);
    peaks.needs_low_bytes = all.needs_low_bytes;
    peaks.needs_high_bytes = all.needs_high_bytes;
    ck_assert_mem_eq(&all, &peaks, sizeof(all));
    memplan_free(json);
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("search");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, as_by_trying_all, 0, ROWS(cases));
    tcase_add_test(tcase, sides_are_complete);
    tcase_add_test(tcase, agrees_with_the_suggestion);
    tcase_add_test(tcase, nothing_fits);
    tcase_add_test(tcase, no_card);
    tcase_add_loop_test(tcase, refusals, 0, ROWS(refused));
    tcase_add_test(tcase, short_names);
    tcase_add_test(tcase, readings_are_held);
    tcase_add_test(tcase, peaks_only_agree);
    return test_run("search", tcase);
}
