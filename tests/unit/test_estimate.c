/* SPDX-License-Identifier: MIT */
/* Peaks and their composition: a timeline small enough to add up by hand, and a tiny run. */
#include "estimate/estimate.h"

#include <string.h>

#include "spec/spec.h"
#include "test.h"
#include "tiny.h"

static struct mpl_timeline timeline;

static void mark(uint16_t step, enum mpl_phase phase)
{
    ck_assert(!mpl_vec_reserve(&timeline.events) && !mpl_vec_reserve(&timeline.marks));
    timeline.events.data[timeline.events.len++] =
        (mpl_event)MPL_EVENT_MARK << 30 | (mpl_event)timeline.marks.len;
    timeline.marks.data[timeline.marks.len++] =
        (struct mpl_mark){.step = step, .phase = (uint8_t)phase};
}

static uint32_t alloc(uint64_t bytes, enum mpl_category category, enum mpl_order order,
                      enum mpl_stream stream, const char *op)
{
    const uint32_t id = (uint32_t)timeline.requests.len;

    ck_assert(!mpl_vec_reserve(&timeline.events) && !mpl_vec_reserve(&timeline.requests) &&
              !mpl_vec_reserve(&timeline.infos));
    timeline.events.data[timeline.events.len++] = id;
    timeline.requests.data[timeline.requests.len++] =
        (struct mpl_request){bytes, (uint8_t)stream, (uint8_t)category, (uint8_t)order, 0};
    timeline.infos.data[timeline.infos.len++] =
        (struct mpl_request_info){.op = op, .shape = {(int64_t)bytes}, .ndim = 1};
    return id;
}

static void drop(uint32_t id)
{
    ck_assert(!mpl_vec_reserve(&timeline.events));
    timeline.events.data[timeline.events.len++] = (mpl_event)MPL_EVENT_FREE << 30 | id;
}

/* Events 0 to 12. Sizes in blocks of 512: weight 2, batch 1, activations 3 and 3, gradient 2. */
static void make_timeline(void)
{
    uint32_t activation[2], gradient;

    memset(&timeline, 0, sizeof(timeline));
    mark(0, MPL_PHASE_INIT);
    alloc(1000, MPL_CATEGORY_PARAMETERS, MPL_CONSTANT, MPL_STREAM_DEFAULT, "weight");
    mark(0, MPL_PHASE_DATA);
    alloc(512, MPL_CATEGORY_INPUTS, MPL_LINEAR, MPL_STREAM_DEFAULT, "batch");
    mark(0, MPL_PHASE_FORWARD);
    activation[0] = alloc(1100, MPL_CATEGORY_ACTIVATIONS, MPL_LINEAR, MPL_STREAM_DEFAULT, "mm");
    activation[1] = alloc(1100, MPL_CATEGORY_ACTIVATIONS, MPL_LINEAR, MPL_STREAM_DEFAULT, "mm");
    mark(0, MPL_PHASE_BACKWARD);
    gradient = alloc(1024, MPL_CATEGORY_GRADIENTS, MPL_QUADRATIC, MPL_STREAM_ALL_GATHER, "grad");
    drop(activation[0]);
    drop(activation[1]);
    mark(0, MPL_PHASE_OPTIMIZER);
    drop(gradient);
    timeline.step_count = 1;
}

