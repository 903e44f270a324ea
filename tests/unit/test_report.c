/* SPDX-License-Identifier: MIT */
/* The report as JSON against docs/json.md: each key that the page shows is there with its type, and
 * the report has none that the page does not show. */
#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

#define PAGE "../docs/json.md"

/* The page's example; jansson reads it as it stands. */
static json_t *read_page(void)
{
    static char text[1 << 16];
    FILE *file = fopen(PAGE, "rb");
    json_t *json;
    json_error_t error;
    char *begin, *end;

    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    begin = strstr(text, "```json");
    end = begin ? strstr(begin + 7, "```") : NULL;
    ck_assert(begin && end);
    json = json_loadb(begin + 7, (size_t)(end - begin - 7), 0, &error);
    ck_assert_msg(json != NULL, "%s:%d: %s", PAGE, error.line, error.text);
    return json;
}

/* An estimate of a plan, as the report's JSON. */
static json_t *estimate(const char *text, const struct memplan_options *options)
{
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;
    struct memplan_error err;
    json_t *json;
    char *out = NULL;

    ck_assert_msg(!memplan_plan_load(text, strlen(text), "plan", &plan, &err), "%s", err.text);
    ck_assert_msg(!memplan_estimate(plan, options, &report, &err), "%s", err.text);
    ck_assert_msg(!memplan_report_to_json(report, &out, &err), "%s", err.text);
    json = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(json);
    memplan_free(out);
    memplan_report_free(report);
    memplan_plan_free(plan);
    return json;
}

/* ---- structure --------------------------------------------------------------------------------
 */

/* Objects whose keys are names of the plan or of tables, not of the format. */
static bool is_map(const char *key)
{
    return !strcmp(key, "set") || !strcmp(key, "by_category") || !strcmp(key, "by_stream");
}

static bool same_type(const json_t *shown, const json_t *found)
{
    return json_typeof(shown) == json_typeof(found) ||
           (json_is_boolean(shown) && json_is_boolean(found));
}

#define PATH 512

static const char *join(char text[PATH], const char *path, const char *key)
{
    snprintf(text, PATH, "%.400s.%.100s", path, key);
    return text;
}

/* Whether everything in `wanted` is in `given` too, with the same types; lists: each element of
 * `wanted` answers to one of `given`. missing holds the first path that is not. */
static bool contains(const json_t *given, json_t *wanted, const char *path, char missing[PATH])
{
    const char *key;
    char below[PATH];
    json_t *value;
    size_t i;

    if (!given || !same_type(wanted, given)) {
        snprintf(missing, PATH, "%s", path);
        return false;
    }
    if (json_is_object(wanted)) {
        json_object_foreach(wanted, key, value)
        {
            if (is_map(key) && json_is_object(json_object_get(given, key)))
                continue;
            if (!contains(json_object_get(given, key), value, join(below, path, key), missing))
                return false;
        }
    }
    json_array_foreach(wanted, i, value)
    {
        bool found = false;

        for (size_t k = 0; k < json_array_size(given) && !found; k++)
            found = contains(json_array_get(given, k), value, join(below, path, "[]"), missing);
        if (!found)
            return false;
    }
    return true;
}

/* ---- plans ------------------------------------------------------------------------------------
 */

#define SHARDED                                                                                    \
    "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4},"                               \
    " \"device\": {\"gpu\": \"RTX PRO 6000 Blackwell\", \"other_contexts\": 1,"                    \
    " \"other_bytes\": 1048576, \"reserve_bytes\": 1048576}"

/* What the plan with readings predicts for a vocabulary of 1000 tokens, so that its reading can be
 * made: allocated bytes at 1024 tokens. */
static json_int_t allocated_by_the_right_one(void)
{
    json_t *report =
        estimate("{" TINY_MODEL("1000") ", " TINY_TRAINING("1024") ", " SHARDED "}", NULL);
    const json_int_t bytes =
        json_integer_value(json_object_get(json_object_get(report, "peak"), "allocated_bytes"));

    json_decref(report);
    return bytes;
}

/* Everything that a report can have: an open vocabulary, a number of unknown metric that one choice
 * explains, an outcome, a card that is the first of several. */
