/* SPDX-License-Identifier: MIT */
/* The timeline: how events are packed, names, which figure a phase belongs to, and the live sums
 * and the composition that are read off it. */
#include <string.h>

#include "estimate/estimate.h"
#include "test.h"

/* ---- events -----------------------------------------------------------------------------------
 */

static const struct {
    enum mpl_event_kind kind;
    uint32_t id;
} event_table[] = {
    {MPL_EVENT_ALLOC, 0}, {MPL_EVENT_ALLOC, MPL_EVENT_MAX}, {MPL_EVENT_FREE, 0},
    {MPL_EVENT_FREE, 7},  {MPL_EVENT_FREE, MPL_EVENT_MAX},  {MPL_EVENT_MARK, MPL_EVENT_MAX},
};

static mpl_event event_of(enum mpl_event_kind kind, uint32_t id)
{
    return ((mpl_event)kind << 30) | id;
}

START_TEST(events_keep_kind_and_number_apart)
{
    const mpl_event e = event_of(event_table[_i].kind, event_table[_i].id);

    ck_assert_int_eq(mpl_event_kind(e), event_table[_i].kind);
    ck_assert_uint_eq(mpl_event_id(e), event_table[_i].id);
}
END_TEST

START_TEST(names_are_there_and_differ)
{
    for (int i = 0; i < MPL_STREAM_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(mpl_stream_name((enum mpl_stream)i),
                             mpl_stream_name((enum mpl_stream)k));
    for (int i = 0; i < MPL_PHASE_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(mpl_phase_name((enum mpl_phase)i), mpl_phase_name((enum mpl_phase)k));
    for (int i = 0; i < MPL_CATEGORY_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(mpl_category_name((enum mpl_category)i),
                             mpl_category_name((enum mpl_category)k));
    for (int i = 0; i < MPL_ORDER_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(mpl_order_name((enum mpl_order)i), mpl_order_name((enum mpl_order)k));
    ck_assert_str_eq(mpl_phase_name(MPL_PHASE_BACKWARD), "backward");
    ck_assert_str_eq(mpl_stream_name(MPL_STREAM_DEFAULT), "default");
    ck_assert_str_eq(mpl_order_name(MPL_QUADRATIC), "quadratic");
    ck_assert_str_eq(mpl_category_name(MPL_CATEGORY_WORKSPACE), "workspaces");
}
END_TEST

START_TEST(phases_have_their_figures)
{
    struct mpl_step_bytes step = {1, 2, 3, 4, 5, 6};

    ck_assert_uint_eq(*mpl_step_peak(&step, MPL_PHASE_FORWARD), 1);
    ck_assert_uint_eq(*mpl_step_after(&step, MPL_PHASE_FORWARD), 2);
    ck_assert_uint_eq(*mpl_step_peak(&step, MPL_PHASE_BACKWARD), 3);
    ck_assert_uint_eq(*mpl_step_after(&step, MPL_PHASE_BACKWARD), 4);
    ck_assert_uint_eq(*mpl_step_peak(&step, MPL_PHASE_OPTIMIZER), 5);
    ck_assert_uint_eq(*mpl_step_after(&step, MPL_PHASE_OPTIMIZER), 6);
    ck_assert_ptr_null(mpl_step_peak(&step, MPL_PHASE_INIT));
    ck_assert_ptr_null(mpl_step_after(&step, MPL_PHASE_INIT));
    ck_assert_ptr_null(mpl_step_peak(&step, MPL_PHASE_DATA));
    ck_assert_ptr_null(mpl_step_after(&step, MPL_PHASE_DATA));
}
END_TEST

/* ---- live sums --------------------------------------------------------------------------------
 */

static void put_event(struct mpl_timeline *t, mpl_event event)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->events), 0);
    t->events.data[t->events.len++] = event;
}

static void put_request(struct mpl_timeline *t, uint64_t bytes, enum mpl_stream stream,
                        enum mpl_category category, enum mpl_order order)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->requests), 0);
    ck_assert_int_eq(mpl_vec_reserve(&t->infos), 0);
    t->infos.data[t->infos.len++] = (struct mpl_request_info){.op = "made"};
    put_event(t, event_of(MPL_EVENT_ALLOC, (uint32_t)t->requests.len));
    t->requests.data[t->requests.len++] = (struct mpl_request){.bytes = bytes,
                                                               .stream = (uint8_t)stream,
                                                               .category = (uint8_t)category,
                                                               .order = (uint8_t)order};
}

static void put_mark(struct mpl_timeline *t, uint16_t step, uint16_t micro, enum mpl_phase phase)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->marks), 0);
    put_event(t, event_of(MPL_EVENT_MARK, (uint32_t)t->marks.len));
    t->marks.data[t->marks.len++] =
        (struct mpl_mark){.step = step, .micro = micro, .phase = (uint8_t)phase};
}

static void put_free(struct mpl_timeline *t, uint32_t id)
{
    put_event(t, event_of(MPL_EVENT_FREE, id));
}

