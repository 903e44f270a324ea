/* SPDX-License-Identifier: MIT */
/* Runs a recorded sequence of allocator events through the allocator. */
#include "replay/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"

#define ENDLESS_CARD (UINT64_C(1) << 50)

struct run {
    const struct mpl_recording *recording;
    struct mpl_recording_result *result;
    struct mpl_recording_card card;
    struct mpl_allocator allocator;
    uint32_t *held; /* block of each slot, 0: nothing */
    uint64_t last_reserved;
    bool is_out_of_memory;
};

void mpl_recording_free(struct mpl_recording *recording)
{
    free(recording->conf);
    mpl_vec_free(&recording->events);
    *recording = (struct mpl_recording){0};
}

void mpl_recording_result_free(struct mpl_recording_result *result)
{
    for (size_t i = 0; i < result->failures.len; i++)
        free(result->failures.data[i].message);
    mpl_vec_free(&result->marks);
    mpl_vec_free(&result->failures);
    mpl_vec_free(&result->changes);
    mpl_vec_free(&result->segments);
    mpl_vec_free(&result->blocks);
}

static void note_failure(struct run *run, uint32_t at, uint64_t bytes)
{
    struct mpl_recording_result *result = run->result;
    char *message = mpl_recording_message(&run->allocator, &run->card, bytes);

    if (!message || mpl_vec_reserve(&result->failures)) {
        free(message);
        run->is_out_of_memory = true;
        return;
    }
    result->failures.data[result->failures.len++] = (struct mpl_recording_failure){at, message};
}

/* A block goes, whether or not its release has begun. */
static void drop(struct run *run, uint32_t block)
{
    if (run->allocator.blocks[block].waits)
        mpl_allocator_release_end(&run->allocator, block);
    else
        mpl_allocator_release(&run->allocator, block);
}

static void release(struct run *run, uint32_t slot)
{
    if (slot != MPL_NO_SLOT && run->held[slot]) {
        drop(run, run->held[slot]);
        run->held[slot] = 0;
    }
}

/* What the slot held before goes when the new one is there, as Python's assignment does. */
static void request(struct run *run, const struct mpl_recorded_event *e, uint32_t at)
{
    const uint32_t before = run->held[e->slot];
    uint32_t block;

    if (e->bytes == 0)
        return; /* a null pointer: nothing is allocated */
    block = mpl_allocator_request(&run->allocator, e->bytes, e->stream);
    if (!block) {
        note_failure(run, at, e->bytes);
        return;
    }
    run->held[e->slot] = block;
    if (before)
        drop(run, before);
}

static void note_mark(struct run *run, uint32_t at)
{
    if (mpl_vec_reserve(&run->result->marks)) {
        run->is_out_of_memory = true;
        return;
    }
    run->result->marks.data[run->result->marks.len++] =
        (struct mpl_recording_mark){at, run->allocator.now};
}

static void note_change(struct run *run, uint32_t at)
{
    const uint64_t reserved = run->allocator.now.reserved;

    if (reserved == run->last_reserved)
        return;
    if (mpl_vec_reserve(&run->result->changes)) {
        run->is_out_of_memory = true;
        return;
    }
    run->result->changes.data[run->result->changes.len++] =
        (struct mpl_recording_change){at, reserved};
    run->last_reserved = reserved;
}

