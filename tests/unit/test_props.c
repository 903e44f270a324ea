/* SPDX-License-Identifier: MIT */
/* Properties of whole runs: random small Llama plans, and the peak of a long sequence in closed
 * form. The seed of each row is printed when it fails. */
#include <inttypes.h>
#include <string.h>

#include "estimate/estimate.h"
#include "replay_random.h"
#include "test.h"

enum { PLANS = 24 };

/* ---- plans ------------------------------------------------------------------------------------
 */

static int64_t pick(uint64_t *state, int64_t from, int64_t to)
{
    return from + (int64_t)random_below(state, (uint64_t)(to - from + 1));
}

static bool flip(uint64_t *state)
{
    return random_below(state, 2) != 0;
}

static struct mpl_model random_model(uint64_t *state)
{
    struct mpl_model model = {.num_hidden_layers = pick(state, 1, 4),
                              .num_key_value_heads = pick(state, 1, 3),
                              .head_dim = 4 * pick(state, 1, 8),
                              .hidden_size = 8 * pick(state, 1, 20),
                              .intermediate_size = pick(state, 1, 300),
                              .vocab_size = pick(state, 2, 700),
                              .tie_word_embeddings = flip(state),
                              .attention_bias = flip(state),
                              .mlp_bias = flip(state)};

    model.num_attention_heads = model.num_key_value_heads * pick(state, 1, 3);
    strcpy(model.model_type, "llama");
    return model;
}

static void random_plan(uint64_t *state, struct mpl_plan *plan)
{
    static const enum mpl_dtype formats[] = {MPL_FLOAT32, MPL_BFLOAT16, MPL_FLOAT16};
    struct mpl_training *t = &plan->training;

    memset(plan, 0, sizeof(*plan));
    plan->model = random_model(state);
    t->sequence_length = pick(state, 2, 80);
    t->micro_batch_size = pick(state, 1, 3);
    t->gradient_accumulation_steps = pick(state, 1, 3);
    t->steps = 3;
    t->parameter_dtype = formats[random_below(state, 3)];
    t->autocast = flip(state) ? MPL_DTYPE_NONE : MPL_BFLOAT16;
    t->attention = flip(state) ? MPL_ATTENTION_SDPA : MPL_ATTENTION_EAGER;
    t->activation_checkpointing = flip(state) ? MPL_CHECKPOINTING_NONE : MPL_CHECKPOINTING_FULL;
    t->optimizer.name = flip(state) ? MPL_ADAMW : MPL_SGD;
    t->gradient_clipping = flip(state) ? 1 : 0;
    t->zero_grad_set_to_none = flip(state);
    t->keep_outputs = flip(state);
    t->padding = flip(state);
    t->packing_check = flip(state);
    plan->parallelism.world_size = plan->parallelism.replicate = 1;
    plan->pytorch = (struct mpl_version){.major = 2, .minor = (uint16_t)pick(state, 9, 14)};
    plan->transformers = (struct mpl_version){.major = 5, .minor = 24};
}

/* The plan of row i; the seed is the row. */
static uint64_t start(int row, struct mpl_plan *plan)
{
    uint64_t state = (uint64_t)row + 1;

    random_plan(&state, plan);
    return state;
}

/* A run with its figures; kernels' own memory only where a test is about the allocator. */
static void estimate(const struct mpl_plan *plan, bool has_kernels, struct mpl_estimator *estimator,
                     struct mpl_estimate *e)
{
    const struct mpl_trace_options options = {.has_kernels = has_kernels, .has_infos = true};
    struct memplan_error err = {0};

    memset(e, 0, sizeof(*e));
    ck_assert_msg(!mpl_trace_run(plan, &options, &estimator->trace, &err), "%s", err.text);
    mpl_estimate_live(&estimator->trace.timeline, e);
}

/* ---- more is never less -----------------------------------------------------------------------
 */

static void expect_no_less(const char *what, int row, const struct mpl_estimate *less,
                           const struct mpl_estimate *more)
{
    for (uint32_t i = 0; i < less->step_count; i++) {
        const struct mpl_step_bytes *a = &less->live_steps[i], *b = &more->live_steps[i];

        ck_assert_msg(b->forward_peak >= a->forward_peak && b->backward_peak >= a->backward_peak &&
                          b->optimizer_peak >= a->optimizer_peak,
                      "seed %d: %s lowers a peak of step %u", row + 1, what, i);
    }
    ck_assert_msg(more->live_peak >= less->live_peak, "seed %d: %s lowers the peak", row + 1, what);
}

