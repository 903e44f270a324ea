/* SPDX-License-Identifier: MIT */
/* Unit tests of reading untrusted JSON: form, limits, positions, hostile input. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/json.h"
#include "spec/spec.h"

static struct memplan_error err;

static enum memplan_status read_text(const char *text, json_t **json_out)
{
    memset(&err, 0, sizeof(err));
    return mpl_json_read(text, strlen(text), json_out, &err);
}

static const struct {
    const char *text;
    enum memplan_status status;
    uint32_t line, column;
    uint64_t offset;
} form_table[] = {
    {"{\"a\": 1}", MEMPLAN_OK, 0, 0, 0},
    {"\xef\xbb\xbf{\"a\": 1}", MEMPLAN_OK, 0, 0, 0},
    {"[Infinity, -Infinity, NaN]", MEMPLAN_OK, 0, 0, 0},
    {"", MEMPLAN_ERR_SYNTAX, 1, 0, 0},
    {"{\"a\": 1", MEMPLAN_ERR_SYNTAX, 1, 7, 7},
    {"{\n \"a\": x}", MEMPLAN_ERR_SYNTAX, 2, 7, 9},
    {"\xef\xbb\xbf{\n \"a\": x}", MEMPLAN_ERR_SYNTAX, 2, 7, 12},
    {"{\"a\": Infinity, \"b\": x}", MEMPLAN_ERR_SYNTAX, 1, 22, 22},
    {"{\"a\": 1, \"a\": 2}", MEMPLAN_ERR_SYNTAX, 1, 12, 12},
    {"{\"a\": 1} {}", MEMPLAN_ERR_SYNTAX, 1, 10, 10},
    {"{\"a\": 1e400}", MEMPLAN_ERR_VALUE, 1, 11, 11},
    {"[123456789012345678901234567890]", MEMPLAN_ERR_VALUE, 1, 31, 31},
    {"[\"\xff\"]", MEMPLAN_ERR_SYNTAX, 1, 2, 2},
    {"[\"\\u0000\"]", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"['a']", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"[1,]", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"[01]", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"[\"a\nb\"]", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"]", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
    {"Infinit", MEMPLAN_ERR_SYNTAX, 0, 0, 0},
};

START_TEST(form)
{
    json_t *json = NULL;
    enum memplan_status status = read_text(form_table[_i].text, &json);

    ck_assert_msg(status == form_table[_i].status, "%s: %d %s", form_table[_i].text, (int)status,
                  err.text);
    if (form_table[_i].line) {
        ck_assert_msg(err.line == form_table[_i].line && err.column == form_table[_i].column &&
                          err.offset == form_table[_i].offset,
                      "%s: line %u, column %u, offset %llu", form_table[_i].text, err.line,
                      err.column, (unsigned long long)err.offset);
    }
    ck_assert(status || json);
    json_decref(json);
}
END_TEST

START_TEST(words_inside_strings_stay)
{
    json_t *json = NULL;

    ck_assert_int_eq(read_text("{\"a\": \"\\\" Infinity [NaN\", \"NaN\": -Infinity}", &json), 0);
    ck_assert_str_eq(json_string_value(json_object_get(json, "a")), "\" Infinity [NaN");
    ck_assert(json_is_null(json_object_get(json, "NaN")));
    json_decref(json);
}
END_TEST

/* depth nested lists, closed. */
static char *nested(size_t depth)
{
    char *text = calloc(1, 2 * depth + 1);

    ck_assert_ptr_nonnull(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

START_TEST(nesting_is_limited)
{
    static const struct {
        size_t depth;
        enum memplan_status status;
    } table[] = {{64, MEMPLAN_OK}, {65, MEMPLAN_ERR_LIMIT}, {100000, MEMPLAN_ERR_LIMIT}};

    for (size_t i = 0; i < 3; i++) {
        char *text = nested(table[i].depth);
        json_t *json = NULL;

        ck_assert_int_eq(read_text(text, &json), table[i].status);
        if (table[i].status)
            ck_assert_uint_eq(err.offset, 64);
        json_decref(json);
        free(text);
    }
}
END_TEST

START_TEST(size_is_limited)
{
    json_t *json = NULL;

    memset(&err, 0, sizeof(err));
    /* The length is looked at before the bytes. */
    ck_assert_int_eq(mpl_json_read("[]", MPL_JSON_MOST_BYTES + 1, &json, &err), MEMPLAN_ERR_LIMIT);
    ck_assert_ptr_null(json);
}
END_TEST

START_TEST(null_input)
{
    struct mpl_spec *spec = NULL;

    ck_assert_int_eq(mpl_spec_load(NULL, 3, "x", &spec, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(mpl_spec_load("{}", 2, "x", NULL, NULL), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(mpl_spec_load(NULL, 0, NULL, &spec, NULL), MEMPLAN_ERR_SYNTAX);
    ck_assert_int_eq(mpl_spec_load("[]", 2, NULL, &spec, NULL), MEMPLAN_ERR_VALUE);
    ck_assert_ptr_null(spec);
    mpl_spec_free(NULL);
}
END_TEST

/* A plan with most kinds of members, whole and broken in every way below. */
static const char whole_plan[] =
    "{\"name\": \"a\\u00e9\", \"model\": {\"model_type\": \"llama\", \"hidden_size\": 256,"
    " \"intermediate_size\": 688, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    " \"vocab_size\": 1e3, \"limits\": [0.5, Infinity]},"
    " \"training\": {\"sequence_length\": {\"any_of\": [128, 256], \"why\": \"open\"}},"
    " \"device\": {\"total_bytes\": \"79.5 GiB\", \"compute_capability\": \"9.0\"},"
    " \"observations\": [{\"sequence_length\": 64, \"bytes\": \"1.5\","
    " \"unit\": {\"any_of\": [\"GB\", \"GiB\"]}, \"set\": {\"training.steps\": 2}}]}";

/* Loads bytes as a plan and uses it; only the status is asked for. */
static enum memplan_status use(const char *text, size_t len)
{
    static struct mpl_plan plan;
    struct mpl_spec *spec = NULL;
    enum memplan_status status;
    char *exact = malloc(len + 1), *json = NULL;

    ck_assert_ptr_nonnull(exact);
    memcpy(exact, text, len);
    memset(&err, 0, sizeof(err));
    status = mpl_spec_load(exact, len, "x", &spec, &err);
    free(exact);
    if (!status)
        status = mpl_spec_check(spec, &err);
    if (!status)
        status = mpl_spec_bind_reading(spec, 0, 0, &plan, &err);
    if (spec && !mpl_spec_to_json(spec, &json, NULL))
        free(json);
    mpl_spec_free(spec);
    ck_assert_int_eq(err.status, status);
    return status;
}

START_TEST(cut_anywhere)
{
    size_t len = strlen(whole_plan);

    ck_assert_msg(use(whole_plan, len) == MEMPLAN_OK, "%s", err.text);
    for (size_t i = 0; i < len; i++)
        ck_assert_int_eq(use(whole_plan, i), MEMPLAN_ERR_SYNTAX);
}
END_TEST

START_TEST(one_byte_changed)
{
    static const char others[] = "\"{}[],:0-x\x80";
    char text[sizeof(whole_plan)];

    for (size_t i = 0; i + 1 < sizeof(whole_plan); i++)
        for (size_t j = 0; j < sizeof(others); j++) {
            memcpy(text, whole_plan, sizeof(text));
            text[i] = others[j];
            use(text, sizeof(text) - 1); /* any status, no crash */
        }
}
END_TEST

START_TEST(value_errors_never_split_characters)
{
    static const char text[] =
        "{\"model\": {\"model_type\": \"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"}}";
    json_t *json;

    ck_assert_int_eq(use(text, strlen(text)), MEMPLAN_ERR_VALUE);
    json = json_string(err.text); /* NULL when it is not UTF-8 */
    ck_assert_ptr_nonnull(json);
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ingest");
    TCase *tcase = tcase_create("json");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, form, 0, sizeof(form_table) / sizeof(form_table[0]));
    tcase_add_test(tcase, words_inside_strings_stay);
    tcase_add_test(tcase, nesting_is_limited);
    tcase_add_test(tcase, size_is_limited);
    tcase_add_test(tcase, null_input);
    tcase_add_test(tcase, cut_anywhere);
    tcase_add_test(tcase, one_byte_changed);
    tcase_add_test(tcase, value_errors_never_split_characters);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
