/* SPDX-License-Identifier: MIT */
/* The replay: worked examples, phases, settings, and the band of needs against a scan over all
 * budgets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "replay/allocator.h"
#include "replay/replay.h"
#include "replay_random.h"
#include "test.h"

static enum memplan_status set_conf(struct mpl_replay *replay, const char *text,
                                    struct memplan_error *err)
{
    const struct mpl_replay_settings settings = {.conf = text};

    return mpl_replay_set_conf(replay, &settings, err);
}

/* ---- worked examples ---- */

static const struct {
    uint64_t bytes, reserved, allocated, expandable_reserved, expandable_allocated;
} first_request_table[] = {
    {4, 2 * MPL_MIB, 512, 2 * MPL_MIB, 512},
    {MPL_MIB, 2 * MPL_MIB, MPL_MIB, 2 * MPL_MIB, MPL_MIB},
    {MPL_MIB + 1, 20 * MPL_MIB, 1049088, 20 * MPL_MIB, 1049088},
    {10 * MPL_MIB - 512, 20 * MPL_MIB, 10 * MPL_MIB - 512, 20 * MPL_MIB, 10 * MPL_MIB - 512},
    {10 * MPL_MIB, 10 * MPL_MIB, 10 * MPL_MIB, 20 * MPL_MIB, 10 * MPL_MIB},
    {11 * MPL_MIB, 12 * MPL_MIB, 12 * MPL_MIB, 20 * MPL_MIB, 11 * MPL_MIB},
    {100 * MPL_MIB, 100 * MPL_MIB, 100 * MPL_MIB, 100 * MPL_MIB, 100 * MPL_MIB},
    {101 * MPL_MIB, 102 * MPL_MIB, 102 * MPL_MIB, 120 * MPL_MIB, 101 * MPL_MIB},
};

START_TEST(first_request)
{
    struct mpl_allocator a = {0};

    mpl_allocator_reset(&a, MPL_NO_BUDGET, MPL_GIB);
    ck_assert(mpl_allocator_request(&a, first_request_table[_i].bytes, 0) != 0);
    ck_assert_uint_eq(a.now.reserved, first_request_table[_i].reserved);
    ck_assert_uint_eq(a.now.allocated, first_request_table[_i].allocated);
    a.conf.is_expandable = true;
    mpl_allocator_reset(&a, MPL_NO_BUDGET, MPL_GIB);
    ck_assert(mpl_allocator_request(&a, first_request_table[_i].bytes, 0) != 0);
    ck_assert_uint_eq(a.now.reserved, first_request_table[_i].expandable_reserved);
    ck_assert_uint_eq(a.now.allocated, first_request_table[_i].expandable_allocated);
    mpl_allocator_free(&a);
}
END_TEST

/* Expandable segments: one whose memory was refused keeps its address space, one that lost its
 * memory to a flush does not. */
START_TEST(address_space_of_expandable_segments)
{
    struct mpl_allocator a = {.conf = {.is_expandable = true}};
    uint32_t b;

    mpl_allocator_reset(&a, 100 * MPL_MIB, 100 * MPL_MIB);
    ck_assert_uint_eq(mpl_allocator_request(&a, 101 * MPL_MIB, 0), 0);
    ck_assert_uint_eq(a.now.retries, 1);
    ck_assert_uint_eq(a.now.ooms, 1);
    mpl_allocator_empty_cache(&a);
    ck_assert_uint_eq(a.reservations.len, 1);
    ck_assert_uint_ne(a.reservations.data[0].first, 0);
    ck_assert_uint_eq(a.reservations.data[0].size, 120 * MPL_MIB);

    b = mpl_allocator_request(&a, 99 * MPL_MIB, 0);
    ck_assert_uint_ne(b, 0);
    ck_assert_uint_eq(a.now.reserved, 100 * MPL_MIB);
    mpl_allocator_release(&a, b);
    mpl_allocator_empty_cache(&a);
    ck_assert_uint_eq(a.now.reserved, 0);
    ck_assert_uint_eq(a.reservations.data[0].first, 0);
    mpl_allocator_free(&a);
}
END_TEST

