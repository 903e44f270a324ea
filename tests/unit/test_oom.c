/* SPDX-License-Identifier: MIT */
/*
 * Each of the library's own allocations fails once: a right answer or MEMPLAN_ERR_NOMEM, no crash,
 * nothing left behind. The linker sends the calls of the library's and the test's objects here;
 * those of shared libraries are not touched.
 */
#include <memplan.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);

/* ---- counting allocations ---------------------------------------------------------------------
 */

static struct {
    size_t count;   /* allocations asked for */
    size_t fail_at; /* number of the one that fails, from 1; 0: none */
    bool fails_on;  /* and all later ones */
    void *live[4096];
    size_t live_count;
} heap;

static bool must_fail(void)
{
    heap.count++;
    return heap.fail_at &&
           (heap.fails_on ? heap.count >= heap.fail_at : heap.count == heap.fail_at);
}

static void *born(void *ptr)
{
    if (ptr && heap.live_count < sizeof(heap.live) / sizeof(heap.live[0]))
        heap.live[heap.live_count++] = ptr;
    return ptr;
}

/* Pointers that a shared library allocated are not in the list. */
static void died(const void *ptr)
{
    for (size_t i = heap.live_count; ptr && i-- > 0;)
        if (heap.live[i] == ptr) {
            heap.live[i] = heap.live[--heap.live_count];
            return;
        }
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : born(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : born(__real_calloc(count, size));
}

void *__wrap_realloc(void *ptr, size_t size)
{
    if (must_fail())
        return NULL;
    died(ptr);
    return born(__real_realloc(ptr, size));
}

void __wrap_free(void *ptr)
{
    died(ptr);
    __real_free(ptr);
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static const char *const plan_table[] = {
    TINY_PLAN("256", "60000000"),
    "{\"id\": \"a\", " TINY_MODEL("{\"any_of\": [1000, 1200]}") ", " TINY_TRAINING(
        "256") ", "
               "\"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 2},"
               " \"device\": {\"gpu\": \"RTX 4090\"},"
               " \"observations\": [{\"sequence_length\": 128, \"bytes\": \"20 MB\"}]}",
    "{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 256, \"attention\": \"eager\","
                           " \"activation_checkpointing\": \"full\", \"autocast\": \"bfloat16\","
                           " \"padding\": true, \"optimizer\": {\"name\": \"muon\"}}}",
    "{" TINY_MODEL(
        "1000") ", \"training\": {\"sequence_length\": 256, \"autocast\": \"bfloat16\"},"
                " \"parallelism\": {\"strategy\": \"ddp\", \"world_size\": 4, \"zero1\": true,"
                " \"parameters_as_bucket_view\": true, \"gradient_as_bucket_view\": true,"
                " \"find_unused_parameters\": true}}",
    "{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 256,"
                           " \"activation_checkpointing\": \"full\"},"
                           " \"parallelism\": {\"strategy\": \"fsdp1\", \"world_size\": 3,"
                           " \"param_dtype\": \"bfloat16\", \"sync_module_states\": true}}",
    "{" TINY_MODEL(
        "1000") ", \"training\": {\"sequence_length\": 256, \"parameter_dtype\": \"bfloat16\"},"
                " \"parallelism\": {\"strategy\": \"zero2\", \"world_size\": 4,"
                " \"reduce_bucket_size\": 100000, \"overlap_comm\": true}}",
    "{\"model\": {\"model_type\": \"eagle3\", \"hidden_size\": 256, \"intermediate_size\": 512,"
    " \"num_attention_heads\": 4, \"vocab_size\": 1000, \"draft_vocab_size\": 500},"
    " \"training\": {\"sequence_length\": 256, \"ttt_steps\": 2},"
    " \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 2}}",
};

/* Load, set, estimate, JSON. *json_out is new, NULL on failure. */
static enum memplan_status run(const char *text, char **json_out, struct memplan_error *err)
{
    const struct memplan_options options = {
        .size = sizeof(options), .no_suggestions = 1, .dump_stages = MEMPLAN_STAGE_REPLAY};
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;
    char *dump = NULL;
    enum memplan_status status = memplan_plan_load(text, strlen(text), "plan", &plan, err);

    if (!status)
        status = memplan_plan_set(plan, "training.sequence_length=128", err);
    if (!status)
        status = memplan_estimate(plan, &options, &report, err);
    if (!status)
        status = memplan_report_dump(report, MEMPLAN_STAGE_REPLAY, &dump, err);
    if (!status)
        status = memplan_report_to_json(report, json_out, err);
    memplan_free(dump);
    memplan_report_free(report);
    memplan_plan_free(plan);
    return status;
}

/* All of them when there are few, else about this many, and always the first ones. */
#define MOST_RUNS 150

static void fail_each(const char *text, bool fails_on)
{
    struct memplan_error err;
    char *expected = NULL, *json;
    size_t total, stride, live_before;

    heap.fail_at = heap.count = 0;
    ck_assert_msg(!run(text, &expected, &err), "%s", err.text);
    total = heap.count;
    stride = 1 + total / MOST_RUNS;
    live_before = heap.live_count;
    ck_assert_uint_gt(total, 20);
    for (size_t n = 1; n <= total; n += n < 40 ? 1 : stride) {
        enum memplan_status status;

        json = NULL;
        heap.count = 0;
        heap.fail_at = n;
        heap.fails_on = fails_on;
        status = run(text, &json, &err);
        heap.fail_at = 0;
        if (status) {
            ck_assert_msg(status == MEMPLAN_ERR_NOMEM && err.status == status && err.text[0],
                          "allocation %zu: %d, \"%s\"", n, (int)status, err.text);
            ck_assert_ptr_null(json);
        } else {
            ck_assert_msg(!strcmp(json, expected), "allocation %zu: another answer", n);
        }
        memplan_free(json);
        ck_assert_msg(heap.live_count == live_before, "allocation %zu: %zu pieces are left", n,
                      heap.live_count - live_before);
    }
    memplan_free(expected);
}

START_TEST(each_allocation_fails_once)
{
    fail_each(plan_table[_i], false);
}
END_TEST

START_TEST(all_allocations_fail_from_one_on)
{
    fail_each(plan_table[_i], true);
}
END_TEST

START_TEST(schema_without_memory)
{
    struct memplan_error err;
    char *json = NULL;

    for (size_t n = 1;; n++) {
        enum memplan_status status;

        heap.count = 0;
        heap.fail_at = n;
        status = memplan_plan_schema(&json, &err);
        heap.fail_at = 0;
        if (!status && heap.count < n)
            break;
        ck_assert(!status || status == MEMPLAN_ERR_NOMEM);
        memplan_free(json);
        json = NULL;
    }
    ck_assert_ptr_nonnull(json);
    memplan_free(json);
}
END_TEST

/* Two tensors and their index. */
static enum memplan_status read_weights(char **json_out, struct memplan_error *err)
{
    static const char header[] = "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2],"
                                 "\"data_offsets\":[0,8]},\"b.lora_A.weight\":{\"dtype\":"
                                 "\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]}}";
    static const char index[] = "{\"weight_map\":{\"a.weight\":\"m.safetensors\","
                                "\"c.weight\":\"n.safetensors\"}}";
    unsigned char file[8 + sizeof(header)] = {sizeof(header) - 1};
    struct memplan_weights *weights = NULL;
    enum memplan_status status;

    memcpy(file + 8, header, sizeof(header));
    status = memplan_weights_new(&weights, err);
    if (!status)
        status = memplan_weights_add_index(weights, "index", index, sizeof(index) - 1, err);
    if (!status)
        status = memplan_weights_add(weights, "m.safetensors", file, sizeof(file) - 1,
                                     sizeof(file) - 1 + 16, err);
    if (!status)
        status = memplan_weights_to_json(weights, json_out, err);
    memplan_weights_free(weights);
    return status;
}

START_TEST(weights_without_memory)
{
    const size_t live_before = heap.live_count;
    enum memplan_status status = MEMPLAN_ERR_NOMEM;
    struct memplan_error err;
    size_t n;

    for (n = 1; status; n++) {
        char *json = NULL;

        heap.count = 0;
        heap.fail_at = n;
        status = read_weights(&json, &err);
        heap.fail_at = 0;
        ck_assert_msg(!status || status == MEMPLAN_ERR_NOMEM, "allocation %zu: %s", n, err.text);
        memplan_free(json);
        ck_assert_uint_eq(heap.live_count, live_before);
    }
    ck_assert_uint_gt(n, 8);
}
END_TEST

/* A log of one message. NOMEM, or the message is there. */
static enum memplan_status read_log(size_t *found)
{
    static const char text[] = "CUDA out of memory. Tried to allocate 2.00 GiB";
    struct memplan_log_event event = {.size = sizeof(event)};
    struct memplan_log *log = NULL;
    enum memplan_status status = memplan_log_new(&log, NULL);

    if (!status)
        status = memplan_log_feed(log, text, sizeof(text) - 1, NULL);
    if (!status)
        status = memplan_log_end(log, NULL);
    *found = !status && memplan_log_next(log, &event);
    memplan_log_free(log);
    return status;
}

START_TEST(log_without_memory)
{
    size_t live_before = heap.live_count, found;

    for (size_t n = 1;; n++) {
        enum memplan_status status;

        heap.count = 0;
        heap.fail_at = n;
        status = read_log(&found);
        heap.fail_at = 0;
        ck_assert_uint_eq(heap.live_count, live_before);
        ck_assert(!status || status == MEMPLAN_ERR_NOMEM);
        ck_assert_uint_eq(found, !status);
        if (!status && heap.count < n)
            break;
    }
}
END_TEST

/* A search over few values. NOMEM, or the value is there. */
static enum memplan_status search(int64_t *value)
{
    const struct memplan_search_options options = {.size = sizeof(options),
                                                   .field = "micro_batch_size",
                                                   .has_from = 1,
                                                   .has_to = 1,
                                                   .from = 1,
                                                   .to = 3};
    struct memplan_search_result result = {.size = sizeof(result)};
    struct memplan_search *search = NULL;
    struct memplan_plan *plan = NULL;
    const char *text = TINY_PLAN("64", "1073741824");
    enum memplan_status status = memplan_plan_load(text, strlen(text), "plan", &plan, NULL);

    if (!status)
        status = memplan_search(plan, &options, &search, NULL);
    if (!status)
        status = memplan_search_describe(search, &result, NULL);
    *value = result.value;
    memplan_search_free(search);
    memplan_plan_free(plan);
    return status;
}

START_TEST(search_without_memory)
{
    size_t live_before = heap.live_count, total;
    int64_t value = 0;

    heap.fail_at = heap.count = 0;
    ck_assert_int_eq(search(&value), MEMPLAN_OK);
    ck_assert_int_eq(value, 3);
    total = heap.count;
    for (size_t n = 1; n <= total; n += 1 + total / MOST_RUNS) {
        enum memplan_status status;

        heap.count = 0;
        heap.fail_at = n;
        status = search(&value);
        heap.fail_at = 0;
        ck_assert_uint_eq(heap.live_count, live_before);
        ck_assert_msg(status == MEMPLAN_ERR_NOMEM || (!status && value == 3),
                      "allocation %zu: %d, %lld", n, (int)status, (long long)value);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("oom");

    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, each_allocation_fails_once, 0, ROWS(plan_table));
    tcase_add_loop_test(tcase, all_allocations_fail_from_one_on, 0, ROWS(plan_table));
    tcase_add_test(tcase, schema_without_memory);
    tcase_add_test(tcase, weights_without_memory);
    tcase_add_test(tcase, log_without_memory);
    tcase_add_test(tcase, search_without_memory);
    return test_run("oom", tcase);
}