static json_t *report_with_everything(void)
{
    const struct memplan_options options = {.size = sizeof(options), .all_ranks = 1};
    char plan[2048];

    snprintf(
        plan, sizeof(plan),
        "{\"name\": \"a run\", \"id\": \"run-1\", " TINY_MODEL(
            "{\"any_of\": [1000, 40000]}") ", " TINY_TRAINING("4096") ", " SHARDED ","
                                                                      " \"observations\": "
                                                                      "[{\"sequence_length\": "
                                                                      "1024, \"bytes\": \"%.3f "
                                                                      "MB\","
                                                                      " \"source\": \"a log\"}, "
                                                                      "{\"sequence_length\": 512, "
                                                                      "\"outcome\": \"ran\","
                                                                      " \"source\": \"a log\"}]}",
        (double)allocated_by_the_right_one() / 1e6);
    return estimate(plan, &options);
}

START_TEST(every_key_of_the_page_is_there)
{
    json_t *page = read_page(), *report = report_with_everything();
    char missing[PATH] = "";

    ck_assert_msg(contains(report, page, "", missing), "%s", missing);
    json_decref(page);
    json_decref(report);
}
END_TEST

/* Keys of `given` that `shown` has nowhere; lists: whatever one of the elements shows. */
static bool is_shown(json_t *given, const json_t *const *shown, size_t count, const char *path,
                     char missing[PATH])
{
    const json_t *known[16];
    char below[PATH];
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(given, key, value)
    {
        size_t n = 0;

        for (size_t k = 0; k < count && n < 16; k++)
            if (json_object_get(shown[k], key))
                known[n++] = json_object_get(shown[k], key);
        if (!n) {
            join(missing, path, key);
            return false;
        }
        if (!is_map(key) && !is_shown(value, known, n, join(below, path, key), missing))
            return false;
    }
    json_array_foreach(given, i, value)
    {
        size_t n = 0;

        for (size_t k = 0; k < count; k++)
            for (size_t e = 0; e < json_array_size(shown[k]) && n < 16; e++)
                known[n++] = json_array_get(shown[k], e);
        if (!is_shown(value, known, n, join(below, path, "[]"), missing))
            return false;
    }
    return true;
}

START_TEST(page_shows_every_key)
{
    json_t *page = read_page(), *report = report_with_everything();
    const json_t *shown[] = {page};
    char missing[PATH] = "";

    ck_assert_msg(is_shown(report, shown, 1, "", missing), "%s is not in " PAGE, missing);
    json_decref(page);
    json_decref(report);
}
END_TEST

/* ---- what is left out -------------------------------------------------------------------------
 */

START_TEST(no_device_no_capacity)
{
    json_t *report = estimate("{" TINY_MODEL("1000") ", " TINY_TRAINING("128") "}", NULL);

    ck_assert_str_eq(json_string_value(json_object_get(report, "verdict")), "cannot_tell");
    ck_assert_int_eq(json_integer_value(json_object_get(report, "code")), 5);
    ck_assert_ptr_null(json_object_get(report, "capacity"));
    ck_assert_ptr_null(json_object_get(report, "suggestions"));
    ck_assert_ptr_null(json_object_get(report, "alternatives"));
    ck_assert_ptr_null(json_object_get(report, "readings"));
    ck_assert_ptr_null(json_object_get(json_object_get(report, "peak"), "survival_probability"));
    json_decref(report);
}
END_TEST

START_TEST(readings_can_be_ignored)
{
    const struct memplan_options options = {
        .size = sizeof(options), .ignore_readings = 1, .no_suggestions = 1};
    json_t *report = estimate(
        "{" TINY_MODEL("{\"any_of\": [1000, 2000]}") ", " TINY_TRAINING("128") ", " TINY_CARD(
            "1000000000") ", \"observations\": [{\"sequence_length\": 128, \"outcome\": \"oom\"}]}",
        &options);
    json_t *alternatives = json_object_get(report, "alternatives"), *one;
    size_t i;

    ck_assert_uint_eq(json_array_size(alternatives), 2);
    json_array_foreach(alternatives, i, one)
    {
        ck_assert(json_real_value(json_object_get(one, "weight")) == 0.5);
        ck_assert_ptr_null(json_object_get(one, "readings"));
    }
    ck_assert_ptr_null(json_object_get(report, "readings"));
    ck_assert_ptr_null(json_object_get(report, "reading_hypotheses"));
    ck_assert_ptr_null(json_object_get(report, "suggestions"));
    json_decref(report);
}
END_TEST

/* ---- figures ----------------------------------------------------------------------------------
 */