#define EQUALS 20000

/* Of equal free blocks the one in the oldest segment, at the lowest place, is taken: whatever the
 * order in which they came back. */
START_TEST(equal_blocks_are_taken_in_order)
{
    static uint32_t blocks[EQUALS], freed[EQUALS / 2];
    struct mpl_allocator a = {0};
    uint64_t state = 7, last = 0;

    mpl_allocator_reset(&a, MPL_NO_BUDGET, MPL_GIB);
    for (uint32_t i = 0; i < EQUALS; i++)
        blocks[i] = mpl_allocator_request(&a, 512, 0);
    for (uint32_t i = 0; i < EQUALS / 2; i++) {
        uint32_t k = (uint32_t)random_below(&state, i + 1);

        freed[i] = freed[k];
        freed[k] = blocks[2 * i];
    }
    for (uint32_t i = 0; i < EQUALS / 2; i++)
        mpl_allocator_release(&a, freed[i]);
    ck_assert(mpl_allocator_check(&a));
    for (uint32_t i = 0; i < EQUALS / 2; i++) {
        uint32_t b = mpl_allocator_request(&a, 100, 0);

        ck_assert(i == 0 || a.blocks[b].position > last);
        last = a.blocks[b].position;
        if (i % 1000 == 0)
            ck_assert(mpl_allocator_check(&a));
    }
    mpl_allocator_free(&a);
}
END_TEST

/* ---- timelines ---- */

static void add_event(struct mpl_timeline *t, enum mpl_event_kind kind, size_t id)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->events), 0);
    t->events.data[t->events.len++] = (uint32_t)kind << 30 | (uint32_t)id;
}

static uint32_t add_request(struct mpl_timeline *t, uint64_t bytes, unsigned stream)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->requests), 0);
    t->requests.data[t->requests.len++] =
        (struct mpl_request){.bytes = bytes, .stream = (uint8_t)stream};
    add_event(t, MPL_EVENT_ALLOC, t->requests.len - 1);
    return (uint32_t)t->requests.len - 1;
}

static void add_free(struct mpl_timeline *t, uint32_t id)
{
    add_event(t, MPL_EVENT_FREE, id);
}

static void add_mark(struct mpl_timeline *t, unsigned step, unsigned micro, enum mpl_phase phase)
{
    ck_assert_int_eq(mpl_vec_reserve(&t->marks), 0);
    t->marks.data[t->marks.len++] = (struct mpl_mark){
        .step = (uint16_t)step, .micro = (uint16_t)micro, .phase = (uint8_t)phase};
    add_event(t, MPL_EVENT_MARK, t->marks.len - 1);
}

static struct mpl_replay_result run(struct mpl_replay *replay, const struct mpl_timeline *t,
                                    uint64_t budget)
{
    struct mpl_replay_result result;
    struct memplan_error err = {0};

    ck_assert_int_eq(mpl_replay_run(replay, t, budget, &result, &err), MEMPLAN_OK);
    return result;
}

/* Two micro-batches: the first has the higher forward, the second leaves more. */
static void two_micro_batches(struct mpl_timeline *t)
{
    uint32_t weight, a, b, c;

    add_mark(t, 0, 0, MPL_PHASE_INIT);
    weight = add_request(t, 100 * MPL_MIB, 0);
    add_request(t, 0, 0); /* nothing */
    add_mark(t, 0, 0, MPL_PHASE_FORWARD);
    a = add_request(t, 30 * MPL_MIB, 0);
    b = add_request(t, 40 * MPL_MIB, 0);
    add_free(t, b);
    add_mark(t, 0, 0, MPL_PHASE_BACKWARD);
    add_free(t, a);
    add_mark(t, 0, 1, MPL_PHASE_FORWARD);
    c = add_request(t, 34 * MPL_MIB, 0); /* takes the 40 MiB block and splits it */
    add_mark(t, 0, 1, MPL_PHASE_BACKWARD);
    add_request(t, 10 * MPL_MIB, 1);
    add_free(t, c);
    add_mark(t, 0, 0, MPL_PHASE_OPTIMIZER);
    add_request(t, 200 * MPL_MIB, 0);
    add_free(t, weight);
}