START_TEST(live_sums_by_hand)
{
    struct mpl_estimate e = {0};
    const struct mpl_step_bytes *s = &e.live_steps[0];

    make_timeline();
    mpl_estimate_live(&timeline, &e);
    ck_assert_uint_eq(e.step_count, 1);
    ck_assert_uint_eq(e.live_peak, 11 * 512);
    ck_assert_uint_eq(s->forward_peak, 9 * 512);
    ck_assert_uint_eq(s->after_forward, 9 * 512);
    ck_assert_uint_eq(s->backward_peak, 11 * 512);
    ck_assert_uint_eq(s->after_backward, 5 * 512);
    ck_assert_uint_eq(s->optimizer_peak, 5 * 512);
    ck_assert_uint_eq(s->after_step, 3 * 512);
    ck_assert_uint_eq(e.stream_peak[MPL_STREAM_DEFAULT], 9 * 512);
    ck_assert_uint_eq(e.stream_peak[MPL_STREAM_ALL_GATHER], 2 * 512);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(composition_by_hand)
{
    struct mpl_composition c;

    make_timeline();
    ck_assert_int_eq(mpl_estimate_compose(&timeline, 8, &c, NULL), MEMPLAN_OK);
    ck_assert_uint_eq(c.live_bytes, 11 * 512);
    ck_assert_int_eq(c.phase, MPL_PHASE_BACKWARD);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_PARAMETERS], 2 * 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_ACTIVATIONS], 6 * 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_TEMPORARY], 0);
    ck_assert_uint_eq(c.by_order[MPL_CONSTANT], 2 * 512);
    ck_assert_uint_eq(c.by_order[MPL_LINEAR], 7 * 512);
    ck_assert_uint_eq(c.by_order[MPL_QUADRATIC], 2 * 512);
    ck_assert_uint_eq(c.largest_count, 4);
    ck_assert_str_eq(c.largest[0].op, "mm"); /* two of one shape are one group */
    ck_assert_uint_eq(c.largest[0].count, 2);
    ck_assert_uint_eq(c.largest[0].bytes, 6 * 512);
    ck_assert_str_eq(c.largest[3].op, "batch");
    ck_assert_int_eq(mpl_estimate_compose(&timeline, 9, &c, NULL), MEMPLAN_OK);
    ck_assert_uint_eq(c.live_bytes, 8 * 512);
    mpl_timeline_free(&timeline);
}
END_TEST

/* ---- a tiny run -------------------------------------------------------------------------------
 */

static struct mpl_plan plan;
static struct mpl_estimator estimator;

static struct mpl_estimate run(const char *json, enum mpl_estimate_depth depth)
{
    struct memplan_error err = {0};
    struct mpl_spec *spec = NULL;
    struct mpl_estimate estimate;

    ck_assert_msg(!mpl_spec_load(json, strlen(json), "plan", &spec, &err), "%s", err.text);
    ck_assert_msg(!mpl_spec_bind(spec, 0, &plan, NULL, &err), "%s", err.text);
    ck_assert_msg(!mpl_estimate_run(&estimator, &plan, depth, &estimate, &err), "%s", err.text);
    mpl_spec_free(spec);
    return estimate;
}

static void set_up(void)
{
    ck_assert_int_eq(mpl_estimator_init(&estimator, NULL), MEMPLAN_OK);
}

static void tear_down(void)
{
    mpl_estimator_free(&estimator);
}

START_TEST(counts_of_a_tiny_model)
{
    const struct mpl_estimate e = run(TINY_PLAN("128", "1000000000"), MPL_ESTIMATE_ALL);

    /* two embeddings, four projections, three of the MLP, three norms */
    ck_assert_uint_eq(e.parameters, 2 * 1000 * 64 + 4 * 64 * 64 + 3 * 64 * 176 + 3 * 64);
    ck_assert_uint_eq(e.trainable_parameters, e.parameters);
    ck_assert_uint_eq(e.parameter_bytes, 4 * e.parameters + 3 * (512 - 256));
    ck_assert_uint_eq(e.optimizer_bytes, 0); /* plain sgd has no state */
}
END_TEST