/* One step of two micro-batches. Sizes in blocks of 512: requests 0 to 5 take 1, 2, 4, 8, 1, 16. */
static void write_step(struct mpl_timeline *t)
{
    put_mark(t, 0, 0, MPL_PHASE_INIT);
    put_request(t, 1, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS, MPL_CONSTANT);
    put_mark(t, 0, 0, MPL_PHASE_FORWARD);
    put_request(t, 513, MPL_STREAM_DEFAULT, MPL_CATEGORY_ACTIVATIONS, MPL_LINEAR);
    put_request(t, 4 * 512, MPL_STREAM_ALL_GATHER, MPL_CATEGORY_COMMUNICATION, MPL_CONSTANT);
    put_free(t, 2);
    put_mark(t, 0, 0, MPL_PHASE_BACKWARD);
    put_request(t, 8 * 512, MPL_STREAM_DEFAULT, MPL_CATEGORY_TEMPORARY, MPL_QUADRATIC);
    put_free(t, 3);
    put_free(t, 1);
    put_mark(t, 0, 1, MPL_PHASE_FORWARD);
    put_request(t, 512, MPL_STREAM_DEFAULT, MPL_CATEGORY_ACTIVATIONS, MPL_LINEAR);
    put_mark(t, 0, 1, MPL_PHASE_BACKWARD);
    put_mark(t, 0, 1, MPL_PHASE_OPTIMIZER);
    put_request(t, 16 * 512, MPL_STREAM_DEFAULT, MPL_CATEGORY_OPTIMIZER_STATE, MPL_CONSTANT);
    put_free(t, 4);
}

START_TEST(live_sums_by_hand)
{
    struct mpl_timeline t = {0};
    struct mpl_estimate e = {0};

    write_step(&t);
    mpl_estimate_live(&t, &e);
    ck_assert_uint_eq(e.step_count, 1);
    ck_assert_uint_eq(e.live_steps[0].forward_peak, 7 * 512);  /* of the first micro-batch */
    ck_assert_uint_eq(e.live_steps[0].after_forward, 2 * 512); /* of the last one */
    ck_assert_uint_eq(e.live_steps[0].backward_peak, 11 * 512);
    ck_assert_uint_eq(e.live_steps[0].after_backward, 2 * 512);
    ck_assert_uint_eq(e.live_steps[0].optimizer_peak, 18 * 512);
    ck_assert_uint_eq(e.live_steps[0].after_step, 17 * 512);
    ck_assert_uint_eq(e.live_peak, 18 * 512);
    ck_assert_uint_eq(e.stream_peak[MPL_STREAM_ALL_GATHER], 4 * 512);
    ck_assert_uint_eq(e.stream_peak[MPL_STREAM_DEFAULT], 18 * 512);
    ck_assert_uint_eq(e.stream_peak[MPL_STREAM_REDUCE_SCATTER], 0);
    mpl_timeline_free(&t);
}
END_TEST

START_TEST(composition_by_hand)
{
    struct mpl_timeline t = {0};
    struct mpl_composition c = {0};
    struct memplan_error err = {0};
    uint32_t event = 0;

    write_step(&t);
    while (t.events.data[event] != event_of(MPL_EVENT_ALLOC, 3))
        event++;
    ck_assert_int_eq(mpl_estimate_compose(&t, event, &c, &err), MEMPLAN_OK);
    ck_assert_uint_eq(c.live_bytes, 11 * 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_PARAMETERS], 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_ACTIVATIONS], 2 * 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_TEMPORARY], 8 * 512);
    ck_assert_uint_eq(c.by_category[MPL_CATEGORY_COMMUNICATION], 0);
    ck_assert_uint_eq(c.by_order[MPL_CONSTANT], 512);
    ck_assert_uint_eq(c.by_order[MPL_LINEAR], 2 * 512);
    ck_assert_uint_eq(c.by_order[MPL_QUADRATIC], 8 * 512);
    ck_assert_int_eq(c.phase, MPL_PHASE_BACKWARD);
    ck_assert_uint_eq(c.largest[0].bytes, 8 * 512);
    ck_assert_uint_eq(c.largest[0].count, 1);
    mpl_timeline_free(&t);
}
END_TEST

START_TEST(reset_forgets_and_keeps_memory)
{
    struct mpl_timeline t = {0};
    mpl_event *data;

    write_step(&t);
    t.step_count = 1;
    data = t.events.data;
    mpl_timeline_reset(&t);
    ck_assert_uint_eq(t.events.len, 0);
    ck_assert_uint_eq(t.requests.len, 0);
    ck_assert_uint_eq(t.infos.len, 0);
    ck_assert_uint_eq(t.marks.len, 0);
    ck_assert_uint_eq(t.step_count, 0);
    ck_assert_ptr_eq(t.events.data, data);
    mpl_timeline_free(&t);
    ck_assert_ptr_null(t.events.data);
    mpl_timeline_free(&t);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("timeline");

    tcase_add_loop_test(tcase, events_keep_kind_and_number_apart, 0, ROWS(event_table));
    tcase_add_test(tcase, names_are_there_and_differ);
    tcase_add_test(tcase, phases_have_their_figures);
    tcase_add_test(tcase, live_sums_by_hand);
    tcase_add_test(tcase, composition_by_hand);
    tcase_add_test(tcase, reset_forgets_and_keeps_memory);
    return test_run("timeline", tcase);
}