START_TEST(phases_of_a_step)
{
    struct mpl_timeline t = {0};
    struct mpl_replay *replay = mpl_replay_new();
    struct mpl_replay_result r;
    const struct mpl_step_bytes *step = &r.steps[0].allocated;

    two_micro_batches(&t);
    r = run(replay, &t, MPL_NO_BUDGET);
    ck_assert(r.survived);
    ck_assert_uint_eq(r.step_count, 1);
    ck_assert_uint_eq(step->forward_peak, 170 * MPL_MIB);
    ck_assert_uint_eq(step->after_forward, 134 * MPL_MIB);
    ck_assert_uint_eq(step->backward_peak, 144 * MPL_MIB);
    ck_assert_uint_eq(step->after_backward, 110 * MPL_MIB);
    ck_assert_uint_eq(step->optimizer_peak, 310 * MPL_MIB);
    ck_assert_uint_eq(step->after_step, 210 * MPL_MIB);
    ck_assert_uint_eq(r.allocated_peak, 310 * MPL_MIB);
    ck_assert_uint_eq(r.allocated_peak_event, 15);
    ck_assert_uint_eq(r.reserved_peak, 380 * MPL_MIB);
    ck_assert_uint_eq(r.steps[0].reserved, 380 * MPL_MIB);
    ck_assert_uint_eq(r.same_from, 380 * MPL_MIB);
    ck_assert_uint_eq(r.same_below, UINT64_MAX);

    /* 2 MiB less: the unused 30 and 40 MiB segments go back first. */
    r = run(replay, &t, 378 * MPL_MIB);
    ck_assert(r.survived);
    ck_assert_uint_eq(r.retries, 1);
    ck_assert_uint_eq(r.steps[0].retries, 1);
    ck_assert_uint_eq(r.same_from, 310 * MPL_MIB);
    ck_assert_uint_eq(r.same_below, 380 * MPL_MIB);

    r = run(replay, &t, 309 * MPL_MIB);
    ck_assert(!r.survived);
    ck_assert_uint_eq(r.failed_event, 15);
    ck_assert_uint_eq(r.same_from, 180 * MPL_MIB);
    ck_assert_uint_eq(r.same_below, 310 * MPL_MIB);
    ck_assert_uint_eq(r.allocated_peak, 170 * MPL_MIB);
    ck_assert_uint_eq(step->optimizer_peak, 110 * MPL_MIB);
    mpl_replay_free(replay);
    mpl_timeline_free(&t);
}
END_TEST

START_TEST(steps_beyond_the_table_are_run_but_not_kept)
{
    struct mpl_timeline t = {0};
    struct mpl_replay *replay = mpl_replay_new();
    struct mpl_replay_result r;

    for (unsigned i = 0; i < MPL_REPLAY_MAX_STEPS + 3; i++) {
        add_mark(&t, i, 0, MPL_PHASE_FORWARD);
        add_request(&t, 20 * MPL_MIB, 0);
    }
    r = run(replay, &t, MPL_NO_BUDGET);
    ck_assert_uint_eq(r.step_count, MPL_REPLAY_MAX_STEPS);
    ck_assert_uint_eq(r.steps[MPL_REPLAY_MAX_STEPS - 1].allocated.forward_peak,
                      MPL_REPLAY_MAX_STEPS * 20 * MPL_MIB);
    ck_assert_uint_eq(r.allocated_peak, (MPL_REPLAY_MAX_STEPS + 3) * 20 * MPL_MIB);
    mpl_replay_free(replay);
    mpl_timeline_free(&t);
}
END_TEST

