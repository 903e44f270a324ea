/* SPDX-License-Identifier: MIT */
/* Copies of a step: what is renamed, and when a step cannot be copied. */
#include "step/repeat.h"
#include "test.h"

static struct mpl_timeline timeline;

static void add(mpl_event event)
{
    ck_assert(!mpl_vec_reserve(&timeline.events));
    timeline.events.data[timeline.events.len++] = event;
}

static uint32_t born(uint64_t bytes)
{
    const uint32_t id = (uint32_t)timeline.requests.len;

    ck_assert(!mpl_vec_reserve(&timeline.requests));
    timeline.requests.data[timeline.requests.len++] = (struct mpl_request){.bytes = bytes};
    add(id);
    return id;
}

static void dies(uint32_t id)
{
    add((mpl_event)MPL_EVENT_FREE << 30 | id);
}

static void begin(uint16_t step)
{
    ck_assert(!mpl_vec_reserve(&timeline.marks));
    timeline.marks.data[timeline.marks.len] =
        (struct mpl_mark){.step = step, .phase = MPL_PHASE_FORWARD};
    add((mpl_event)MPL_EVENT_MARK << 30 | (mpl_event)timeline.marks.len++);
    timeline.step_count = step + 1u;
}

/* A weight stays; each step drops the loss of the one before and leaves its own. */
static struct mpl_step_start two_steps(uint64_t second_loss_bytes)
{
    struct mpl_step_start start;
    uint32_t loss;

    born(4096); /* 0: the weight */
    begin(0);
    loss = born(8); /* 1 */
    born(64);       /* 2: made once, stays */
    start = mpl_step_start_here(&timeline);
    begin(1);
    dies(born(256)); /* 3: a temporary */
    dies(loss);
    born(second_loss_bytes); /* 4 */
    return start;
}

START_TEST(what_lived_gives_way_to_its_heir)
{
    const struct mpl_step_start start = two_steps(8);
    const mpl_event *copy;

    ck_assert_int_eq(mpl_timeline_repeat(&timeline, &start, 100), MPL_REPEAT_DONE);
    ck_assert_uint_eq(timeline.step_count, 3);
    ck_assert_uint_eq(timeline.requests.len, 7);
    ck_assert_uint_eq(timeline.requests.data[5].bytes, 256);
    ck_assert_uint_eq(timeline.requests.data[6].bytes, 8);
    ck_assert_uint_eq(timeline.events.len, 14);
    copy = &timeline.events.data[9];
    ck_assert_int_eq(mpl_event_kind(copy[0]), MPL_EVENT_MARK);
    ck_assert_uint_eq(timeline.marks.data[mpl_event_id(copy[0])].step, 2);
    ck_assert_uint_eq(copy[1], 5);
    ck_assert_uint_eq(copy[2], (mpl_event)MPL_EVENT_FREE << 30 | 5);
    ck_assert_uint_eq(copy[3], (mpl_event)MPL_EVENT_FREE << 30 | 4); /* the second step's loss */
    ck_assert_uint_eq(copy[4], 6);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(other_storages_live_at_the_end)
{
    const struct mpl_step_start start = two_steps(16);

    ck_assert_int_eq(mpl_timeline_repeat(&timeline, &start, 100), MPL_REPEAT_DIFFERS);
    ck_assert_uint_eq(timeline.events.len, 9);
    ck_assert_uint_eq(timeline.requests.len, 5);
    ck_assert_uint_eq(timeline.step_count, 2);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(more_storages_live_at_the_end)
{
    const struct mpl_step_start start = two_steps(8);

    born(1); /* a leak of the second step */
    ck_assert_int_eq(mpl_timeline_repeat(&timeline, &start, 100), MPL_REPEAT_DIFFERS);
    mpl_timeline_free(&timeline);
}
END_TEST

START_TEST(requests_have_a_limit)
{
    const struct mpl_step_start start = two_steps(8);

    ck_assert_int_eq(mpl_timeline_repeat(&timeline, &start, 6), MPL_REPEAT_LIMIT);
    ck_assert_uint_eq(timeline.requests.len, 5);
    ck_assert_int_eq(mpl_timeline_repeat(&timeline, &start, 7), MPL_REPEAT_DONE);
    mpl_timeline_free(&timeline);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("repeat");

    tcase_add_test(tcase, what_lived_gives_way_to_its_heir);
    tcase_add_test(tcase, other_storages_live_at_the_end);
    tcase_add_test(tcase, more_storages_live_at_the_end);
    tcase_add_test(tcase, requests_have_a_limit);
    return test_run("repeat", tcase);
}