/* The kernel of attention depends on formats and head sizes, which stay as they are. */
START_TEST(more_never_takes_less)
{
    struct mpl_plan plan, changed;
    struct mpl_estimator estimator = {0};
    struct mpl_estimate base, e;
    uint64_t state = start(_i, &plan);

    estimate(&plan, false, &estimator, &base);
    changed = plan;
    changed.training.sequence_length += pick(&state, 1, 40);
    estimate(&changed, false, &estimator, &e);
    expect_no_less("a longer sequence", _i, &base, &e);
    changed = plan;
    changed.training.micro_batch_size += pick(&state, 1, 2);
    estimate(&changed, false, &estimator, &e);
    expect_no_less("a bigger batch", _i, &base, &e);
    changed = plan;
    changed.model.num_hidden_layers++;
    estimate(&changed, false, &estimator, &e);
    expect_no_less("another layer", _i, &base, &e);
    changed = plan;
    changed.model.vocab_size += pick(&state, 1, 100);
    estimate(&changed, false, &estimator, &e);
    expect_no_less("a larger vocabulary", _i, &base, &e);
    mpl_trace_free(&estimator.trace);
}
END_TEST

/* ---- the same again ---------------------------------------------------------------------------
 */

START_TEST(same_plan_same_timeline)
{
    struct mpl_plan plan;
    struct mpl_estimator a = {0}, b = {0};
    struct mpl_estimate e;
    const struct mpl_timeline *s = &a.trace.timeline, *t = &b.trace.timeline;

    start(_i + 1, &plan);
    estimate(&plan, true, &b, &e); /* leaves dirty memory behind */
    start(_i, &plan);
    estimate(&plan, true, &a, &e);
    estimate(&plan, true, &b, &e);
    ck_assert_uint_eq(s->events.len, t->events.len);
    ck_assert_uint_eq(s->requests.len, t->requests.len);
    ck_assert_int_eq(memcmp(s->events.data, t->events.data, s->events.len * sizeof(mpl_event)), 0);
    for (size_t i = 0; i < s->requests.len; i++) {
        ck_assert_uint_eq(s->requests.data[i].bytes, t->requests.data[i].bytes);
        ck_assert_int_eq(s->requests.data[i].category, t->requests.data[i].category);
        ck_assert_int_eq(s->requests.data[i].order, t->requests.data[i].order);
        ck_assert_str_eq(s->infos.data[i].op, t->infos.data[i].op);
    }
    mpl_trace_free(&a.trace);
    mpl_trace_free(&b.trace);
}
END_TEST

START_TEST(steps_repeat_from_the_second_on)
{
    struct mpl_plan plan;
    struct mpl_estimator estimator = {0};
    struct mpl_estimate e;

    start(_i, &plan);
    estimate(&plan, false, &estimator, &e);
    ck_assert_uint_eq(e.step_count, 3);
    ck_assert_msg(!memcmp(&e.live_steps[1], &e.live_steps[2], sizeof(e.live_steps[1])), "seed %d",
                  _i + 1);
    mpl_trace_free(&estimator.trace);
}
END_TEST

/* ---- sums -------------------------------------------------------------------------------------
 */

/* What stays after the last step: parameters, buffers, optimizer state, and by the plan's words
 * zeroed gradients and the last output. */
START_TEST(what_stays_is_known)
{
    struct mpl_plan plan;
    struct mpl_estimator estimator = {0};
    struct mpl_estimate e;
    uint64_t left[MPL_CATEGORY_COUNT] = {0}, outputs = 0;
    const struct mpl_timeline *t = &estimator.trace.timeline;

    start(_i, &plan);
    estimate(&plan, false, &estimator, &e);
    for (size_t i = 0; i < t->events.len; i++) {
        const struct mpl_request *r;

        if (mpl_event_kind(t->events.data[i]) == MPL_EVENT_MARK)
            continue;
        r = &t->requests.data[mpl_event_id(t->events.data[i])];
        if (mpl_event_kind(t->events.data[i]) == MPL_EVENT_ALLOC)
            left[r->category] += mpl_round_up(r->bytes, 512);
        else
            left[r->category] -= mpl_round_up(r->bytes, 512);
    }
    ck_assert_uint_eq(left[MPL_CATEGORY_PARAMETERS], estimator.trace.parameter_bytes);
    ck_assert_uint_eq(left[MPL_CATEGORY_BUFFERS], estimator.trace.buffer_bytes);
    ck_assert_uint_eq(left[MPL_CATEGORY_OPTIMIZER_STATE], estimator.trace.optimizer_bytes);
    ck_assert_uint_eq(left[MPL_CATEGORY_GRADIENTS],
                      plan.training.zero_grad_set_to_none ? 0 : estimator.trace.parameter_bytes);
    ck_assert_uint_eq(left[MPL_CATEGORY_INPUTS], 0);
    outputs = left[MPL_CATEGORY_TEMPORARY] + left[MPL_CATEGORY_ACTIVATIONS];
    ck_assert_msg(plan.training.keep_outputs ? outputs > 0 : outputs == 0,
                  "seed %d: %" PRIu64 " bytes of temporaries stay", _i + 1, outputs);
    mpl_trace_free(&estimator.trace);
}
END_TEST

