/* SPDX-License-Identifier: MIT */
/*
 * Stage "replay": the caching allocator of PyTorch (c10/cuda/CUDACachingAllocator.cpp, in any
 * of its settings) run over a timeline: rounding, small and large pools, one pool per stream, best
 * fit, splitting, flush and retry, out-of-memory.
 */
#ifndef MPL_REPLAY_REPLAY_H
#define MPL_REPLAY_REPLAY_H

#include <memplan.h>

#include "replay/conf.h"
#include "timeline/timeline.h"

#define MPL_NO_BUDGET UINT64_MAX

/** Allocator state; reused from run to run, so that many replays cost no memory management. */
struct mpl_replay;

/** Allocator's counters at the end of each phase and at its peak. */
struct mpl_replay_step {
    struct mpl_step_bytes allocated; /* torch.cuda.memory_allocated */
    uint64_t reserved;               /* highest so far */
    uint32_t retries;                /* flush-and-retry so far */
};

#define MPL_REPLAY_MAX_STEPS 8

struct mpl_replay_result {
    bool survived;
    uint64_t allocated_peak, reserved_peak; /* over the whole run */
    uint32_t allocated_peak_event;          /* index into timeline->events, first time */
    uint32_t failed_event;                  /* of the request that failed, when it did */
    uint32_t retries;
    uint64_t phase_peaks[MPL_PHASE_COUNT]; /* allocated, over all steps */
    uint32_t step_count;                   /* steps reached */
    struct mpl_replay_step steps[MPL_REPLAY_MAX_STEPS];
    /* Any budget in [same_from, same_below) gives this very run. */
    uint64_t same_from, same_below;
};

struct mpl_replay *mpl_replay_new(void); /* NULL when out of memory */
void mpl_replay_free(struct mpl_replay *replay);

/**
 * From here on the timeline does not change until the next call (or until NULL is followed): runs
 * of it may begin where an earlier one was still the same. Results are those of a run from the
 * start. from_bytes: about the lowest budget that will be asked for; a good guess saves time.
 */
void mpl_replay_follow(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                       uint64_t from_bytes);

/** How the allocator is set, and the card that a fraction is of. */
struct mpl_replay_settings {
    const char *conf; /* PYTORCH_CUDA_ALLOC_CONF; NULL and "": the defaults */
    struct mpl_alloc_release release;
    uint64_t total_bytes; /* 0: not known */
};

/** Settings for the runs that follow; on failure (see mpl_alloc_conf_parse) they stay as they were.
 * A fraction of a card that is not known gives MEMPLAN_ERR_VALUE. */
enum memplan_status mpl_replay_set_conf(struct mpl_replay *replay,
                                        const struct mpl_replay_settings *settings,
                                        struct memplan_error *err);

/**
 * Runs the timeline on a card that gives budget_bytes to the allocator; MPL_NO_BUDGET: no limit.
 * The run ends at the first request that fails: a request above 64 TiB always does. A phase's peak
 * is the highest allocated figure from its start, with what it found, to its end; over several
 * micro-batches the highest of them, and what is left after it is of the last one. The phase in
 * which a run fails holds what was reached. Expandable segments: their address space is taken as
 * endless (in truth 9/8 of the card), so that a run depends on the budget only by what the card
 * refuses. Fails only when this process is out of memory.
 */
enum memplan_status mpl_replay_run(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                   uint64_t budget_bytes, struct mpl_replay_result *result,
                                   struct memplan_error *err);

/** The band of budgets in which survival is decided. */
struct mpl_needs {
    uint64_t low_bytes;    /* lowest budget that ran: below, the run always failed */
    uint64_t high_bytes;   /* from here on the run always survived */
    uint32_t replay_count; /* runs that it took */
};

/** The grid on which the band is looked for: cards and drivers differ by more than this. */
#define MPL_NEEDS_GRID_BYTES (UINT64_C(64) << 20)

/**
 * Finds the band by replaying over the budget. unlimited is the result of a run without a limit;
 * live_peak_bytes a figure below which no budget can do (the peak of the sum of live requests, each
 * rounded up to 512).
 *
 * Budgets are tried on a grid that begins at live_peak_bytes: upward to the first one that
 * survives, and from unlimited's reserved peak downward to the first one that fails. A run tells
 * for which budgets it would have been the same, so one replay decides all points of such a piece;
 * a piece between two points is not seen. With a grid of 2 MiB, the card's own grain, nothing is
 * missed. When unlimited itself failed, both ends are MPL_NO_BUDGET.
 */
enum memplan_status mpl_replay_needs(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                     const struct mpl_replay_result *unlimited,
                                     uint64_t live_peak_bytes, uint64_t grid_bytes,
                                     struct mpl_needs *needs_out, struct memplan_error *err);

#endif