START_TEST(huge_requests_fail)
{
    static const uint64_t sizes[] = {MPL_ALLOCATOR_MAX_BYTES + 1, UINT64_MAX};
    struct mpl_timeline t = {0};
    struct mpl_replay *replay = mpl_replay_new();
    struct mpl_replay_result r;
    struct mpl_needs needs;
    struct memplan_error err = {0};

    add_request(&t, 512, 0);
    add_request(&t, sizes[_i], 0);
    r = run(replay, &t, MPL_NO_BUDGET);
    ck_assert(!r.survived);
    ck_assert_uint_eq(r.failed_event, 1);
    ck_assert_int_eq(mpl_replay_needs(replay, &t, &r, 0, 2 * MPL_MIB, &needs, &err), MEMPLAN_OK);
    ck_assert_uint_eq(needs.low_bytes, MPL_NO_BUDGET);
    ck_assert_uint_eq(needs.high_bytes, MPL_NO_BUDGET);
    mpl_replay_free(replay);
    mpl_timeline_free(&t);
}
END_TEST

/* ---- needs ---- */

/* A loop of steps with sizes that change, as training on samples of varying length; gives the peak
 * of live bytes. Some frees come late, on two streams. */
static uint64_t random_timeline(struct mpl_timeline *t, uint64_t *state)
{
    uint32_t held[64];
    uint64_t live = 0, peak = 0;
    unsigned count = 0;

    for (int i = 0; i < 120; i++) {
        if (count == 64 || (count > 0 && random_below(state, 100) < 46)) {
            unsigned k = (unsigned)random_below(state, count);

            add_free(t, held[k]);
            live -= mpl_round_up(t->requests.data[held[k]].bytes, 512);
            held[k] = held[--count];
        } else {
            unsigned stream = (unsigned)random_below(state, 2); /* its turn is the same anywhere */

            held[count] = add_request(t, random_bytes(state), stream);
            live += mpl_round_up(t->requests.data[held[count++]].bytes, 512);
            peak = live > peak ? live : peak;
        }
    }
    return peak;
}

/* Compares with a run at every budget; gives the width of the band. */
static uint64_t scan(struct mpl_replay *replay, const struct mpl_timeline *t, uint64_t live_peak)
{
    struct mpl_replay_result unlimited = run(replay, t, MPL_NO_BUDGET);
    struct mpl_needs needs;
    struct memplan_error err = {0};
    uint64_t low = MPL_NO_BUDGET, high = 0, top = unlimited.same_from + 8 * MPL_MIB;

    ck_assert_int_eq(mpl_replay_needs(replay, t, &unlimited, live_peak, 2 * MPL_MIB, &needs, &err),
                     MEMPLAN_OK);
    for (uint64_t budget = 0; budget <= top; budget += 2 * MPL_MIB) {
        struct mpl_replay_result r = run(replay, t, budget), from, below;

        ck_assert(r.same_from <= budget && budget < r.same_below);
        from = run(replay, t, r.same_from);
        below = run(replay, t, r.same_below - 1);
        ck_assert_mem_eq(&r, &from, sizeof(r));
        ck_assert_mem_eq(&r, &below, sizeof(r));
        if (r.survived && low == MPL_NO_BUDGET)
            low = budget;
        if (!r.survived)
            high = budget + 2 * MPL_MIB;
    }
    ck_assert_uint_eq(needs.low_bytes, low);
    ck_assert_uint_eq(needs.high_bytes, high);
    return high - low;
}

START_TEST(needs_match_a_scan)
{
    struct mpl_replay *replay = mpl_replay_new();
    struct memplan_error err = {0};
    unsigned bands = 0;

    ck_assert_int_eq(set_conf(replay, _i ? "expandable_segments:True" : "", &err), MEMPLAN_OK);
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct mpl_timeline t = {0};
        uint64_t state = seed, live_peak = random_timeline(&t, &state);

        printf("# seed %" PRIu64 "\n", seed);
        bands += scan(replay, &t, live_peak) > 0;
        mpl_timeline_free(&t);
    }
    printf("# %u bands wider than nothing\n", bands);
    ck_assert(_i || bands > 0);
    mpl_replay_free(replay);
}
END_TEST

