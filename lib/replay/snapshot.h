/* SPDX-License-Identifier: MIT */
/*
 * States of a run that later runs of the same timeline can begin from.
 *
 * As long as the card gives all that is asked for, a run does not depend on its budget. So a state
 * from before the first refusal is that of every run whose budget holds what was taken so far.
 */
#ifndef MPL_REPLAY_SNAPSHOT_H
#define MPL_REPLAY_SNAPSHOT_H

#include "replay/allocator.h"
#include "replay/replay.h"

/** How far a run is: the phase it is in, and what it found so far. */
struct mpl_progress {
    uint32_t event;              /* the next one */
    const struct mpl_mark *mark; /* NULL before the first */
    uint64_t phase_peak;         /* bytes allocated */
    uint32_t phase_peak_event;
    uint64_t reserved_before; /* highest before the cache was emptied */
    struct mpl_replay_result result;
};

/** A request that has a block. */
struct mpl_holding {
    uint32_t request, block;
};

struct mpl_snapshot {
    struct mpl_progress progress;
    struct mpl_allocator allocator;
    MPL_VEC(struct mpl_holding) holdings;
};

#define MPL_SNAPSHOTS 12

/** Those of one timeline, in the order of events, and so of bytes taken. Zero: none. */
struct mpl_snapshots {
    struct mpl_snapshot *items[MPL_SNAPSHOTS]; /* those past count are room for later */
    uint32_t count;
};

/** The farthest one that a run with this budget passes through; NULL: none. */
const struct mpl_snapshot *mpl_snapshots_find(const struct mpl_snapshots *snapshots,
                                              uint64_t budget_bytes);

/** Keeps a state: held is the block of each request. Without memory for it nothing is kept. */
void mpl_snapshots_add(struct mpl_snapshots *snapshots, const struct mpl_progress *progress,
                       const struct mpl_allocator *a, const uint32_t *held, size_t request_count);

void mpl_snapshots_free(struct mpl_snapshots *snapshots);

#endif
