/* SPDX-License-Identifier: MIT */
/* The public interface from outside: memplan.h alone, linked to the shared library. */
#include <memplan.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

static struct memplan_error err;

static struct memplan_plan *load(const char *json)
{
    struct memplan_plan *plan = NULL;

    ck_assert_msg(!memplan_plan_load(json, strlen(json), "plan.json", &plan, &err), "%s", err.text);
    return plan;
}

static struct memplan_report *estimate(const struct memplan_plan *plan)
{
    struct memplan_report *report = NULL;

    ck_assert_msg(!memplan_estimate(plan, NULL, &report, &err), "%s", err.text);
    ck_assert_int_eq(err.status, MEMPLAN_OK);
    return report;
}

static char *report_json(const struct memplan_report *report)
{
    char *json = NULL;

    ck_assert_int_eq(memplan_report_to_json(report, &json, &err), MEMPLAN_OK);
    return json;
}

static char *plan_json(const struct memplan_plan *plan)
{
    char *json = NULL;

    ck_assert_int_eq(memplan_plan_to_json(plan, &json, &err), MEMPLAN_OK);
    return json;
}

#define PLAN TINY_PLAN("1024", "60000000")

/* ---- arguments --------------------------------------------------------------------------------
 */

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        ck_assert_int_eq((call), MEMPLAN_ERR_ARG);                                                 \
        ck_assert_int_eq(err.status, MEMPLAN_ERR_ARG);                                             \
        ck_assert_uint_gt(strlen(err.text), 0);                                                    \
    } while (0)