START_TEST(allocator_takes_no_less_than_lives)
{
    struct mpl_plan plan;
    struct mpl_estimator estimator = {0};
    struct mpl_estimate e;
    struct memplan_error err = {0};
    uint64_t by_order = 0, by_category = 0;

    start(_i, &plan);
    ck_assert_int_eq(mpl_estimator_init(&estimator, &err), MEMPLAN_OK);
    ck_assert_msg(!mpl_estimate_run(&estimator, &plan, MPL_ESTIMATE_ALL, &e, &err), "%s", err.text);
    ck_assert_uint_ge(e.unlimited.allocated_peak, e.live_peak);
    ck_assert_uint_ge(e.unlimited.reserved_peak, e.unlimited.allocated_peak);
    ck_assert_uint_ge(e.needs.low_bytes, e.live_peak);
    ck_assert_uint_le(e.needs.low_bytes, e.needs.high_bytes);
    for (uint32_t i = 0; i < e.step_count; i++) {
        ck_assert_uint_ge(e.unlimited.steps[i].allocated.backward_peak,
                          e.live_steps[i].backward_peak);
        ck_assert_uint_ge(e.unlimited.steps[i].allocated.after_step, e.live_steps[i].after_step);
    }
    for (int i = 0; i < MPL_ORDER_COUNT; i++)
        by_order += e.composition.by_order[i];
    for (int i = 0; i < MPL_CATEGORY_COUNT; i++)
        by_category += e.composition.by_category[i];
    ck_assert_uint_eq(by_order, e.composition.live_bytes);
    ck_assert_uint_eq(by_category, e.composition.live_bytes);
    ck_assert_uint_le(e.composition.live_bytes, e.live_peak);
    ck_assert_uint_gt(e.composition.live_bytes, 0);
    mpl_estimator_free(&estimator);
}
END_TEST

/* Orders are what they say: from 3 to 4 times the length, each request grows by its power. */
START_TEST(requests_grow_by_their_order)
{
    struct mpl_plan plan;
    struct mpl_estimator a = {0}, b = {0};
    struct mpl_estimate e;
    const struct mpl_timeline *s = &a.trace.timeline, *t = &b.trace.timeline;

    start(_i, &plan);
    plan.training.sequence_length = 96; /* lengths that no kernel pads */
    estimate(&plan, false, &a, &e);
    plan.training.sequence_length = 192;
    estimate(&plan, false, &b, &e);
    ck_assert_uint_eq(s->requests.len, t->requests.len);
    for (size_t i = 0; i < s->requests.len; i++) {
        const uint64_t small = s->requests.data[i].bytes, large = t->requests.data[i].bytes;
        const unsigned order = s->requests.data[i].order;
        const bool is_longer = !strcmp(s->infos.data[i].op, "constant_pad_nd.default") ||
                               !strcmp(s->infos.data[i].op, "cat.default");

        if (is_longer && large != small << order) { /* labels with one more token */
            ck_assert_uint_eq(order, MPL_LINEAR);
            ck_assert_uint_eq(large, 2 * small - 8 * (uint64_t)plan.training.micro_batch_size);
        } else {
            ck_assert_msg(large == small << order,
                          "seed %d: %s grows from %" PRIu64 " to %" PRIu64 ", order %u", _i + 1,
                          s->infos.data[i].op, small, large, order);
        }
    }
    mpl_trace_free(&a.trace);
    mpl_trace_free(&b.trace);
}
END_TEST

/* ---- shards -----------------------------------------------------------------------------------
 */

START_TEST(shards_together_hold_the_whole)
{
    struct mpl_plan plan;
    struct mpl_estimator whole = {0}, part = {0};
    struct mpl_estimate e;
    uint64_t state = start(_i, &plan), ranks;

    plan.training.attention = MPL_ATTENTION_SDPA;
    estimate(&plan, false, &whole, &e);
    plan.parallelism.strategy = MPL_STRATEGY_FSDP2;
    plan.parallelism.world_size = pick(&state, 2, 9);
    ranks = (uint64_t)plan.parallelism.world_size;
    estimate(&plan, false, &part, &e);
    ck_assert_uint_ge(part.trace.parameter_bytes * ranks, whole.trace.parameter_bytes);
    ck_assert_uint_ge(part.trace.optimizer_bytes * ranks, whole.trace.optimizer_bytes);
    ck_assert_uint_le(part.trace.parameter_bytes, whole.trace.parameter_bytes);
    ck_assert_uint_eq(part.trace.parameters, whole.trace.parameters);
    ck_assert_uint_eq(part.trace.buffer_bytes, whole.trace.buffer_bytes);
    ck_assert_uint_eq(e.live_steps[1].after_step, e.live_steps[2].after_step);
    mpl_trace_free(&whole.trace);
    mpl_trace_free(&part.trace);
}
END_TEST

