/* SPDX-License-Identifier: MIT */
/*
 * Whole training steps against recorded ones, phase by phase: live bytes of traced runs, allocated
 * and reserved of runs on a simulated card.
 */
#include "cases.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* A phase's figures are the recorded ones to the byte; this is what a case may be off before it has
 * to be explained in gaps.tsv. */
#define SHARE 0.0001

static const struct {
    const char *name;
    size_t offset;
} figure_table[] = {
    {"forward_peak", offsetof(struct mpl_step_bytes, forward_peak)},
    {"after_forward", offsetof(struct mpl_step_bytes, after_forward)},
    {"backward_peak", offsetof(struct mpl_step_bytes, backward_peak)},
    {"after_backward", offsetof(struct mpl_step_bytes, after_backward)},
    {"optimizer_peak", offsetof(struct mpl_step_bytes, optimizer_peak)},
    {"after_step", offsetof(struct mpl_step_bytes, after_step)},
};

#define FIGURES (sizeof(figure_table) / sizeof(figure_table[0]))

static uint64_t figure_of(const struct mpl_step_bytes *step, size_t i)
{
    uint64_t value;

    memcpy(&value, (const char *)step + figure_table[i].offset, sizeof(value));
    return value;
}

/* TABLE: the files of recorded runs. */
static struct {
    const char *name;
    bool is_card;    /* allocated and reserved on a card; else live bytes of a traced run */
    bool has_copies; /* steps that are copied are compared with steps that are traced */
    bool is_trainer; /* read by callbacks of a trainer, which cut two phases elsewhere */
    struct case_file cases;
} file_table[] = {
    {.name = "llama-trace.jsonl", .has_copies = true},
    {.name = "family-trace.jsonl", .has_copies = true},
    {.name = "decoders-trace.jsonl", .has_copies = true},
    {.name = "past-early-trace.jsonl", .has_copies = true},
    {.name = "past-late-trace.jsonl", .has_copies = true},
    {.name = "gpt-trace.jsonl", .has_copies = true},
    {.name = "moe-trace.jsonl", .has_copies = true},
    {.name = "lora-trace.jsonl", .has_copies = true},
    {.name = "adapters-trace.jsonl", .has_copies = true},
    {.name = "optim-trace.jsonl", .has_copies = true},
    {.name = "training-trace.jsonl", .has_copies = true},
    {.name = "flash-trace.jsonl", .has_copies = true},
    {.name = "experts-trace.jsonl", .has_copies = true},
    {.name = "flash3-trace.jsonl", .has_copies = true},
    {.name = "past-flash-trace.jsonl", .has_copies = true},
    {.name = "loss-trace.jsonl", .has_copies = true},
    {.name = "fsdp2-trace.jsonl", .has_copies = true},
    {.name = "ddp-trace.jsonl", .has_copies = true},
    {.name = "fsdp1-trace.jsonl", .has_copies = true},
    {.name = "sophia-trace.jsonl", .has_copies = true},
    {.name = "core-attention-trace.jsonl", .has_copies = true},
    {.name = "selective-trace.jsonl", .has_copies = true},
    {.name = "specforge-trace.jsonl"},
    {.name = "speculators-trace.jsonl"},
    {.name = "ddp-hook-trace.jsonl", .has_copies = true},
    {.name = "shard-lora-trace.jsonl", .has_copies = true},
    {.name = "lora-loss-trace.jsonl", .has_copies = true},
    {.name = "shard-loss-trace.jsonl", .has_copies = true},
    {.name = "fsdp1-lora-trace.jsonl", .has_copies = true},
    {.name = "llama-card.jsonl", .is_card = true},
    {.name = "family-card.jsonl", .is_card = true},
    {.name = "lora-card.jsonl", .is_card = true},
    {.name = "optim-card.jsonl", .is_card = true},
    {.name = "eagle-card.jsonl", .is_card = true},
    {.name = "medusa-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "trainer-card.jsonl", .is_card = true, .is_trainer = true},
    {.name = "framework-card.jsonl", .is_card = true},
    {.name = "flex-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "fsdp2-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "ddp-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "fsdp1-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "fsdp1-qlora-card.jsonl", .is_card = true},
    {.name = "fsdp1-reentrant-card.jsonl", .is_card = true},
    {.name = "shard-loss-card.jsonl", .is_card = true},
    {.name = "fsdp2-reentrant-card.jsonl", .is_card = true},
    {.name = "shard-flex-card.jsonl", .is_card = true},
    {.name = "selective-card.jsonl", .is_card = true},
    {.name = "ranks-card.jsonl", .is_card = true},
    {.name = "moments-card.jsonl", .is_card = true},
    {.name = "zero-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "sophia-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "float8-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "zero3-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "zero3-more-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "sharding-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "deepspeed-card.jsonl", .is_card = true, .has_copies = true},
    {.name = "varying-card.jsonl", .is_card = true},
};

#define FILES (sizeof(file_table) / sizeof(file_table[0]))

/* Case i of all files of a kind: its line, and the name of its file. */
static const char *line_at(bool is_card, bool needs_copies, int i, size_t *file_out)
{
    for (size_t f = 0; f < FILES; f++) {
        if (file_table[f].is_card != is_card || (needs_copies && !file_table[f].has_copies))
            continue;
        *file_out = f;
        if (i < file_table[f].cases.count)
            return file_table[f].cases.lines[i];
        i -= file_table[f].cases.count;
    }
    return NULL;
}

static int case_count(bool is_card, bool needs_copies)
{
    int count = 0;

    for (size_t f = 0; f < FILES; f++)
        if (file_table[f].is_card == is_card && (!needs_copies || file_table[f].has_copies))
            count += file_table[f].cases.count;
    return count;
}

/* ---- live bytes -------------------------------------------------------------------------------
 */

static void expect_count(const struct case_run *run, const char *name, uint64_t mine)
{
    const json_t *recorded = json_object_get(run->result, name);

    if (json_is_integer(recorded))
        ck_assert_msg((json_int_t)mine == json_integer_value(recorded),
                      "%s: %s is %llu, recorded %lld", run->id, name, (unsigned long long)mine,
                      (long long)json_integer_value(recorded));
}

/* A step whose figures depend on when Python collected what compiling left. */
static bool is_left_open(const struct case_run *run, size_t step)
{
    return json_is_null(json_array_get(json_object_get(run->result, "steps"), step));
}

static void check_live(const char *file, const char *line)
{
    struct case_run run;
    size_t steps;

    case_run_start(&run, line, false);
    expect_count(&run, "parameters", run.estimator.trace.parameters);
    expect_count(&run, "trainable_parameters", run.estimator.trace.trainable_parameters);
    expect_count(&run, "parameter_bytes", run.estimator.trace.parameter_bytes);
    expect_count(&run, "optimizer_bytes", run.estimator.trace.optimizer_bytes);
    steps = json_array_size(json_object_get(run.result, "steps"));
    ck_assert_uint_gt(steps, 0);
    ck_assert_uint_eq(run.estimate.step_count, steps);
    for (size_t s = 0; s < steps; s++)
        for (size_t i = 0; i < FIGURES && !is_left_open(&run, s); i++)
            case_expect(file, &run, figure_table[i].name, SHARE,
                        figure_of(&run.estimate.live_steps[s], i),
                        case_step_figure(&run, s, figure_table[i].name));
    case_run_end(&run);
}

START_TEST(live_bytes_are_the_traced_ones)
{
    size_t file = 0;
    const char *line = line_at(false, false, _i, &file);

    check_live(file_table[file].name, line);
}
END_TEST

/* ---- on a card --------------------------------------------------------------------------------
 */

/* What the card leaves to the allocator; a plan of these cases gives every part. */
static uint64_t budget_of(const struct mpl_plan *plan)
{
    const int64_t taken = (plan->device.context_bytes > 0 ? plan->device.context_bytes : 0) +
                          (plan->device.nccl_bytes > 0 ? plan->device.nccl_bytes : 0);

    return (uint64_t)(plan->device.total_bytes - taken);
}

static bool is_left_out(bool is_trainer, const char *figure)
{
    return is_trainer && (!strcmp(figure, "after_backward") || !strcmp(figure, "optimizer_peak"));
}

/* Moments apart from the steps: their peaks, and what is reserved at the end of the run. */
static void check_moments(const char *file, const struct case_run *run,
                          const struct mpl_replay_result *replay)
{
    static const struct {
        const char *name;
        enum mpl_phase phase;
    } rows[] = {{"resume_peak", MPL_PHASE_RESUME},
                {"evaluation_peak", MPL_PHASE_EVALUATION},
                {"save_peak", MPL_PHASE_SAVE}};
    const json_t *moments = json_object_get(run->result, "moments");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (json_object_get(moments, rows[i].name))
            case_expect(file, run, rows[i].name, SHARE, replay->phase_peaks[rows[i].phase],
                        json_integer_value(json_object_get(moments, rows[i].name)));
    if (moments)
        case_expect(file, run, "reserved", SHARE, replay->reserved_peak,
                    json_integer_value(json_object_get(run->result, "reserved")));
}

/* A figure of a step; a gap may be of one step alone, "forward_peak@1". */
static void expect_in_step(const char *file, const struct case_run *run, size_t step,
                           const char *name, uint64_t mine)
{
    char figure[48];

    snprintf(figure, sizeof(figure), "%s@%zu", name, step);
    case_expect(file, run, case_has_gap(file, run->id, figure) ? figure : name, SHARE, mine,
                case_step_figure(run, step, name));
}

static void check_card(const char *file, const char *line, bool is_trainer)
{
    struct memplan_error err = {0};
    struct mpl_replay_result replay;
    struct case_run run;
    const char *outcome;
    size_t steps;

    case_run_start(&run, line, true);
    ck_assert(!mpl_estimator_set_conf(&run.estimator, &run.plan, &err));
    ck_assert(!mpl_replay_run(run.estimator.replay, &run.estimator.trace.timeline,
                              budget_of(&run.plan), &replay, &err));
    outcome = json_string_value(json_object_get(run.result, "outcome"));
    ck_assert_msg(replay.survived == !strcmp(outcome, "ran"), "%s: recorded outcome is %s", run.id,
                  outcome);
    steps = json_array_size(json_object_get(run.result, "steps"));
    for (size_t s = 0; s < steps && s < MPL_REPLAY_MAX_STEPS && replay.survived; s++) {
        for (size_t i = 0; i < FIGURES; i++)
            if (!is_left_out(is_trainer, figure_table[i].name))
                expect_in_step(file, &run, s, figure_table[i].name,
                               figure_of(&replay.steps[s].allocated, i));
        expect_in_step(file, &run, s, "reserved", replay.steps[s].reserved);
    }
    check_moments(file, &run, &replay);
    if (run.plan.training.sequence_lengths.count) {
        case_expect(file, &run, "peak", SHARE, replay.allocated_peak,
                    json_integer_value(json_object_get(run.result, "peak")));
        case_expect(file, &run, "reserved", SHARE, replay.reserved_peak,
                    json_integer_value(json_object_get(run.result, "reserved")));
    }
    case_run_end(&run);
}

START_TEST(on_a_card_is_the_recorded_run)
{
    size_t file = 0;
    const char *line = line_at(true, false, _i, &file);

    check_card(file_table[file].name, line, file_table[file].is_trainer);
}
END_TEST

/* ---- copies -----------------------------------------------------------------------------------
 */

static bool are_equal(const struct mpl_request *a, const struct mpl_request *b)
{
    return a->bytes == b->bytes && a->stream == b->stream && a->category == b->category &&
           a->order == b->order && a->phase == b->phase;
}

/* Steps that are copied hold the events of steps that are traced. */
static void check_copies(const char *line, bool is_card)
{
    struct mpl_trace_options options = {.has_kernels = is_card, .has_infos = true};
    struct memplan_error err = {0};
    struct mpl_trace copied = {0}, traced = {0};
    const struct mpl_timeline *a = &copied.timeline, *b = &traced.timeline;
    struct case_run run;

    case_run_start(&run, line, is_card);
    run.plan.training.steps = 4;
    ck_assert(!mpl_trace_run(&run.plan, &options, &copied, &err));
    options.traces_all = true;
    ck_assert(!mpl_trace_run(&run.plan, &options, &traced, &err));
    ck_assert_uint_eq(a->step_count, b->step_count);
    ck_assert_uint_eq(a->events.len, b->events.len);
    ck_assert_uint_eq(a->requests.len, b->requests.len);
    ck_assert_uint_eq(a->infos.len, b->infos.len);
    ck_assert_uint_eq(a->marks.len, b->marks.len);
    ck_assert_mem_eq(a->events.data, b->events.data, a->events.len * sizeof(*a->events.data));
    for (size_t i = 0; i < a->requests.len; i++)
        ck_assert_msg(are_equal(&a->requests.data[i], &b->requests.data[i]) &&
                          !strcmp(a->infos.data[i].op, b->infos.data[i].op),
                      "%s: request %zu differs", run.id, i);
    for (size_t i = 0; i < a->marks.len; i++)
        ck_assert(a->marks.data[i].step == b->marks.data[i].step &&
                  a->marks.data[i].micro == b->marks.data[i].micro &&
                  a->marks.data[i].phase == b->marks.data[i].phase);
    ck_assert_uint_eq(copied.optimizer_bytes, traced.optimizer_bytes);
    mpl_trace_free(&copied);
    mpl_trace_free(&traced);
    case_run_end(&run);
}

START_TEST(copied_steps_are_the_traced_ones)
{
    size_t file = 0;

    check_copies(line_at(false, true, _i, &file), false);
}
END_TEST

START_TEST(copied_steps_on_a_card_are_the_traced_ones)
{
    size_t file = 0;

    check_copies(line_at(true, true, _i, &file), true);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("steps");
    int status;

    for (size_t f = 0; f < FILES; f++)
        file_table[f].cases = case_file_read(file_table[f].name);
    tcase_add_loop_test(tcase, live_bytes_are_the_traced_ones, 0, case_count(false, false));
    tcase_add_loop_test(tcase, on_a_card_is_the_recorded_run, 0, case_count(true, false));
    tcase_add_loop_test(tcase, copied_steps_are_the_traced_ones, 0, case_count(false, true));
    tcase_add_loop_test(tcase, copied_steps_on_a_card_are_the_traced_ones, 0,
                        case_count(true, true));
    status = test_run("steps", tcase);
    for (size_t f = 0; f < FILES; f++)
        case_file_free(&file_table[f].cases);
    return status;
}