static void run_event(struct run *run, uint32_t at)
{
    const struct mpl_recorded_event *e = &run->recording->events.data[at];
    struct mpl_allocator *a = &run->allocator;
    const uint32_t held = e->slot != MPL_NO_SLOT ? run->held[e->slot] : 0;

    switch ((enum mpl_recorded_kind)e->kind) {
    case MPL_RECORDED_REQUEST:
        request(run, e, at);
        break;
    case MPL_RECORDED_RELEASE:
    case MPL_RECORDED_RELEASE_END:
        release(run, e->slot);
        break;
    case MPL_RECORDED_RELEASE_BEGIN:
        if (held && !a->blocks[held].waits)
            mpl_allocator_release_begin(a, held);
        break;
    case MPL_RECORDED_RECORD_STREAM:
        if (held)
            mpl_allocator_record_stream(a, held, e->stream);
        break;
    case MPL_RECORDED_EMPTY_CACHE:
        mpl_allocator_empty_cache(a);
        break;
    case MPL_RECORDED_WAIT:
        mpl_allocator_wait(a);
        break;
    case MPL_RECORDED_WAIT_STREAM:
        mpl_allocator_wait_stream(a, e->stream);
        break;
    case MPL_RECORDED_RESET_PEAKS:
        mpl_allocator_reset_peaks(a);
        break;
    case MPL_RECORDED_ENTER_POOL:
        mpl_allocator_enter_pool(a, e->pool);
        break;
    case MPL_RECORDED_LEAVE_POOL:
        mpl_allocator_enter_pool(a, 0);
        break;
    case MPL_RECORDED_MARK:
        note_mark(run, at);
        break;
    }
}

/* Settings, card and limits: the recording's own, or what is asked for instead. */
static enum memplan_status prepare(struct run *run, const struct mpl_recording_settings *settings,
                                   struct memplan_error *err)
{
    const struct mpl_recording *r = run->recording;
    struct mpl_allocator *a = &run->allocator;
    const uint64_t total = settings->total_bytes ? settings->total_bytes : r->total_bytes;
    const uint64_t context = settings->has_context ? settings->context_bytes : r->context_bytes;
    double fraction = settings->fraction > 0 ? settings->fraction : r->fraction;
    enum memplan_status status = mpl_alloc_conf_parse(settings->conf ? settings->conf : r->conf,
                                                      settings->release, &a->conf, err);

    if (status && err) /* what the plan's field is called is not where a trace has it */
        snprintf(err->path, sizeof(err->path), "%s", settings->conf ? "" : "/conf");
    if (status)
        return status;
    if (!total && (fraction > 0 || (a->conf.has_fraction && a->conf.fraction < 1)))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "found a fraction of the card's memory, expected the card's total too");
    run->card = (struct mpl_recording_card){total, context};
    mpl_allocator_reset(a, total ? mpl_sub(total, context) : UINT64_MAX - 1,
                        total ? total : ENDLESS_CARD);
    if (fraction > 0)
        mpl_allocator_set_fraction(a, fraction, total);
    a->is_lazy = r->is_lazy;
    a->keeps_places = true;
    run->held = calloc((size_t)r->slot_count + 1, sizeof(*run->held));
    if (!run->held || a->is_out_of_memory)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory before the first event");
    return MEMPLAN_OK;
}

static enum memplan_status run_all(struct run *run, uint64_t until, struct memplan_error *err)
{
    struct mpl_recording_result *result = run->result;
    const size_t count = run->recording->events.len;
    const uint32_t end = (uint32_t)(until && until < count ? until : count);
    uint64_t highest = 0;

    for (uint32_t i = 0; i < end; i++) {
        run_event(run, i);
        note_change(run, i);
        if (run->last_reserved > highest) {
            highest = run->last_reserved;
            result->peak_event = i;
        }
        if (run->is_out_of_memory || run->allocator.is_out_of_memory)
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory at event %u", i);
    }
    result->events = end;
    result->end = run->allocator.now;
    result->has_card = run->card.total_bytes > 0;
    result->free_on_card = mpl_sub(run->allocator.budget_bytes, run->allocator.used_bytes);
    if (!mpl_recording_layout(&run->allocator, result))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while mapping the segments");
    return MEMPLAN_OK;
}

enum memplan_status mpl_recording_run(const struct mpl_recording *recording,
                                      const struct mpl_recording_settings *settings,
                                      struct mpl_recording_result *result,
                                      struct memplan_error *err)
{
    struct run run = {.recording = recording, .result = result};
    enum memplan_status status = prepare(&run, settings, err);

    if (!status)
        status = run_all(&run, settings->until, err);
    mpl_allocator_free(&run.allocator);
    free(run.held);
    return status;
}