/* Runs that begin where an earlier one was still the same: any budgets in any order. */
START_TEST(followed_runs_are_those_from_the_start)
{
    struct mpl_replay *replay = mpl_replay_new(), *followed = mpl_replay_new();
    const char *conf = _i ? "expandable_segments:True" : "";
    struct memplan_error err = {0};
    unsigned retried = 0, survived = 0;

    ck_assert_int_eq(set_conf(replay, conf, &err), MEMPLAN_OK);
    ck_assert_int_eq(set_conf(followed, conf, &err), MEMPLAN_OK);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct mpl_timeline t = {0};
        uint64_t state = seed, live_peak = random_timeline(&t, &state);
        const uint64_t top = run(replay, &t, MPL_NO_BUDGET).same_from;

        printf("# seed %" PRIu64 "\n", seed);
        mpl_replay_follow(followed, &t, live_peak / 4 * random_below(&state, 5));
        for (int i = 0; i < 60; i++) {
            const uint64_t budget =
                random_below(&state, 8) ? random_below(&state, top + top / 8) : MPL_NO_BUDGET;
            const struct mpl_replay_result r = run(replay, &t, budget),
                                           f = run(followed, &t, budget);

            ck_assert_mem_eq(&r, &f, sizeof(r));
            retried += r.retries > 0 && r.survived;
            survived += r.survived;
        }
        mpl_replay_follow(followed, NULL, 0);
        mpl_timeline_free(&t);
    }
    ck_assert(_i || (retried > 0 && survived > retried));
    mpl_replay_free(replay);
    mpl_replay_free(followed);
}
END_TEST

/* What is followed ends with its timeline and with other settings. */
START_TEST(following_ends)
{
    struct mpl_replay *replay = mpl_replay_new();
    struct memplan_error err = {0};
    struct mpl_timeline t = {0};
    uint64_t first;

    for (int i = 0; i < 100; i++)
        add_request(&t, 12 * MPL_MIB, 0);
    mpl_replay_follow(replay, &t, 600 * MPL_MIB);
    first = run(replay, &t, MPL_NO_BUDGET).reserved_peak;
    ck_assert_uint_eq(first, 1200 * MPL_MIB);
    ck_assert_int_eq(set_conf(replay, "expandable_segments:True", &err), MEMPLAN_OK);
    ck_assert_uint_eq(run(replay, &t, MPL_NO_BUDGET).reserved_peak, 1200 * MPL_MIB);
    ck_assert_int_eq(set_conf(replay, "", &err), MEMPLAN_OK);
    ck_assert_uint_eq(run(replay, &t, MPL_NO_BUDGET).reserved_peak, first);
    for (int i = 0; i < 100; i++)
        t.requests.data[i].bytes = 14 * MPL_MIB;
    mpl_replay_follow(replay, &t, 600 * MPL_MIB);
    ck_assert_uint_eq(run(replay, &t, MPL_NO_BUDGET).reserved_peak, 1400 * MPL_MIB);
    mpl_replay_free(replay);
    mpl_timeline_free(&t);
}
END_TEST

static struct mpl_needs needs_of(const struct mpl_timeline *t, uint64_t live_peak)
{
    struct mpl_replay *replay = mpl_replay_new();
    struct mpl_replay_result unlimited = run(replay, t, MPL_NO_BUDGET);
    struct memplan_error err = {0};
    struct mpl_needs needs;

    ck_assert_int_eq(
        mpl_replay_needs(replay, t, &unlimited, live_peak, MPL_NEEDS_GRID_BYTES, &needs, &err),
        MEMPLAN_OK);
    mpl_replay_free(replay);
    printf("# %u replays\n", needs.replay_count);
    return needs;
}