START_TEST(weights_need_their_arguments)
{
    static const unsigned char file[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    static const unsigned char huge[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    struct memplan_weights *weights = NULL;
    char *json = NULL;

    REFUSED(memplan_weights_new(NULL, &err));
    ck_assert_int_eq(memplan_weights_new(&weights, &err), MEMPLAN_OK);
    REFUSED(memplan_weights_add(NULL, "a", file, sizeof(file), sizeof(file), &err));
    REFUSED(memplan_weights_add(weights, NULL, file, sizeof(file), sizeof(file), &err));
    REFUSED(memplan_weights_add(weights, "a", NULL, sizeof(file), sizeof(file), &err));
    REFUSED(memplan_weights_add(weights, "a", file, 9, sizeof(file), &err)); /* one is missing */
    REFUSED(memplan_weights_add_index(weights, "a", NULL, 0, &err));
    REFUSED(memplan_weights_to_json(NULL, &json, &err));
    REFUSED(memplan_weights_to_json(weights, NULL, &err));
    ck_assert_uint_eq(memplan_weights_header(file, sizeof(file)), 10);
    ck_assert_uint_eq(memplan_weights_header(file, 9), 8); /* longer than the file */
    ck_assert_uint_eq(memplan_weights_header(huge, UINT64_MAX), 8);
    ck_assert_ptr_null(memplan_weights_shard(weights, 0));
    ck_assert_int_eq(memplan_weights_add(weights, "a", file, sizeof(file), sizeof(file), &err),
                     MEMPLAN_OK);
    ck_assert_int_eq(memplan_weights_to_json(weights, &json, &err), MEMPLAN_OK);
    memplan_free(json);
    memplan_weights_free(weights);
    memplan_weights_free(NULL);
}
END_TEST

START_TEST(null_arguments)
{
    struct memplan_plan *plan = load(PLAN), *other = NULL;
    struct memplan_report *report = estimate(plan), *second = NULL;
    struct memplan_summary summary = {.size = sizeof(summary)};
    char *text = NULL;

    REFUSED(memplan_plan_load(NULL, 0, "s", &other, &err));
    REFUSED(memplan_plan_load("{}", 2, "s", NULL, &err));
    REFUSED(memplan_plan_set(NULL, "name=a", &err));
    REFUSED(memplan_plan_set(plan, NULL, &err));
    REFUSED(memplan_plan_check(NULL, &err));
    REFUSED(memplan_plan_to_json(NULL, &text, &err));
    REFUSED(memplan_plan_to_json(plan, NULL, &err));
    REFUSED(memplan_estimate(NULL, NULL, &second, &err));
    REFUSED(memplan_estimate(plan, NULL, NULL, &err));
    REFUSED(memplan_report_summary(NULL, &summary, &err));
    REFUSED(memplan_report_summary(report, NULL, &err));
    REFUSED(memplan_report_to_json(NULL, &text, &err));
    REFUSED(memplan_report_to_json(report, NULL, &err));
    REFUSED(memplan_report_dump(NULL, MEMPLAN_STAGE_SPEC, &text, &err));
    REFUSED(memplan_report_dump(report, MEMPLAN_STAGE_SPEC, NULL, &err));
    REFUSED(memplan_report_dump(report, MEMPLAN_STAGE_SPEC, &text, &err)); /* not asked for */
    REFUSED(memplan_plan_schema(NULL, &err));
    ck_assert(!other && !second && !text);
    ck_assert_int_eq(memplan_plan_field(0, NULL), 0);
    ck_assert_int_eq(memplan_report_verdict(NULL), MEMPLAN_CANNOT_TELL);
    ck_assert_str_eq(memplan_report_reason(NULL), "");
    memplan_plan_free(NULL);
    memplan_report_free(NULL);
    memplan_free(NULL);
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

/* The error is optional, and so is the source's name. */
START_TEST(no_error_wanted)
{
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;

    ck_assert_int_eq(memplan_plan_load("{", 1, NULL, &plan, NULL), MEMPLAN_ERR_SYNTAX);
    ck_assert_ptr_null(plan);
    ck_assert_int_eq(memplan_plan_load(PLAN, strlen(PLAN), NULL, &plan, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_plan_set(plan, "no.such=1", NULL), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(memplan_estimate(plan, NULL, &report, NULL), MEMPLAN_OK);
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

/* A call that succeeds leaves nothing of the last one's error. */
START_TEST(error_is_of_the_last_call)
{
    struct memplan_plan *plan = NULL;

    memset(&err, 0x5a, sizeof(err));
    ck_assert_int_eq(memplan_plan_load("{\n x", 4, "a.json", &plan, &err), MEMPLAN_ERR_SYNTAX);
    ck_assert_str_eq(err.source, "a.json");
    ck_assert_uint_eq(err.line, 2);
    plan = load(PLAN);
    ck_assert(err.status == MEMPLAN_OK && !err.text[0] && !err.source[0] && !err.line);
    memplan_plan_free(plan);
}
END_TEST

static const double wrong_risk[] = {-1, -1e-9, 0.5, 1, 1e300};

START_TEST(risk_is_checked)
{
    const struct memplan_options options = {.size = sizeof(options), .risk = wrong_risk[_i]};
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = NULL;

    REFUSED(memplan_estimate(plan, &options, &report, &err));
    ck_assert_ptr_null(report);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(risk_that_is_no_number)
{
    struct memplan_options options = {.size = sizeof(options)};
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = NULL;
    const uint64_t bits = UINT64_C(0x7ff8000000000000);

    memcpy(&options.risk, &bits, sizeof(bits));
    REFUSED(memplan_estimate(plan, &options, &report, &err));
    memplan_plan_free(plan);
}
END_TEST

/* ---- structs that grow ------------------------------------------------------------------------
 */

/* A caller's struct as a newer header might have it. */
struct newer_summary {
    struct memplan_summary known;
    uint64_t unknown[4];
};

/* Sizes of older headers cut the struct after any member; nothing is written past them. */
START_TEST(summary_of_an_older_caller)
{
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = estimate(plan);
    struct memplan_summary whole = {.size = sizeof(whole)};

    ck_assert_int_eq(memplan_report_summary(report, &whole, &err), MEMPLAN_OK);
    for (size_t size = 0; size <= sizeof(whole); size++) {
        struct memplan_summary cut;

        memset(&cut, 0x5a, sizeof(cut));
        cut.size = size;
        ck_assert_int_eq(memplan_report_summary(report, &cut, &err), MEMPLAN_OK);
        if (size >= sizeof(cut.size))
            ck_assert_uint_eq(cut.size, size);
        for (size_t i = sizeof(cut.size); i < sizeof(cut); i++)
            ck_assert_int_eq(((unsigned char *)&cut)[i],
                             i < size ? ((unsigned char *)&whole)[i] : 0x5a);
    }
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(summary_of_a_newer_caller)
{
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = estimate(plan);
    struct newer_summary newer;

    memset(&newer, 0x5a, sizeof(newer));
    newer.known.size = sizeof(newer);
    ck_assert_int_eq(memplan_report_summary(report, &newer.known, &err), MEMPLAN_OK);
    ck_assert_uint_eq(newer.known.size, sizeof(newer.known)); /* how much of it is known */
    for (int i = 0; i < ROWS(newer.unknown); i++)
        ck_assert_uint_eq(newer.unknown[i], 0);
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

struct newer_options {
    struct memplan_options known;
    uint64_t unknown[4];
};

/* What an older caller does not know keeps its default; what a newer one adds and leaves at zero is
 * a default. */
START_TEST(options_of_other_callers)
{
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = NULL;
    struct newer_options newer = {.known = {.size = sizeof(newer), .risk = 0.02}};
    struct memplan_options older = {.size = offsetof(struct memplan_options, no_suggestions),
                                    .risk = 0.02,
                                    .no_suggestions = 0x5a5a5a5a,
                                    .dump_stages = 0x5a5a5a5a};
    struct memplan_options equal = {.size = sizeof(equal), .risk = 0.02}, none = {.risk = 7};
    char *json[4];

    ck_assert_int_eq(memplan_estimate(plan, &equal, &report, &err), MEMPLAN_OK);
    json[0] = report_json(report);
    memplan_report_free(report);
    ck_assert_int_eq(memplan_estimate(plan, &newer.known, &report, &err), MEMPLAN_OK);
    json[1] = report_json(report);
    memplan_report_free(report);
    ck_assert_int_eq(memplan_estimate(plan, &older, &report, &err), MEMPLAN_OK);
    json[2] = report_json(report);
    memplan_report_free(report);
    ck_assert_str_eq(json[0], json[1]);
    ck_assert_str_eq(json[0], json[2]);
    /* size 0: nothing is read, the defaults hold */
    ck_assert_int_eq(memplan_estimate(plan, &none, &report, &err), MEMPLAN_OK);
    json[3] = report_json(report);
    ck_assert_ptr_nonnull(strstr(json[3], "\"risk\":0.01,"));
    memplan_report_free(report);
    for (int i = 0; i < 4; i++)
        memplan_free(json[i]);
    memplan_plan_free(plan);
}
END_TEST

/* An option of a newer caller that is set is something this library does not do. */
START_TEST(unknown_option_is_refused)
{
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = NULL;
    struct newer_options newer = {.known = {.size = sizeof(newer)}, .unknown = {0, 1}};

    REFUSED(memplan_estimate(plan, &newer.known, &report, &err));
    ck_assert_ptr_null(report);
    memplan_plan_free(plan);
}
END_TEST

/* ---- plans ------------------------------------------------------------------------------------
 */

static const char *const wrong_assignment[] = {
    "",
    "=",
    "training.sequence_length",
    "training.sequence_length=-1",
    "training.sequence_length=many",
    "training.sequence_length={\"any_of\": []}",
    "training.sequence_lenght=128",
    "training=[1]",
    "training.optimizer.name=adamww",
    "name=\xff",
    "model.vocab_size.deeper=1",
    "observations=[{\"bytes\": 1}]",
    "device.gpu={",
};

/* An assignment may fail at once or in the check that follows; one that fails changes nothing. */
START_TEST(set_that_fails_changes_nothing)
{
    struct memplan_plan *plan = load(PLAN);
    char *before = plan_json(plan), *after;
    const enum memplan_status status = memplan_plan_set(plan, wrong_assignment[_i], &err);

    ck_assert(err.status == status && (status != MEMPLAN_OK) == (err.text[0] != '\0'));
    after = plan_json(plan);
    if (status) {
        ck_assert_str_eq(before, after);
        ck_assert_int_eq(memplan_plan_check(plan, &err), MEMPLAN_OK);
    } else {
        ck_assert_int_ne(memplan_plan_check(plan, &err), MEMPLAN_OK);
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    memplan_free(before);
    memplan_free(after);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(outputs_are_untouched_on_failure)
{
    struct memplan_plan *const here = (struct memplan_plan *)&err, *plan = here;
    struct memplan_report *const there = (struct memplan_report *)&err, *report = there;
    struct memplan_plan *invalid;

    ck_assert_int_ne(memplan_plan_load("[]", 2, "s", &plan, &err), MEMPLAN_OK);
    ck_assert_ptr_eq(plan, here);
    invalid = load("{" TINY_MODEL("-5") ", " TINY_TRAINING("128") "}");
    ck_assert_int_eq(memplan_estimate(invalid, NULL, &report, &err), MEMPLAN_ERR_VALUE);
    ck_assert_str_eq(err.path, "/model/vocab_size");
    ck_assert_ptr_eq(report, there);
    memplan_plan_free(invalid);
}
END_TEST

/* The plan keeps nothing of the caller's text, the report nothing of the plan. */
START_TEST(objects_own_what_they_hold)
{
    char text[] = PLAN;
    struct memplan_plan *plan = NULL;
    struct memplan_report *report;
    char *before, *after;

    ck_assert_int_eq(memplan_plan_load(text, strlen(text), "s", &plan, &err), MEMPLAN_OK);
    memset(text, 'x', sizeof(text));
    report = estimate(plan);
    before = report_json(report);
    ck_assert_int_eq(memplan_plan_set(plan, "training.sequence_length=64", &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_plan_set(plan, "name=other", &err), MEMPLAN_OK);
    memplan_report_free(estimate(plan));
    memplan_plan_free(plan);
    after = report_json(report);
    ck_assert_str_eq(before, after);
    memplan_report_free(report);
    ck_assert_uint_gt(strlen(after), 100); /* the text outlives the report */
    memplan_free(before);
    memplan_free(after);
}
END_TEST

static const char *const plan_table[] = {
    PLAN,
    "{" TINY_MODEL("{\"any_of\": [1000, 1200]}") ", " TINY_TRAINING(
        "512") ", "
               "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4},"
               " \"device\": {\"gpu\": \"RTX 4090\"},"
               " \"observations\": [{\"sequence_length\": 256, \"bytes\": \"30 MB\"}]}",
};

START_TEST(estimating_twice_gives_the_same_text)
{
    struct memplan_plan *plan = load(plan_table[_i]);
    struct memplan_report *first = estimate(plan), *second = estimate(plan);
    char *a = report_json(first), *b = report_json(second);

    ck_assert_str_eq(a, b);
    memplan_free(a);
    memplan_free(b);
    memplan_report_free(first);
    memplan_report_free(second);
    memplan_plan_free(plan);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------------
 */

/* Loads and estimates its own plan; a text, or NULL. Check's assertions stay in the main thread. */
static void *work(void *json)
{
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;
    char *text = NULL;

    if (!memplan_plan_load(json, strlen(json), "s", &plan, NULL) &&
        !memplan_estimate(plan, NULL, &report, NULL))
        memplan_report_to_json(report, &text, NULL);
    memplan_report_free(report);
    memplan_plan_free(plan);
    return text;
}

START_TEST(threads_give_the_same_answers)
{
    char *alone[ROWS(plan_table)];

    for (int i = 0; i < ROWS(plan_table); i++) {
        alone[i] = work((void *)(uintptr_t)plan_table[i]);
        ck_assert_ptr_nonnull(alone[i]);
    }
    for (int round = 0; round < 3; round++) {
        pthread_t threads[2 * ROWS(plan_table)];

        for (int i = 0; i < ROWS(threads); i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, work,
                                            (void *)(uintptr_t)plan_table[i % ROWS(plan_table)]),
                             0);
        for (int i = 0; i < ROWS(threads); i++) {
            void *text = NULL;

            ck_assert_int_eq(pthread_join(threads[i], &text), 0);
            ck_assert_ptr_nonnull(text);
            ck_assert_str_eq(text, alone[i % ROWS(plan_table)]);
            memplan_free(text);
        }
    }
    for (int i = 0; i < ROWS(plan_table); i++)
        memplan_free(alone[i]);
}
END_TEST

/* ---- the rest ---------------------------------------------------------------------------------
 */

START_TEST(dumps_that_were_asked_for)
{
    const struct memplan_options options = {
        .size = sizeof(options),
        .no_suggestions = 1,
        .dump_stages = MEMPLAN_STAGE_SPEC | MEMPLAN_STAGE_TIMELINE | MEMPLAN_STAGE_REPLAY};
    static const enum memplan_stage stages[] = {MEMPLAN_STAGE_SPEC, MEMPLAN_STAGE_TIMELINE,
                                                MEMPLAN_STAGE_REPLAY};
    static const char *const holds[] = {"\"intermediate_size\"", "alloc\t0\t", "\nneeds\t"};
    struct memplan_plan *plan = load(PLAN);
    struct memplan_report *report = NULL;

    ck_assert_int_eq(memplan_estimate(plan, &options, &report, &err), MEMPLAN_OK);
    for (int i = 0; i < ROWS(stages); i++) {
        char *text = NULL;

        ck_assert_int_eq(memplan_report_dump(report, stages[i], &text, &err), MEMPLAN_OK);
        ck_assert_msg(strstr(text, holds[i]) != NULL, "%s", text);
        memplan_free(text);
    }
    memplan_report_free(report);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(fields_and_names)
{
    struct memplan_field field;
    size_t count = 0;
    bool has_length = false;

    for (; memplan_plan_field(count, &field); count++) {
        ck_assert(field.path && field.type && field.range && field.fallback && field.help[0]);
        has_length = has_length || !strcmp(field.path, "training.sequence_length");
    }
    ck_assert(count > 50 && has_length);
    ck_assert_str_eq(memplan_version(), MEMPLAN_VERSION_STRING);
    ck_assert_str_eq(memplan_verdict_name(MEMPLAN_DOES_NOT_FIT), "does_not_fit");
    ck_assert_str_eq(memplan_verdict_name((enum memplan_verdict)77), "unknown");
    for (int i = 0; i <= MEMPLAN_ERR_INTERNAL; i++)
        ck_assert_str_ne(memplan_status_name((enum memplan_status)i), "unknown");
    ck_assert_str_eq(memplan_status_name((enum memplan_status)77), "unknown");
}
END_TEST

/* A list, the field that takes its words, and one word that it must hold. */
static const struct {
    enum memplan_list list;
    const char *field, *word;
} list_table[] = {
    {MEMPLAN_LIST_FAMILIES, "model.model_type", "qwen3"},
    {MEMPLAN_LIST_OPTIMIZERS, "training.optimizer.name", "adafactor"},
    {MEMPLAN_LIST_ATTENTION, "training.attention", "eager"},
    {MEMPLAN_LIST_LOSSES, "training.loss.name", "cross_entropy"},
};

START_TEST(lists_hold_words_that_are_accepted)
{
    struct memplan_plan *plan = load(PLAN);
    struct memplan_entry entry;
    bool has_word = false;

    for (size_t i = 0; memplan_list_entry(list_table[_i].list, i, &entry); i++) {
        char assignment[96];

        snprintf(assignment, sizeof(assignment), "%s=%s", list_table[_i].field, entry.name);
        ck_assert_msg(!memplan_plan_set(plan, assignment, &err), "%s", err.text);
        ck_assert_msg(entry.help && entry.help[0] && !strchr(entry.help, '\n'), "%s", entry.name);
        has_word = has_word || strcmp(entry.name, list_table[_i].word) == 0;
    }
    ck_assert(has_word);
    memplan_plan_free(plan);
}
END_TEST

START_TEST(no_list_past_the_last)
{
    struct memplan_entry entry;

    ck_assert_int_eq(memplan_list_entry(MEMPLAN_LIST_OPTIMIZERS, SIZE_MAX, &entry), 0);
    ck_assert_int_eq(memplan_list_entry((enum memplan_list)99, 0, &entry), 0);
    ck_assert_int_eq(memplan_list_entry(MEMPLAN_LIST_FAMILIES, 0, NULL), 0);
}
END_TEST

START_TEST(cards_are_listed)
{
    struct memplan_gpu gpu = {.size = sizeof(gpu)};
    size_t i;

    for (i = 0; memplan_gpu_entry(i, &gpu); i++) {
        ck_assert(gpu.size == sizeof(gpu) && gpu.name[0] && gpu.source[0]);
        ck_assert(gpu.total_known != MEMPLAN_NOT_KNOWN && gpu.total_bytes);
        ck_assert((gpu.context_high_bytes != 0) == (gpu.context_source[0] != 0));
    }
    ck_assert_uint_ge(i, 107); /* 74 cards and 33 MIG instances */
    ck_assert_int_eq(memplan_gpu_entry(0, NULL), 0);
    ck_assert_int_eq(memplan_gpu_entry(SIZE_MAX, &gpu), 0);
}
END_TEST

/* 81082 MiB as PyTorch prints it, 81559 as nvidia-smi does. */
START_TEST(card_is_found)
{
    struct memplan_gpu gpu = {.size = sizeof(gpu)};

    ck_assert_int_eq(memplan_gpu_find("nvidia h100 80gb hbm3", &gpu, &err), MEMPLAN_OK);
    ck_assert_uint_eq(gpu.total_bytes, UINT64_C(81082) << 20);
    ck_assert_uint_eq(gpu.smi_total_bytes, UINT64_C(81559) << 20);
    ck_assert_int_eq(gpu.smi_total_known, MEMPLAN_MEASURED);
    ck_assert_int_eq(memplan_gpu_find("RTX 4091", &gpu, &err), MEMPLAN_ERR_VALUE);
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean NVIDIA GeForce RTX 4090?"));
    ck_assert_int_eq(memplan_gpu_find(NULL, &gpu, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_gpu_find("H200", NULL, NULL), MEMPLAN_ERR_ARG);
}
END_TEST

START_TEST(libraries_are_listed)
{
    struct memplan_library library = {.size = sizeof(library)};
    struct {
        struct memplan_library library;
        char more[16];
    } wide;
    size_t i;

    for (i = 0; memplan_library_entry(i, &library); i++)
        ck_assert(library.name[0] && library.source[0] && library.low_bytes <= library.high_bytes);
    ck_assert_uint_ge(i, 8);
    ck_assert_int_eq(memplan_library_entry(0, NULL), 0);
    memset(&wide, 0x55, sizeof(wide));
    wide.library.size = sizeof(wide);
    ck_assert(memplan_library_entry(0, &wide.library) && wide.more[0] == 0);
}
END_TEST

/* A caller built with another header. */
START_TEST(card_of_another_size)
{
    struct {
        struct memplan_gpu gpu;
        char more[32];
    } wide;
    struct memplan_gpu narrow;

    memset(&wide, 0x55, sizeof(wide));
    wide.gpu.size = sizeof(wide);
    ck_assert(memplan_gpu_entry(0, &wide.gpu) && wide.gpu.size == sizeof(struct memplan_gpu));
    ck_assert(wide.more[0] == 0 && wide.more[31] == 0);
    memset(&narrow, 0x55, sizeof(narrow));
    narrow.size = offsetof(struct memplan_gpu, aliases);
    ck_assert(memplan_gpu_entry(0, &narrow) && narrow.name[0]);
    ck_assert(*(unsigned char *)&narrow.notes == 0x55);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("api");

    tcase_add_test(tcase, null_arguments);
    tcase_add_test(tcase, weights_need_their_arguments);
    tcase_add_test(tcase, no_error_wanted);
    tcase_add_test(tcase, error_is_of_the_last_call);
    tcase_add_loop_test(tcase, risk_is_checked, 0, ROWS(wrong_risk));
    tcase_add_test(tcase, risk_that_is_no_number);
    tcase_add_test(tcase, summary_of_an_older_caller);
    tcase_add_test(tcase, summary_of_a_newer_caller);
    tcase_add_test(tcase, options_of_other_callers);
    tcase_add_test(tcase, unknown_option_is_refused);
    tcase_add_loop_test(tcase, set_that_fails_changes_nothing, 0, ROWS(wrong_assignment));
    tcase_add_test(tcase, outputs_are_untouched_on_failure);
    tcase_add_test(tcase, objects_own_what_they_hold);
    tcase_add_loop_test(tcase, estimating_twice_gives_the_same_text, 0, ROWS(plan_table));
    tcase_add_test(tcase, threads_give_the_same_answers);
    tcase_add_test(tcase, dumps_that_were_asked_for);
    tcase_add_test(tcase, fields_and_names);
    tcase_add_loop_test(tcase, lists_hold_words_that_are_accepted, 0, ROWS(list_table));
    tcase_add_test(tcase, no_list_past_the_last);
    tcase_add_test(tcase, cards_are_listed);
    tcase_add_test(tcase, card_is_found);
    tcase_add_test(tcase, libraries_are_listed);
    tcase_add_test(tcase, card_of_another_size);
    return test_run("api", tcase);
}
