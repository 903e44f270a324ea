/* SPDX-License-Identifier: MIT */
/* A verdict that is found with less work is the same verdict. */
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* A preset as memplan reads it, with two fields set. */
static struct memplan_plan *load(const char *preset, const char *first, const char *second)
{
    static char text[1 << 16];
    const char *folder = getenv("MEMPLAN_MODELS");
    struct memplan_plan *plan = NULL;
    struct memplan_error err = {0};
    char path[512];
    size_t len;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.json", folder ? folder : "models", preset);
    file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    len = fread(text, 1, sizeof(text), file);
    fclose(file);
    ck_assert_msg(!memplan_plan_load(text, len, preset, &plan, &err), "%s", err.text);
    ck_assert_msg(!memplan_plan_set(plan, first, &err), "%s", err.text);
    ck_assert_msg(!second || !memplan_plan_set(plan, second, &err), "%s", err.text);
    return plan;
}

static struct memplan_summary summary_of(const struct memplan_plan *plan, uint32_t verdict_only)
{
    const struct memplan_options options = {
        .size = sizeof(options), .peaks_only = !verdict_only, .verdict_only = verdict_only};
    struct memplan_summary summary = {.size = sizeof(summary)};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};

    ck_assert_msg(!memplan_estimate(plan, &options, &report, &err), "%s", err.text);
    ck_assert(!memplan_report_summary(report, &summary, &err));
    ck_assert_int_eq(summary.verdict, memplan_report_verdict(report));
    memplan_report_free(report);
    return summary;
}

/* From what surely fits to what surely does not, with steps that are fine where it turns. */
static const struct {
    const char *preset, *set;
    int from, to, step;
} row_table[] = {
    {"eagle3", NULL, 4096, 32768, 4096}, /* eight alternatives, three readings */
    {"eagle3", NULL, 23552, 25600, 128},
    {"eagle3", "observations=[]", 18432, 27648, 1024},
    {"eagle3", "device.gpu=H100 80GB HBM3", 12288, 24576, 2048},
    {"llama-3.2-1b", NULL, 1024, 16384, 1024},
    {"llama-3.2-1b", NULL, 2048, 2816, 128},
    {"llama-3-8b", NULL, 1024, 1536, 128}, /* fragmentation alone decides */
    {"llama-3-8b", "parallelism.strategy=fsdp2", 1024, 4096, 1024},
    {"llama-3.2-1b", "device=null", 1024, 2048, 1024}, /* no card, no verdict */
};

START_TEST(it_is_the_same_verdict)
{
    char length[64];

    for (int tokens = row_table[_i].from; tokens <= row_table[_i].to;
         tokens += row_table[_i].step) {
        struct memplan_summary all, brief;
        struct memplan_plan *plan;

        snprintf(length, sizeof(length), "training.sequence_length=%d", tokens);
        plan = load(row_table[_i].preset, length, row_table[_i].set);
        all = summary_of(plan, 0);
        brief = summary_of(plan, 1);
        ck_assert_msg(all.verdict == brief.verdict, "%s at %d tokens: %s, but %s alone",
                      row_table[_i].preset, tokens, memplan_verdict_name(all.verdict),
                      memplan_verdict_name(brief.verdict));
        if (brief.verdict == MEMPLAN_FITS && all.alternatives == brief.alternatives)
            ck_assert_double_le(brief.survival_probability, all.survival_probability + 1e-9);
        memplan_plan_free(plan);
    }
}
END_TEST

/* What is wrong with a plan is told whether or not anything would be asked of it. */
START_TEST(readings_that_are_wrong_are_refused_all_the_same)
{
    struct memplan_plan *plan = load("llama-3.2-1b", "training.sequence_length=1024",
                                     "observations=[{\"sequence_length\": 1, \"bytes\": 0}]");
    const struct memplan_options options = {.size = sizeof(options), .verdict_only = 1};
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};

    ck_assert_int_eq(memplan_estimate(plan, &options, &report, &err), MEMPLAN_ERR_VALUE);
    ck_assert_ptr_null(report);
    memplan_plan_free(plan);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("verdict only");

    tcase_add_loop_test(tcase, it_is_the_same_verdict, 0, ROWS(row_table));
    tcase_add_test(tcase, readings_that_are_wrong_are_refused_all_the_same);
    return test_run("verdict_only", tcase);
}
