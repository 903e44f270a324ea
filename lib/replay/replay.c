/* SPDX-License-Identifier: MIT */
/* Stage "replay": the caching allocator run over a timeline. */
#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "replay/snapshot.h"

/* Size of the card for expandable segments: endless address space, whatever the budget. */
#define ENDLESS_CARD (UINT64_C(1) << 50)

struct mpl_replay {
    struct mpl_allocator allocator;
    uint32_t *held; /* block of each request, 0 when it has none */
    size_t held_room;
    uint64_t total_bytes;                /* of the card: what a fraction is of; 0: not known */
    const struct mpl_timeline *followed; /* NULL: none */
    uint64_t from_bytes;
    struct mpl_snapshots snapshots; /* of the timeline that is followed */
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
    mpl_snapshots_free(&replay->snapshots);
    free(replay->held);
    free(replay);
}

enum memplan_status mpl_replay_set_conf(struct mpl_replay *replay,
                                        const struct mpl_replay_settings *settings,
                                        struct memplan_error *err)
{
    struct mpl_alloc_conf conf;
    enum memplan_status status =
        mpl_alloc_conf_parse(settings->conf, settings->release, &conf, err);

    if (status)
        return status;
    if (conf.has_fraction && conf.fraction < 1 && !settings->total_bytes)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/device/allocator/conf",
                        "found per_process_memory_fraction and no card, expected device.gpu or "
                        "device.total_bytes");
    if (!mpl_alloc_conf_is_same(&conf, &replay->allocator.conf) ||
        settings->total_bytes != replay->total_bytes)
        replay->snapshots.count = 0;
    replay->allocator.conf = conf;
    replay->total_bytes = settings->total_bytes;
    return MEMPLAN_OK;
}

void mpl_replay_follow(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                       uint64_t from_bytes)
{
    replay->followed = timeline;
    replay->from_bytes = from_bytes;
    replay->snapshots.count = 0;
}

static enum memplan_status make_held(struct mpl_replay *replay, size_t count,
                                     struct memplan_error *err)
{
    if (count > replay->held_room) {
        free(replay->held);
        replay->held_room = 0;
        if (!(replay->held = malloc(count * sizeof(*replay->held))))
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        replay->held_room = count;
    }
    if (count)
        memset(replay->held, 0, count * sizeof(*replay->held));
    return MEMPLAN_OK;
}

/* Whether a refusal can only come from the budget. */
static bool can_be_staged(const struct mpl_alloc_conf *conf)
{
    return !conf->is_expandable && !conf->has_fraction && !conf->rejects_early;
}

/* What a fraction is of: the card itself, not what the budget leaves of it. */
static void set_total(struct mpl_replay *replay)
{
    const struct mpl_alloc_conf *conf = &replay->allocator.conf;

    mpl_allocator_set_fraction(&replay->allocator, conf->has_fraction ? conf->fraction : 1,
                               replay->total_bytes ? replay->total_bytes : ENDLESS_CARD);
}

/* Sets the allocator, the requests' blocks and the progress to where the run begins. */
static enum memplan_status prepare(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                   uint64_t budget_bytes, struct mpl_progress *progress,
                                   struct memplan_error *err)
{
    const bool is_followed = replay->followed == timeline && can_be_staged(&replay->allocator.conf);
    const struct mpl_snapshot *s =
        is_followed ? mpl_snapshots_find(&replay->snapshots, budget_bytes) : NULL;
    enum memplan_status status = make_held(replay, timeline->requests.len, err);

    if (status)
        return status;
    memset(progress, 0, sizeof(*progress));
    if (s) {
        if (!mpl_allocator_copy(&replay->allocator, &s->allocator))
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        for (size_t i = 0; i < s->holdings.len; i++)
            replay->held[s->holdings.data[i].request] = s->holdings.data[i].block;
        memcpy(progress, &s->progress, sizeof(*progress));
    } else {
        mpl_allocator_reset(&replay->allocator, budget_bytes, ENDLESS_CARD);
        if (replay->allocator.is_out_of_memory)
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        set_total(replay);
    }
    replay->allocator.is_staged = is_followed;
    return MEMPLAN_OK;
}

