/* SPDX-License-Identifier: MIT */
/* Live bytes of a timeline, phase by phase: what the traced cases hold in "steps". */
#include <string.h>

#include "estimate/estimate.h"

#define BLOCK_BYTES 512

/* The phase that runs, and where its figures go. */
struct cursor {
    uint64_t live, on_stream[MPL_STREAM_COUNT];
    uint64_t *peak, *after;
};

static void begin_phase(struct mpl_estimate *e, const struct mpl_mark *mark, struct cursor *now)
{
    now->peak = now->after = NULL;
    if (mark->step >= MPL_REPLAY_MAX_STEPS || mpl_phase_is_apart((enum mpl_phase)mark->phase))
        return;
    if (mark->step + 1u > e->step_count)
        e->step_count = mark->step + 1u;
    now->peak = mpl_step_peak(&e->live_steps[mark->step], (enum mpl_phase)mark->phase);
    now->after = mpl_step_after(&e->live_steps[mark->step], (enum mpl_phase)mark->phase);
    if (now->peak && now->live > *now->peak)
        *now->peak = now->live;
    if (now->after)
        *now->after = now->live;
}

static void change(struct mpl_estimate *e, struct cursor *now, const struct mpl_request *request,
                   bool is_alloc)
{
    const uint64_t bytes = mpl_round_up(request->bytes, BLOCK_BYTES);

    if (!is_alloc) {
        now->live -= bytes;
        now->on_stream[request->stream] -= bytes;
    } else {
        now->live += bytes;
        now->on_stream[request->stream] += bytes;
        if (now->on_stream[request->stream] > e->stream_peak[request->stream])
            e->stream_peak[request->stream] = now->on_stream[request->stream];
        if (now->live > e->live_peak)
            e->live_peak = now->live;
        if (now->peak && now->live > *now->peak)
            *now->peak = now->live;
    }
    if (now->after)
        *now->after = now->live;
}

void mpl_estimate_live(const struct mpl_timeline *timeline, struct mpl_estimate *estimate)
{
    struct cursor now = {0};

    for (size_t i = 0; i < timeline->events.len; i++) {
        const mpl_event event = timeline->events.data[i];
        const uint32_t id = mpl_event_id(event);

        if (mpl_event_kind(event) == MPL_EVENT_MARK)
            begin_phase(estimate, &timeline->marks.data[id], &now);
        else
            change(estimate, &now, &timeline->requests.data[id],
                   mpl_event_kind(event) == MPL_EVENT_ALLOC);
    }
}

void mpl_estimate_orders(const struct mpl_timeline *timeline, struct mpl_estimate *estimate)
{
    uint64_t live = 0, orders[MPL_ORDER_COUNT] = {0}, peaks[MPL_PHASE_COUNT] = {0};
    enum mpl_phase phase = MPL_PHASE_INIT;
    bool is_last = false;

    for (size_t i = 0; i < timeline->events.len; i++) {
        const mpl_event event = timeline->events.data[i];
        const uint32_t id = mpl_event_id(event);

        if (mpl_event_kind(event) == MPL_EVENT_MARK) {
            phase = (enum mpl_phase)timeline->marks.data[id].phase;
            is_last = timeline->marks.data[id].step + 1u == estimate->step_count;
        } else {
            const struct mpl_request *request = &timeline->requests.data[id];
            const uint64_t bytes = mpl_round_up(request->bytes, BLOCK_BYTES);
            const bool is_free = mpl_event_kind(event) == MPL_EVENT_FREE;

            live = is_free ? live - bytes : live + bytes;
            orders[request->order] =
                is_free ? orders[request->order] - bytes : orders[request->order] + bytes;
        }
        if (is_last && live > peaks[phase]) {
            peaks[phase] = live;
            memcpy(estimate->peak_orders[phase], orders, sizeof(orders));
        }
    }
}
