/* SPDX-License-Identifier: MIT */
/* Stage "replay": the caching allocator run over a timeline. */
#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "replay/allocator.h"

/* Size of the card for expandable segments: endless address space, whatever the budget. */
#define ENDLESS_CARD (UINT64_C(1) << 50)

struct mpl_replay {
    struct mpl_allocator allocator;
    uint32_t *held; /* block of each request, 0 when it has none */
    size_t held_room;
};

/* One run: the phase it is in, and where its figures go. */
struct run {
    struct mpl_allocator *a;
    struct mpl_replay_result *result;
    const struct mpl_mark *mark; /* NULL before the first */
    uint64_t phase_peak;         /* bytes allocated */
    uint32_t phase_peak_event;
};

struct mpl_replay *mpl_replay_new(void)
{
    return calloc(1, sizeof(struct mpl_replay));
}

void mpl_replay_free(struct mpl_replay *replay)
{
    if (!replay)
        return;
    mpl_allocator_free(&replay->allocator);
    free(replay->held);
    free(replay);
}

enum memplan_status mpl_replay_set_conf(struct mpl_replay *replay, const char *conf,
                                        struct memplan_error *err)
{
    return mpl_alloc_conf_parse(conf, &replay->allocator.conf, err);
}

static enum memplan_status prepare(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                   uint64_t budget_bytes, struct memplan_error *err)
{
    size_t count = timeline->requests.len;

    if (count > replay->held_room) {
        free(replay->held);
        replay->held_room = 0;
        if (!(replay->held = malloc(count * sizeof(*replay->held))))
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        replay->held_room = count;
    }
    if (count)
        memset(replay->held, 0, count * sizeof(*replay->held));
    mpl_allocator_reset(&replay->allocator, budget_bytes, ENDLESS_CARD);
    if (replay->allocator.is_out_of_memory)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    return MEMPLAN_OK;
}

/* Writes down the phase that ends here. */
static void end_phase(struct run *run)
{
    struct mpl_replay_result *result = run->result;
    struct mpl_replay_step *step;
    uint64_t *peak, *after;

    if (run->phase_peak > result->allocated_peak) {
        result->allocated_peak = run->phase_peak;
        result->allocated_peak_event = run->phase_peak_event;
    }
    if (!run->mark || run->mark->phase == MPL_PHASE_INIT || run->mark->step >= MPL_REPLAY_MAX_STEPS)
        return;
    step = &result->steps[run->mark->step];
    if (result->step_count <= run->mark->step)
        result->step_count = run->mark->step + UINT32_C(1);
    step->reserved = run->a->now.peak_reserved;
    step->retries = (uint32_t)run->a->now.retries;
    peak = mpl_step_peak(&step->allocated, (enum mpl_phase)run->mark->phase);
    after = mpl_step_after(&step->allocated, (enum mpl_phase)run->mark->phase);
    if (peak && run->phase_peak > *peak)
        *peak = run->phase_peak;
    if (after)
        *after = run->a->now.allocated;
}

static void begin_phase(struct run *run, const struct mpl_mark *mark, uint32_t event)
{
    end_phase(run);
    run->mark = mark;
    run->phase_peak = run->a->now.allocated;
    run->phase_peak_event = event;
}

/* Runs the events up to the first failure; gives its index, or the number of events. */
static uint32_t run_events(struct run *run, const struct mpl_timeline *timeline, uint32_t *held)
{
    const mpl_event *events = timeline->events.data;
    const struct mpl_request *requests = timeline->requests.data;
    uint32_t count = (uint32_t)timeline->events.len, i;
    struct mpl_allocator *a = run->a;

    for (i = 0; i < count; i++) {
        uint32_t id = mpl_event_id(events[i]);

        switch (mpl_event_kind(events[i])) {
        case MPL_EVENT_ALLOC:
            if (requests[id].bytes == 0)
                break; /* a null pointer: nothing is allocated */
            held[id] = mpl_allocator_request(a, requests[id].bytes, requests[id].stream);
            if (!held[id])
                return i;
            if (a->now.allocated > run->phase_peak) {
                run->phase_peak = a->now.allocated;
                run->phase_peak_event = i;
            }
            break;
        case MPL_EVENT_FREE:
            if (held[id])
                mpl_allocator_release(a, held[id]);
            held[id] = 0;
            break;
        case MPL_EVENT_MARK:
            begin_phase(run, &timeline->marks.data[id], i);
            break;
        }
    }
    return count;
}

enum memplan_status mpl_replay_run(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                   uint64_t budget_bytes, struct mpl_replay_result *result,
                                   struct memplan_error *err)
{
    struct mpl_allocator *a = &replay->allocator;
    struct run run = {.a = a, .result = result};
    enum memplan_status st;
    uint32_t reached;

    memset(result, 0, sizeof(*result));
    if ((st = prepare(replay, timeline, budget_bytes, err)))
        return st;
    reached = run_events(&run, timeline, replay->held);
    if (a->is_out_of_memory)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    end_phase(&run);
    result->survived = reached == timeline->events.len;
    result->failed_event = result->survived ? 0 : reached;
    result->reserved_peak = a->now.peak_reserved;
    result->retries = (uint32_t)a->now.retries;
    result->same_from = a->same_from;
    result->same_below = a->same_below;
    return MEMPLAN_OK;
}
