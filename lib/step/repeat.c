/* SPDX-License-Identifier: MIT */
/* A step that starts from the same live storages as the one before it does the same again. */
#include "step/repeat.h"

#include <stdlib.h>
#include <string.h>

enum { DEAD = 0, ALIVE };

/* What lives where the step begins and ends, and who takes whose place in the next one. */
struct repetition {
    struct mpl_timeline *timeline;
    struct mpl_step_start start, end;
    uint8_t *before, *after; /* of every request: DEAD or ALIVE */
    uint32_t *heir; /* of a request from before the step that lives at its beginning only */
};

struct mpl_step_start mpl_step_start_here(const struct mpl_timeline *timeline)
{
    return (struct mpl_step_start){timeline->events.len, timeline->requests.len,
                                   timeline->marks.len};
}

static void live_through(const struct mpl_timeline *timeline, size_t from, size_t to, uint8_t *live)
{
    for (size_t i = from; i < to; i++) {
        const mpl_event event = timeline->events.data[i];

        if (mpl_event_kind(event) != MPL_EVENT_MARK)
            live[mpl_event_id(event)] = mpl_event_kind(event) == MPL_EVENT_ALLOC ? ALIVE : DEAD;
    }
}

static bool are_alike(const struct mpl_request *a, const struct mpl_request *b)
{
    return a->bytes == b->bytes && a->stream == b->stream && a->category == b->category &&
           a->order == b->order && a->phase == b->phase;
}

/* Pairs what lives only before the step with what lives only after it, in order of birth. */
static bool find_heirs(const struct repetition *r)
{
    const struct mpl_request *requests = r->timeline->requests.data;
    size_t next = 0;

    for (size_t i = 0; i < r->start.request; i++) {
        if (!r->before[i] || r->after[i])
            continue;
        while (next < r->end.request && !(r->after[next] && !r->before[next]))
            next++;
        if (next == r->end.request || !are_alike(&requests[i], &requests[next]))
            return false;
        r->heir[i] = (uint32_t)next++;
    }
    while (next < r->end.request && !(r->after[next] && !r->before[next]))
        next++;
    return next == r->end.request;
}

static bool reserve(struct mpl_timeline *t, const struct repetition *r)
{
    const struct mpl_step_start added = {r->end.event - r->start.event,
                                         r->end.request - r->start.request,
                                         r->end.mark - r->start.mark};
    const bool has_infos = t->infos.len > 0;

    while (t->events.cap - t->events.len < added.event)
        if (mpl_vec_grow((void **)&t->events.data, &t->events.cap, sizeof(*t->events.data)))
            return false;
    while (t->requests.cap - t->requests.len < added.request)
        if (mpl_vec_grow((void **)&t->requests.data, &t->requests.cap, sizeof(*t->requests.data)))
            return false;
    while (has_infos && t->infos.cap - t->infos.len < added.request)
        if (mpl_vec_grow((void **)&t->infos.data, &t->infos.cap, sizeof(*t->infos.data)))
            return false;
    while (t->marks.cap - t->marks.len < added.mark)
        if (mpl_vec_grow((void **)&t->marks.data, &t->marks.cap, sizeof(*t->marks.data)))
            return false;
    return true;
}

/* The next step's number of a request that an event names. */
static uint32_t renamed(const struct repetition *r, uint32_t id)
{
    if (id >= r->start.request)
        return id + (uint32_t)(r->end.request - r->start.request);
    return r->heir[id];
}

static mpl_event next_event(struct repetition *r, mpl_event event)
{
    struct mpl_timeline *t = r->timeline;
    const uint32_t id = mpl_event_id(event), kind = event & ~MPL_EVENT_MAX;

    if (mpl_event_kind(event) != MPL_EVENT_MARK)
        return kind | renamed(r, id);
    t->marks.data[t->marks.len] = t->marks.data[id];
    t->marks.data[t->marks.len].step++;
    return kind | (uint32_t)t->marks.len++;
}

static void copy(struct repetition *r)
{
    struct mpl_timeline *t = r->timeline;
    const size_t count = r->end.request - r->start.request;

    for (size_t i = r->start.event; i < r->end.event; i++)
        t->events.data[t->events.len++] = next_event(r, t->events.data[i]);
    memcpy(t->requests.data + t->requests.len, t->requests.data + r->start.request,
           count * sizeof(*t->requests.data));
    t->requests.len += count;
    t->step_count++;
    if (t->infos.len) {
        memcpy(t->infos.data + t->infos.len, t->infos.data + r->start.request,
               count * sizeof(*t->infos.data));
        t->infos.len += count;
    }
}

enum mpl_repeat mpl_timeline_repeat(struct mpl_timeline *timeline,
                                    const struct mpl_step_start *start, size_t most_requests)
{
    struct repetition r = {
        .timeline = timeline, .start = *start, .end = mpl_step_start_here(timeline)};
    const size_t count = r.end.request;
    enum mpl_repeat result = MPL_REPEAT_NOMEM;

    if (count + (count - start->request) > most_requests)
        return MPL_REPEAT_LIMIT;
    r.before = calloc(2 * count + 1, 1);
    r.heir = malloc((start->request + 1) * sizeof(*r.heir));
    if (r.before && r.heir) {
        r.after = r.before + count;
        live_through(timeline, 0, start->event, r.before);
        memcpy(r.after, r.before, count);
        live_through(timeline, start->event, r.end.event, r.after);
        if (!find_heirs(&r))
            result = MPL_REPEAT_DIFFERS;
        else if (reserve(timeline, &r)) {
            copy(&r);
            result = MPL_REPEAT_DONE;
        }
    }
    free(r.heir);
    free(r.before);
    return result;
}