/* 1000 failing pieces from a poor lower bound. */
START_TEST(needs_from_far_below)
{
    struct mpl_timeline t = {0};
    struct mpl_needs needs;

    for (int i = 0; i < 1000; i++)
        add_request(&t, 12 * MPL_MIB, 0);
    needs = needs_of(&t, 0);
    ck_assert_uint_eq(needs.low_bytes, 12000 * MPL_MIB);
    ck_assert_uint_eq(needs.high_bytes, 12000 * MPL_MIB);
    ck_assert_uint_lt(needs.replay_count, 400);
    mpl_timeline_free(&t);
}
END_TEST

/* Each request is larger than what was kept of those before: any budget that holds the largest
 * does, and each budget flushes at other places. */
START_TEST(needs_from_far_above)
{
    struct mpl_timeline t = {0};
    struct mpl_needs needs;

    for (uint64_t i = 0; i < 200; i++)
        add_free(&t, add_request(&t, (10 + 2 * i) * MPL_MIB, 0));
    needs = needs_of(&t, 408 * MPL_MIB);
    ck_assert_uint_eq(needs.low_bytes, 408 * MPL_MIB);
    ck_assert_uint_eq(needs.high_bytes, 408 * MPL_MIB);
    ck_assert_uint_lt(needs.replay_count, 500);
    mpl_timeline_free(&t);
}
END_TEST

/* ---- settings ---- */

/* By release: what each knows, and how it says no. Those of 2.14: tests/oracle/test_conf.c. */
static const struct {
    const char *text;
    uint16_t minor; /* of PyTorch 2; 0: the newest */
    enum memplan_status status;
    const char *words;
} conf_table[] = {
    {NULL, 0, MEMPLAN_OK, ""},
    {"", 8, MEMPLAN_OK, ""},
    {"expandable_segments:True", 0, MEMPLAN_OK, ""},
    {"expandable_segments:True", 1, MEMPLAN_OK, ""},
    {"large_segment_size_mb:40", 11, MEMPLAN_OK, ""},
    {"large_segment_size_mb:40", 10, MEMPLAN_ERR_VALUE,
     "found key \"large_segment_size_mb\", which PyTorch has since 2.11 and 2.10 does not know"},
    {"max_split_size_mb:20", 9, MEMPLAN_OK, ""},
    {"max_split_size_mb:20", 8, MEMPLAN_ERR_VALUE,
     "CachingAllocator option max_split_size_mb too small, must be > 20"},
    {"max_split_size_mb:21,", 8, MEMPLAN_OK, ""},
    {"max_split_size_mb:64;x:1", 8, MEMPLAN_ERR_VALUE,
     "Error parsing CachingAllocator settings, expected ,"},
    {"expandable_segments=True", 8, MEMPLAN_ERR_VALUE,
     "Unrecognized CachingAllocator option: expandable_segments=True"},
    {"expandable_segments", 8, MEMPLAN_ERR_VALUE,
     "Error parsing CachingAllocator settings, expected :"},
    {"expandable_segments:1", 8, MEMPLAN_ERR_VALUE,
     "Expected a single True/False argument for expandable_segments"},
    {"max_split_size_mb:", 8, MEMPLAN_ERR_VALUE, "Error, expecting max_split_size_mb value"},
    {"garbage_collection_threshold:x", 8, MEMPLAN_ERR_VALUE, "stod"},
    {"roundup_power2_divisions:[256,1]", 8, MEMPLAN_ERR_VALUE,
     "Error parsing CachingAllocator settings, expected :"},
    {"roundup_power2_divisions:[256:1,>:", 0, MEMPLAN_ERR_VALUE,
     "Expected closing bracket ']' in ConfigTokenizer but reached end of config"},
    {"roundup_power2_divisions:1", 4, MEMPLAN_OK, ""},
    {"roundup_power2_divisions:1", 3, MEMPLAN_ERR_UNSUPPORTED,
     "roundup_power2_divisions of 1 is not modelled before PyTorch 2.4, where sizes are then not "
     "multiples of 512"},
    {"backend:cudaMallocAsync", 0, MEMPLAN_ERR_UNSUPPORTED,
     "backend:cudaMallocAsync is not modelled"},
};