/* What must hold between the quantities, whatever the run. */
static void check_quantities(const struct mpl_estimate *e)
{
    uint64_t categories = 0, orders = 0;

    for (uint32_t i = 0; i < e->step_count; i++) {
        ck_assert_uint_le(e->live_steps[i].forward_peak, e->live_peak);
        ck_assert_uint_le(e->live_steps[i].backward_peak, e->live_peak);
        ck_assert_uint_le(e->live_steps[i].optimizer_peak, e->live_peak);
    }
    ck_assert_uint_eq(e->step_count, e->unlimited.step_count);
    ck_assert(e->live_peak <= e->unlimited.allocated_peak);
    ck_assert(e->unlimited.allocated_peak <= e->unlimited.reserved_peak);
    ck_assert(e->live_peak <= e->needs.low_bytes && e->needs.low_bytes <= e->needs.high_bytes);
    ck_assert(e->needs.high_bytes <= e->unlimited.reserved_peak);
    for (int i = 0; i < MPL_CATEGORY_COUNT; i++)
        categories += e->composition.by_category[i];
    for (int i = 0; i < MPL_ORDER_COUNT; i++)
        orders += e->composition.by_order[i];
    ck_assert_uint_eq(categories, e->composition.live_bytes);
    ck_assert_uint_eq(orders, e->composition.live_bytes);
    ck_assert(e->composition.live_bytes <= e->live_peak && e->composition.largest_count > 0);
    for (uint32_t i = 1; i < e->composition.largest_count; i++)
        ck_assert(e->composition.largest[i].bytes <= e->composition.largest[i - 1].bytes);
}

static const char *const run_table[] = {
    TINY_PLAN("128", "1000000000"),
    TINY_PLAN("1", "1000000000"),
    TINY_PLAN("4096", "1000000000"),
    "{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 512, \"attention\": \"eager\","
                           " \"activation_checkpointing\": \"full\"}}",
    "{" TINY_MODEL("1000") ", \"training\": {\"sequence_length\": 512, \"autocast\": \"bfloat16\"},"
                           " \"device\": {\"allocator\": {\"conf\": \"expandable_segments:True\"}},"
                           " \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4}}",
};

START_TEST(quantities_are_in_order)
{
    const struct mpl_estimate e = run(run_table[_i], MPL_ESTIMATE_ALL);

    check_quantities(&e);
}
END_TEST

/* An estimator that has run something else gives the same answer. */
static uint64_t sum_of(const uint64_t orders[MPL_ORDER_COUNT])
{
    return orders[MPL_CONSTANT] + orders[MPL_LINEAR] + orders[MPL_QUADRATIC];
}

/* Parts by order add up to each phase's peak in the last step. */
START_TEST(orders_add_up_to_the_peaks)
{
    const struct mpl_estimate e = run(run_table[_i], MPL_ESTIMATE_ALL);
    const struct mpl_step_bytes *last = &e.live_steps[e.step_count - 1];

    ck_assert_uint_eq(sum_of(e.peak_orders[MPL_PHASE_FORWARD]), last->forward_peak);
    ck_assert_uint_eq(sum_of(e.peak_orders[MPL_PHASE_BACKWARD]), last->backward_peak);
    ck_assert_uint_eq(sum_of(e.peak_orders[MPL_PHASE_OPTIMIZER]), last->optimizer_peak);
}
END_TEST

START_TEST(nothing_is_left_from_the_last_run)
{
    const struct mpl_estimate first = run(run_table[0], MPL_ESTIMATE_ALL);
    struct mpl_estimate again;

    run(run_table[4], MPL_ESTIMATE_ALL);
    again = run(run_table[0], MPL_ESTIMATE_ALL);
    ck_assert_mem_eq(&first.live_steps, &again.live_steps, sizeof(first.live_steps));
    ck_assert_mem_eq(&first.unlimited.steps, &again.unlimited.steps, sizeof(first.unlimited.steps));
    ck_assert_uint_eq(first.needs.low_bytes, again.needs.low_bytes);
    ck_assert_uint_eq(first.needs.high_bytes, again.needs.high_bytes);
    ck_assert_uint_eq(first.composition.live_bytes, again.composition.live_bytes);
}
END_TEST

START_TEST(depth_adds_and_changes_nothing)
{
    const struct mpl_estimate all = run(run_table[0], MPL_ESTIMATE_ALL);
    const struct mpl_estimate peaks = run(run_table[0], MPL_ESTIMATE_PEAKS);
    const struct mpl_estimate needs = run(run_table[0], MPL_ESTIMATE_NEEDS);

    ck_assert_uint_eq(peaks.unlimited.reserved_peak, all.unlimited.reserved_peak);
    ck_assert_uint_eq(peaks.live_peak, all.live_peak);
    ck_assert(peaks.needs.high_bytes == 0 && peaks.composition.largest_count == 0);
    ck_assert_uint_eq(needs.needs.high_bytes, all.needs.high_bytes);
    ck_assert_uint_eq(needs.needs.low_bytes, all.needs.low_bytes);
}
END_TEST

