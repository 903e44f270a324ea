/* SPDX-License-Identifier: MIT */
/* States of a run that later runs of the same timeline can begin from. */
#include "replay/snapshot.h"

#include <stdlib.h>
#include <string.h>

/* The most that was taken from the card so far, whatever went back since. */
static uint64_t taken(const struct mpl_snapshots *snapshots, uint32_t i)
{
    return snapshots->items[i]->allocator.same_from;
}

const struct mpl_snapshot *mpl_snapshots_find(const struct mpl_snapshots *snapshots,
                                              uint64_t budget_bytes)
{
    uint32_t i = snapshots->count;

    while (i > 0 && taken(snapshots, i - 1) > budget_bytes)
        i--;
    return i ? snapshots->items[i - 1] : NULL;
}

/* Moves the item at `from` to `to`; those between close up. */
static void move(struct mpl_snapshots *snapshots, uint32_t from, uint32_t to)
{
    struct mpl_snapshot **items = snapshots->items, *moved = items[from];

    if (from < to)
        memmove(&items[from], &items[from + 1], (to - from) * sizeof(*items));
    else
        memmove(&items[to + 1], &items[to], (from - to) * sizeof(*items));
    items[to] = moved;
}

/* Makes room in a full row: the one whose neighbours can best stand in for it, neither the first
 * nor the last. */
static void drop_one(struct mpl_snapshots *snapshots)
{
    uint32_t worst = 1;

    for (uint32_t i = 2; i + 1 < snapshots->count; i++)
        if (taken(snapshots, i + 1) - taken(snapshots, i - 1) <
            taken(snapshots, worst + 1) - taken(snapshots, worst - 1))
            worst = i;
    move(snapshots, worst, --snapshots->count);
}

static uint32_t place_of(const struct mpl_snapshots *snapshots, uint32_t event)
{
    uint32_t at = snapshots->count;

    while (at > 0 && snapshots->items[at - 1]->progress.event > event)
        at--;
    return at;
}

static bool hold(struct mpl_snapshot *s, const uint32_t *held, size_t request_count)
{
    s->holdings.len = 0;
    for (size_t i = 0; i < request_count; i++) {
        if (!held[i])
            continue;
        if (mpl_vec_reserve(&s->holdings))
            return false;
        s->holdings.data[s->holdings.len++] = (struct mpl_holding){(uint32_t)i, held[i]};
    }
    return true;
}

void mpl_snapshots_add(struct mpl_snapshots *snapshots, const struct mpl_progress *progress,
                       const struct mpl_allocator *a, const uint32_t *held, size_t request_count)
{
    struct mpl_snapshot **items = snapshots->items, *s;
    uint32_t at = place_of(snapshots, progress->event);

    if (at > 0 && items[at - 1]->progress.event == progress->event)
        return; /* a run that began there */
    if (snapshots->count == MPL_SNAPSHOTS) {
        drop_one(snapshots);
        at = place_of(snapshots, progress->event);
    }
    if (!(s = items[snapshots->count]) && !(s = calloc(1, sizeof(*s))))
        return;
    items[snapshots->count] = s;
    if (!hold(s, held, request_count) || !mpl_allocator_copy(&s->allocator, a))
        return;
    memcpy(&s->progress, progress, sizeof(s->progress));
    move(snapshots, snapshots->count++, at);
}

void mpl_snapshots_free(struct mpl_snapshots *snapshots)
{
    for (uint32_t i = 0; i < MPL_SNAPSHOTS; i++) {
        if (!snapshots->items[i])
            continue;
        mpl_allocator_free(&snapshots->items[i]->allocator);
        mpl_vec_free(&snapshots->items[i]->holdings);
        free(snapshots->items[i]);
    }
    *snapshots = (struct mpl_snapshots){0};
}