START_TEST(conf)
{
    const struct mpl_alloc_release release = {conf_table[_i].minor ? 2 : 0, conf_table[_i].minor};
    struct mpl_alloc_conf parsed = {0};
    struct memplan_error err = {0};

    ck_assert_int_eq(mpl_alloc_conf_parse(conf_table[_i].text, release, &parsed, &err),
                     conf_table[_i].status);
    ck_assert_int_eq(err.status, conf_table[_i].status);
    ck_assert_str_eq(err.text, conf_table[_i].words);
}
END_TEST

/* throw_on_cudamalloc_oom refuses what would pass the card's total, and gives nothing back. */
START_TEST(early_rejection)
{
    struct mpl_allocator a = {.conf = {.rejects_early = true}};
    uint32_t b;

    mpl_allocator_reset(&a, 1000 * MPL_MIB, 1000 * MPL_MIB);
    b = mpl_allocator_request(&a, 600 * MPL_MIB, 0);
    ck_assert_uint_ne(b, 0);
    mpl_allocator_release(&a, b);
    ck_assert_uint_eq(mpl_allocator_request(&a, 700 * MPL_MIB, 0), 0);
    ck_assert_uint_ne(mpl_allocator_request(&a, 300 * MPL_MIB, 0), 0);
    ck_assert_uint_eq(mpl_allocator_request(&a, 900 * MPL_MIB, 0), 0);
    ck_assert_uint_eq(a.now.rejections, 2);
    ck_assert_uint_eq(a.now.ooms + a.now.retries, 0);
    ck_assert_uint_eq(a.now.reserved, 600 * MPL_MIB);
    mpl_allocator_free(&a);
}
END_TEST

/* A fraction needs to know of what. */
START_TEST(fraction_of_a_card)
{
    struct mpl_replay *replay = mpl_replay_new();
    struct mpl_timeline t = {0};
    struct mpl_replay_settings settings = {.conf = "per_process_memory_fraction:0.5"};
    struct memplan_error err = {0};

    ck_assert_int_eq(mpl_replay_set_conf(replay, &settings, &err), MEMPLAN_ERR_VALUE);
    settings.total_bytes = 1000 * MPL_MIB;
    ck_assert_int_eq(mpl_replay_set_conf(replay, &settings, NULL), MEMPLAN_OK);
    add_request(&t, 400 * MPL_MIB, 0);
    ck_assert(run(replay, &t, MPL_NO_BUDGET).survived);
    add_request(&t, 102 * MPL_MIB, 0);
    ck_assert(!run(replay, &t, MPL_NO_BUDGET).survived);
    mpl_timeline_free(&t);
    mpl_replay_free(replay);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("replay");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, first_request, 0, ROWS(first_request_table));
    tcase_add_test(tcase, address_space_of_expandable_segments);
    tcase_add_test(tcase, equal_blocks_are_taken_in_order);
    tcase_add_test(tcase, phases_of_a_step);
    tcase_add_test(tcase, steps_beyond_the_table_are_run_but_not_kept);
    tcase_add_loop_test(tcase, huge_requests_fail, 0, 2);
    tcase_add_loop_test(tcase, needs_match_a_scan, 0, 2);
    tcase_add_loop_test(tcase, followed_runs_are_those_from_the_start, 0, 2);
    tcase_add_test(tcase, following_ends);
    tcase_add_test(tcase, needs_from_far_below);
    tcase_add_test(tcase, needs_from_far_above);
    tcase_add_loop_test(tcase, conf, 0, ROWS(conf_table));
    tcase_add_test(tcase, early_rejection);
    tcase_add_test(tcase, fraction_of_a_card);
    return test_run("replay", tcase);
}