/* ---- runs that stop on the way ----------------------------------------------------------------
 */

#define HUGE_MODEL(hidden, middle, vocab)                                                          \
    "\"model\": {\"model_type\": \"llama\", \"hidden_size\": " hidden                              \
    ", \"intermediate_size\": " middle                                                             \
    ", \"num_hidden_layers\": 2, \"num_attention_heads\": 1024,"                                   \
    " \"vocab_size\": " vocab "}"
#define SHARDED ", \"parallelism\": {\"strategy\": \"fsdp2\", \"world_size\": 4}"
#define TRAINING(tokens, attention)                                                                \
    ", \"training\": {\"sequence_length\": " tokens ", \"attention\": \"" attention                \
    "\", \"activation_checkpointing\": \"full\"}"

/* Some tensor is larger than 1 PiB: a weight, the embeddings' output, the mask, a layer's scores,
 * the logits. What comes after it on the stopped tape must do nothing, and not crash. */
static const char *const overflow_table[] = {
    "{" HUGE_MODEL("2147483648", "2147483648", "1000") TRAINING("128", "sdpa") "}",
    "{" HUGE_MODEL("2147483648", "2147483648", "1000") TRAINING("128", "sdpa") SHARDED "}",
    "{" HUGE_MODEL("1048576", "1024", "1000") TRAINING("1073741824", "sdpa") "}",
    "{" HUGE_MODEL("1048576", "1024", "1000") TRAINING("1073741824", "sdpa") SHARDED "}",
    "{" HUGE_MODEL("1048576", "1024", "1000") TRAINING("1073741824", "eager") "}",
    "{" HUGE_MODEL("2048", "1024", "1000") TRAINING("1073741824", "eager") SHARDED "}",
    "{" HUGE_MODEL("2048", "1024", "1000") TRAINING("67108864", "eager") SHARDED "}",
    "{" HUGE_MODEL("2048", "2147483648", "1000") TRAINING("1048576", "sdpa") SHARDED "}",
    "{" HUGE_MODEL("2048", "1024", "2147483648") TRAINING("1048576", "sdpa") SHARDED "}",
    "{" HUGE_MODEL("2048", "1024", "2147483648") TRAINING("1048576", "sdpa") "}",
};

START_TEST(overflow_stops_the_run)
{
    const char *json = overflow_table[_i];
    struct memplan_error err = {0};
    struct mpl_spec *spec = NULL;
    struct mpl_estimate estimate;

    ck_assert_msg(!mpl_spec_load(json, strlen(json), "plan", &spec, &err), "%s", err.text);
    ck_assert_msg(!mpl_spec_bind(spec, 0, &plan, NULL, &err), "%s", err.text);
    ck_assert_int_eq(mpl_estimate_run(&estimator, &plan, MPL_ESTIMATE_ALL, &estimate, &err),
                     MEMPLAN_ERR_OVERFLOW);
    ck_assert(err.text[0]);
    mpl_spec_free(spec);
    run(run_table[0], MPL_ESTIMATE_ALL); /* the estimator can be used again */
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("estimate");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, live_sums_by_hand);
    tcase_add_test(tcase, composition_by_hand);
    tcase_add_test(tcase, counts_of_a_tiny_model);
    tcase_add_loop_test(tcase, quantities_are_in_order, 0, ROWS(run_table));
    tcase_add_loop_test(tcase, orders_add_up_to_the_peaks, 0, ROWS(run_table));
    tcase_add_test(tcase, nothing_is_left_from_the_last_run);
    tcase_add_test(tcase, depth_adds_and_changes_nothing);
    tcase_add_loop_test(tcase, overflow_stops_the_run, 0, ROWS(overflow_table));
    return test_run("estimate", tcase);
}
