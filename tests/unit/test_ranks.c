/* SPDX-License-Identifier: MIT */
/* Which ranks are alike, and that the worst one is judged. */
#include "verdict/ranks.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

#define MODEL                                                                                      \
    "{\"model\": {\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 688, "   \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"vocab_size\": 8192}, \"training\": {\"sequence_length\": 64}, \"parallelism\": {%s}}"

static struct memplan_report *run(const char *parallelism, uint32_t all_ranks)
{
    const struct memplan_options options = {
        .size = sizeof(options), .no_suggestions = 1, .all_ranks = all_ranks};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    struct mpl_spec *spec = NULL;
    char json[1024];

    snprintf(json, sizeof(json), MODEL, parallelism);
    ck_assert_msg(!mpl_spec_load(json, strlen(json), "plan", &spec, &err), "%s", err.text);
    ck_assert_msg(!mpl_pipeline_run(spec, &options, NULL, NULL, &report, &err), "%s", err.text);
    mpl_spec_free(spec);
    return report;
}

static const struct class_row {
    const char *parallelism;
    uint32_t classes;
    const char *first, *last; /* those that hold most and least */
} class_table[] = {
    {"\"strategy\": \"none\"", 1, "0", "0"},
    {"\"strategy\": \"ddp\", \"world_size\": 4", 1, "0-3", "0-3"},
    {"\"strategy\": \"fsdp2\", \"world_size\": 4", 1, "0-3", "0-3"},
    /* Rows of 256, 688, 8192, 128 over 3: 86, 230, 2731, 43; the last rank has 84, 228, 2730, 42 */
    {"\"strategy\": \"fsdp2\", \"world_size\": 3", 2, "0-1", "2"},
    {"\"strategy\": \"fsdp2\", \"world_size\": 6, \"replicate\": 2", 2, "0-1, 3-4", "2, 5"},
    /* Over 100: 3 rows of 256 end in rank 85, 7 of 688 in 98, 82 of 8192 in 99, 2 of 128 in 63 */
    {"\"strategy\": \"fsdp2\", \"world_size\": 100", 6, "0-63", "99"},
    /* Nobody knows parts without the original parameters: one flat shard each. */
    {"\"strategy\": \"fsdp1\", \"world_size\": 8, \"use_orig_params\": false", 1, "0-7", "0-7"},
    {"\"strategy\": \"fsdp1\", \"world_size\": 8, \"sharding_strategy\": \"NO_SHARD\"", 1, "0-7",
     "0-7"},
    {"\"strategy\": \"fsdp2\", \"world_size\": 100, \"rank\": 99", 0, "", ""},
};

START_TEST(ranks_fall_into_classes)
{
    const struct class_row *row = &class_table[_i];
    struct memplan_report *report = run(row->parallelism, 0);
    const struct mpl_alternative *a = &report->alternatives[0];
    int64_t sum = 0;

    ck_assert_uint_eq(a->ranks.count, row->classes);
    for (uint32_t i = 0; i < a->ranks.count; i++)
        sum += a->ranks.of[i].count;
    if (row->classes) {
        ck_assert_int_eq(sum, report->plan.parallelism.world_size);
        ck_assert_str_eq(a->ranks.of[0].ranks, row->first);
        ck_assert_str_eq(a->ranks.of[row->classes - 1].ranks, row->last);
    }
    memplan_report_free(report);
}
END_TEST

static const char *const judged_table[] = {
    "\"strategy\": \"fsdp2\", \"world_size\": 100",
    "\"strategy\": \"fsdp1\", \"world_size\": 8",
    "\"strategy\": \"zero2\", \"world_size\": 8, \"reduce_bucket_size\": 1000000",
    "\"strategy\": \"ddp\", \"world_size\": 4, \"zero1\": true",
};

START_TEST(worst_rank_is_judged)
{
    struct memplan_report *report = run(judged_table[_i], 1);
    const struct mpl_alternative *a = &report->alternatives[0];

    ck_assert_uint_gt(a->ranks.count, 1);
    for (uint32_t i = 0; i < a->ranks.count; i++) {
        ck_assert(a->figures[i].is_known);
        ck_assert_uint_le(a->figures[i].needs.high_bytes, a->figures[0].needs.high_bytes);
    }
    ck_assert_int_eq(a->rank, a->ranks.of[0].first);
    ck_assert_uint_eq(a->estimate.needs.high_bytes, a->figures[0].needs.high_bytes);
    ck_assert_int_eq(report->plan.parallelism.rank, a->rank);
    memplan_report_free(report);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("ranks");

    tcase_add_loop_test(tcase, ranks_fall_into_classes, 0, ROWS(class_table));
    tcase_add_loop_test(tcase, worst_rank_is_judged, 0, ROWS(judged_table));
    return test_run("ranks", tcase);
}