static json_int_t sum(const json_t *object)
{
    json_int_t total = 0;
    void *at;

    for (at = json_object_iter((json_t *)object); at;
         at = json_object_iter_next((json_t *)object, at))
        total += json_integer_value(json_object_iter_value(at));
    return total;
}

static json_int_t get(const json_t *object, const char *key)
{
    ck_assert_msg(json_is_integer(json_object_get(object, key)), "%s", key);
    return json_integer_value(json_object_get(object, key));
}

START_TEST(figures_add_up)
{
    json_t *report = report_with_everything(), *one;
    const json_t *peak = json_object_get(report, "peak"),
                 *capacity = json_object_get(report, "capacity"),
                 *alternatives = json_object_get(report, "alternatives"),
                 *rank = json_array_get(json_object_get(report, "ranks"), 0);
    double weight = 0;
    size_t i;

    ck_assert_int_eq(sum(json_object_get(peak, "by_category")),
                     sum(json_object_get(peak, "by_order")));
    ck_assert_int_eq(get(capacity, "usable_bytes"),
                     get(capacity, "total_bytes") - get(capacity, "context_bytes") -
                         get(capacity, "nccl_bytes") - get(capacity, "other_bytes") -
                         get(capacity, "other_contexts_bytes") - get(capacity, "reserve_bytes"));
    ck_assert_int_eq(get(peak, "device_bytes"),
                     get(peak, "reserved_bytes") + get(capacity, "context_bytes") +
                         get(capacity, "nccl_bytes") + get(capacity, "other_bytes") +
                         get(capacity, "other_contexts_bytes"));
    ck_assert_int_eq(get(rank, "equal_ranks"), 4);
    json_array_foreach(alternatives, i, one)
    {
        weight += json_real_value(json_object_get(one, "weight"));
    }
    ck_assert(weight > 1 - 1e-8 && weight < 1 + 1e-8);
    /* The reading was made from the first alternative: it is the one that stays, to the byte. */
    one = json_array_get(json_object_get(json_array_get(alternatives, 0), "readings"), 0);
    ck_assert(json_real_value(json_object_get(one, "difference")) < 1e-4);
    ck_assert(json_object_get(json_array_get(alternatives, 1), "excluded_by"));
    json_decref(report);
}
END_TEST

/* A field that was cut off in the middle of a character is no error. */
START_TEST(long_text_is_cut_between_characters)
{
    char plan[1024], id[300] = "";

    for (int at = 0; at < 2; at++) { /* both places in a character of two bytes */
        json_t *report;

        strcpy(id, at ? "x" : "");
        for (int i = 0; i < 100; i++)
            strcat(id, "\xc3\xa9");
        snprintf(plan, sizeof(plan),
                 "{\"id\": \"%s\", " TINY_MODEL("1000") ", " TINY_TRAINING("128") "}", id);
        report = estimate(plan, NULL);
        ck_assert_uint_eq(json_string_length(json_object_get(report, "id")), at ? 127 : 126);
        json_decref(report);
    }
}
END_TEST

/* What compiling takes is in no figure, and the report says so. */
static const struct {
    const char *attention;
    bool is_told;
} told_table[] = {{"sdpa", false}, {"flex_attention", true}};

START_TEST(compiled_attention_is_told)
{
    const json_t *note;
    char plan[512];
    json_t *report;
    bool is_told = false;
    size_t i;

    snprintf(plan, sizeof(plan),
             "{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 256, \"attention\": "
                                    "\"%s\"}}",
             told_table[_i].attention);
    report = estimate(plan, NULL);
    json_array_foreach(json_object_get(report, "notes"), i, note)
    {
        const char *code = json_string_value(json_object_get(note, "code"));

        is_told |= code && !strcmp(code, "N002");
    }
    ck_assert_int_eq(is_told, told_table[_i].is_told);
    json_decref(report);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("report");

    tcase_add_test(tcase, every_key_of_the_page_is_there);
    tcase_add_test(tcase, page_shows_every_key);
    tcase_add_test(tcase, no_device_no_capacity);
    tcase_add_test(tcase, readings_can_be_ignored);
    tcase_add_test(tcase, figures_add_up);
    tcase_add_test(tcase, long_text_is_cut_between_characters);
    tcase_add_loop_test(tcase, compiled_attention_is_told, 0, ROWS(told_table));
    return test_run("report", tcase);
}