/* ---- the peak in closed form ------------------------------------------------------------------
 */

static const struct {
    int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocabulary, tokens, batch;
} peak_table[] = {
    {2048, 8192, 7, 32, 8, 64, 128256, 4096, 1}, /* Llama 3.2 1B, cut: 13,618,852,864 */
    {2048, 8192, 7, 32, 8, 64, 128256, 8192, 1}, /* 23,107,171,328 */
    {2048, 8192, 16, 32, 8, 64, 128256, 4096, 2}, {3072, 8192, 28, 24, 8, 128, 128256, 16384, 1},
    {512, 1024, 3, 8, 8, 64, 32000, 2048, 4},     {512, 2048, 1, 4, 1, 128, 50304, 1024, 1},
};

/*
 * Tied embeddings, bfloat16, AdamW, sdpa with flash, no checkpointing: the peak of a long sequence
 * is in the loss's backward. All sizes here are multiples of 512.
 *
 * weights and two moments · norms, attention with its log-sum-exp, mlp, row statistics, seeds
 * (512 each) · last norm, tables, three float32 logits, token ids
 */
START_TEST(peak_of_a_long_sequence_in_closed_form)
{
    const uint64_t h = (uint64_t)peak_table[_i].hidden, inner = (uint64_t)peak_table[_i].inner;
    const uint64_t layers = (uint64_t)peak_table[_i].layers, heads = (uint64_t)peak_table[_i].heads;
    const uint64_t d = (uint64_t)peak_table[_i].head_dim,
                   vocabulary = (uint64_t)peak_table[_i].vocabulary;
    const uint64_t a = heads * d, k = (uint64_t)peak_table[_i].kv_heads * d;
    const uint64_t s = (uint64_t)peak_table[_i].tokens, n = s * (uint64_t)peak_table[_i].batch;
    const uint64_t parameters =
        vocabulary * h + layers * (2 * a * h + 2 * k * h + 3 * inner * h + 2 * h) + h;
    const uint64_t expected = 6 * parameters + 2 * 512 /* rope frequencies, twice */ +
                              layers * (16 * h * n + 4 * a * n + 4 * k * n + 8 * inner * n +
                                        4 * heads * n + 8 * n + 1024) +
                              8 * h * n + 4 * n + 4 * d * s + 12 * vocabulary * n + 8 * n + 1024;
    struct mpl_estimator estimator = {0};
    struct mpl_estimate e;
    struct mpl_plan plan;

    start(0, &plan);
    plan.model = (struct mpl_model){.hidden_size = peak_table[_i].hidden,
                                    .intermediate_size = peak_table[_i].inner,
                                    .num_hidden_layers = peak_table[_i].layers,
                                    .num_attention_heads = peak_table[_i].heads,
                                    .num_key_value_heads = peak_table[_i].kv_heads,
                                    .head_dim = peak_table[_i].head_dim,
                                    .vocab_size = peak_table[_i].vocabulary,
                                    .tie_word_embeddings = true};
    strcpy(plan.model.model_type, "llama");
    plan.training = (struct mpl_training){.sequence_length = peak_table[_i].tokens,
                                          .micro_batch_size = peak_table[_i].batch,
                                          .gradient_accumulation_steps = 1,
                                          .steps = 2,
                                          .parameter_dtype = MPL_BFLOAT16,
                                          .optimizer = {.name = MPL_ADAMW},
                                          .zero_grad_set_to_none = true};
    estimate(&plan, false, &estimator, &e);
    ck_assert_uint_eq(estimator.trace.parameters, parameters);
    ck_assert_uint_eq(e.live_steps[1].backward_peak, expected);
    if (_i < 2)
        ck_assert_uint_eq(e.live_steps[1].backward_peak,
                          _i ? UINT64_C(23107171328) : UINT64_C(13618852864));
    mpl_trace_free(&estimator.trace);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("props");

    tcase_add_loop_test(tcase, more_never_takes_less, 0, PLANS);
    tcase_add_loop_test(tcase, same_plan_same_timeline, 0, PLANS);
    tcase_add_loop_test(tcase, steps_repeat_from_the_second_on, 0, PLANS);
    tcase_add_loop_test(tcase, what_stays_is_known, 0, PLANS);
    tcase_add_loop_test(tcase, allocator_takes_no_less_than_lives, 0, PLANS);
    tcase_add_loop_test(tcase, requests_grow_by_their_order, 0, PLANS);
    tcase_add_loop_test(tcase, shards_together_hold_the_whole, 0, PLANS);
    tcase_add_loop_test(tcase, peak_of_a_long_sequence_in_closed_form, 0, ROWS(peak_table));
    return test_run("props", tcase);
}