/* Writes down the phase that ends here. */
static void end_phase(struct mpl_progress *run, const struct mpl_counters *now)
{
    struct mpl_replay_result *result = &run->result;
    struct mpl_replay_step *step;
    uint64_t *peak, *after;

    if (run->phase_peak > result->allocated_peak) {
        result->allocated_peak = run->phase_peak;
        result->allocated_peak_event = run->phase_peak_event;
    }
    if (!run->mark)
        return;
    if (run->phase_peak > result->phase_peaks[run->mark->phase])
        result->phase_peaks[run->mark->phase] = run->phase_peak;
    if (mpl_phase_is_apart((enum mpl_phase)run->mark->phase) ||
        run->mark->step >= MPL_REPLAY_MAX_STEPS)
        return;
    step = &result->steps[run->mark->step];
    if (result->step_count <= run->mark->step)
        result->step_count = run->mark->step + UINT32_C(1);
    step->reserved = now->peak_reserved;
    step->retries = (uint32_t)now->retries;
    peak = mpl_step_peak(&step->allocated, (enum mpl_phase)run->mark->phase);
    after = mpl_step_after(&step->allocated, (enum mpl_phase)run->mark->phase);
    if (peak && run->phase_peak > *peak)
        *peak = run->phase_peak;
    if (after)
        *after = now->allocated;
}

static void begin_phase(struct mpl_progress *run, struct mpl_allocator *a,
                        const struct mpl_mark *mark, uint32_t event)
{
    end_phase(run, &a->now);
    run->mark = mark;
    run->phase_peak = a->now.allocated;
    run->phase_peak_event = event;
    if (mark->empties_cache) {
        if (a->now.peak_reserved > run->reserved_before)
            run->reserved_before = a->now.peak_reserved;
        mpl_allocator_empty_cache(a);
        mpl_allocator_reset_peaks(a);
    }
}

/* Runs the events up to the first failure, whose index run->event is then; else all. */
static void run_events(struct mpl_progress *run, const struct mpl_timeline *timeline,
                       struct mpl_allocator *a, uint32_t *held)
{
    const mpl_event *events = timeline->events.data;
    const struct mpl_request *requests = timeline->requests.data;
    uint32_t count = (uint32_t)timeline->events.len, i;

    for (i = run->event; i < count; i++) {
        uint32_t id = mpl_event_id(events[i]);

        switch (mpl_event_kind(events[i])) {
        case MPL_EVENT_ALLOC:
            if (requests[id].bytes == 0)
                break; /* a null pointer: nothing is allocated */
            held[id] = mpl_allocator_request(a, requests[id].bytes, requests[id].stream);
            if (!held[id]) {
                run->event = i;
                return;
            }
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
            begin_phase(run, a, &timeline->marks.data[id], i);
            break;
        }
    }
    run->event = count;
}

/* The next snapshot: from_bytes / 64 further on, and farther the farther away that is. */
static uint64_t next_stage(uint64_t from_bytes, uint64_t wanted)
{
    const uint64_t above = wanted > from_bytes ? wanted - from_bytes : 0;

    return mpl_add(wanted, from_bytes / 64 + above / 4);
}

/*
 * Runs the events with a budget that rises in stages up to budget_bytes. Where it did not do the
 * state is kept for other runs, and the run goes on with the next stage: nothing was refused yet.
 */
static void run_stages(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                       uint64_t budget_bytes, struct mpl_progress *run)
{
    struct mpl_allocator *a = &replay->allocator;
    const uint64_t from = replay->from_bytes;
    uint64_t stage = a->used_bytes > from ? a->used_bytes : from, wanted;

    while (a->is_staged) {
        a->budget_bytes = stage < budget_bytes ? stage : budget_bytes;
        run_events(run, timeline, a, replay->held);
        if (run->event == timeline->events.len || a->now.ooms || a->is_out_of_memory)
            return;
        wanted = a->same_below;
        a->same_below = UINT64_MAX; /* as before the request */
        mpl_snapshots_add(&replay->snapshots, run, a, replay->held, timeline->requests.len);
        stage = next_stage(from, wanted);
        a->is_staged = wanted <= budget_bytes && wanted != MPL_BYTES_OVERFLOW;
    }
    a->budget_bytes = budget_bytes;
    run_events(run, timeline, a, replay->held);
}

enum memplan_status mpl_replay_run(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                   uint64_t budget_bytes, struct mpl_replay_result *result,
                                   struct memplan_error *err)
{
    struct mpl_allocator *a = &replay->allocator;
    struct mpl_progress run;
    enum memplan_status st;

    memset(result, 0, sizeof(*result));
    if ((st = prepare(replay, timeline, budget_bytes, &run, err)))
        return st;
    run_stages(replay, timeline, budget_bytes, &run);
    if (a->is_out_of_memory)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    end_phase(&run, &a->now);
    memcpy(result, &run.result, sizeof(*result));
    result->survived = run.event == timeline->events.len;
    result->failed_event = result->survived ? 0 : run.event;
    result->reserved_peak = a->now.peak_reserved;
    if (run.reserved_before > result->reserved_peak)
        result->reserved_peak = run.reserved_before;
    result->retries = (uint32_t)a->now.retries;
    result->same_from = a->same_from;
    result->same_below = a->same_below;
    return MEMPLAN_OK;
}
