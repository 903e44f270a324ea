/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as a plan that is estimated, after its sizes were made small. What a plan
 * may ask for is bounded by limits, but not by what a fuzzer has time for. */
#include <memplan.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sizes; the rest of the plan is as the input says. The last ones belong to eagle3 and are refused
 * elsewhere, which is no harm. */
static const char *const small[] = {
    "model.hidden_size=64",
    "model.intermediate_size=96",
    "model.num_hidden_layers=2",
    "model.num_attention_heads=4",
    "model.num_key_value_heads=2",
    "model.head_dim=16",
    "model.vocab_size=500",
    "training.sequence_length=160",
    "training.micro_batch_size=2",
    "training.gradient_accumulation_steps=2",
    "training.steps=3",
};

static const char *const small_eagle3[] = {
    "model.num_hidden_layers=1",   "model.draft_vocab_size=300",
    "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",
    "training.ttt_steps=2",        "training.documents=3",
};

static void make_small(struct memplan_plan *plan, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memplan_plan_set(plan, list[i], NULL);
}

/* At most this many combinations and readings are worth the time. */
static int is_modest(const struct memplan_plan *plan)
{
    char *json = NULL;
    size_t open = 0;

    if (memplan_plan_to_json(plan, &json, NULL))
        return 0;
    for (const char *at = json; (at = strstr(at, "any_of")); at++)
        open++;
    for (const char *at = json; (at = strstr(at, "outcome")); at++)
        open++;
    for (const char *at = json; (at = strstr(at, "\"bytes\"")); at++)
        open++;
    open += strlen(json) > 4000 ? 100 : 0;
    memplan_free(json);
    return open <= 4;
}

static void check(enum memplan_status status, const struct memplan_error *err)
{
    if (status == MEMPLAN_ERR_INTERNAL || status != err->status ||
        (status != MEMPLAN_OK && !err->text[0]))
        abort(); /* an error without a sentence helps nobody */
}

/* What holds for every report. */
static void look_at(const struct memplan_report *report)
{
    struct memplan_summary s = {.size = sizeof(s)};
    struct memplan_error err;
    char *json = NULL;

    check(memplan_report_summary(report, &s, &err), &err);
    if (s.live_bytes > s.allocated_bytes || s.allocated_bytes > s.reserved_bytes ||
        s.needs_low_bytes > s.needs_high_bytes || s.needs_high_bytes > s.reserved_bytes ||
        s.trainable_parameters > s.parameters || !(s.survival_probability <= 1))
        abort();
    check(memplan_report_to_json(report, &json, &err), &err);
    memplan_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memplan_options options = {.size = sizeof(options), .no_suggestions = 1};
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;
    struct memplan_error err;
    enum memplan_status status = memplan_plan_load(data, size, "input", &plan, &err);

    check(status, &err);
    if (status)
        return 0;
    make_small(plan, small, sizeof(small) / sizeof(small[0]));
    if (memplan_plan_check(plan, NULL))
        make_small(plan, small_eagle3, sizeof(small_eagle3) / sizeof(small_eagle3[0]));
    if (is_modest(plan)) {
        status = memplan_estimate(plan, &options, &report, &err);
        check(status, &err);
        if (!status)
            look_at(report);
    }
    memplan_report_free(report);
    memplan_plan_free(plan);
    return 0;
}
