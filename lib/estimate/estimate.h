/* SPDX-License-Identifier: MIT */
/*
 * Stage "estimate": the peaks of one run without alternatives, and what they are made of.
 */
#ifndef MPL_ESTIMATE_ESTIMATE_H
#define MPL_ESTIMATE_ESTIMATE_H

#include "replay/replay.h"
#include "step/train.h"

#define MPL_MAX_LARGEST 8

/** Requests of one operator, shape and dtype that live at the peak. */
struct mpl_largest {
    uint64_t bytes;
    uint32_t count;
    const char *op;
    struct mpl_request_info info;
    enum mpl_phase phase;
    enum mpl_category category;
};

/** What lives when the allocated peak is first reached. Sums of sizes rounded up to 512. */
struct mpl_composition {
    uint64_t live_bytes;
    uint64_t by_category[MPL_CATEGORY_COUNT];
    uint64_t by_order[MPL_ORDER_COUNT];
    uint64_t by_both[MPL_CATEGORY_COUNT][MPL_ORDER_COUNT];
    struct mpl_largest largest[MPL_MAX_LARGEST]; /* largest first */
    uint32_t largest_count;
    enum mpl_phase phase;
    uint32_t step;
};

struct mpl_estimate {
    uint64_t parameters, trainable_parameters, parameter_bytes, buffer_bytes, optimizer_bytes;
    uint32_t step_count;
    struct mpl_step_bytes live_steps[MPL_REPLAY_MAX_STEPS];
    uint64_t live_peak;                     /* over the whole run, loading the model included */
    uint64_t stream_peak[MPL_STREAM_COUNT]; /* each stream's own highest live sum */
    struct mpl_replay_result unlimited;     /* on a card without limit */
    struct mpl_needs needs;
    struct mpl_composition composition;
    uint64_t peak_orders[MPL_PHASE_COUNT][MPL_ORDER_COUNT]; /* of live bytes, in the last step */
};

/** How much is wanted; each costs more than the one before. */
enum mpl_estimate_depth {
    MPL_ESTIMATE_PEAKS = 0, /* live, allocated, reserved */
    MPL_ESTIMATE_NEEDS,     /* and the band of needs */
    MPL_ESTIMATE_ALL,       /* and the composition at the peak */
};

/** Memory that is used again from estimate to estimate. */
struct mpl_estimator {
    struct mpl_replay *replay;
    struct mpl_trace trace;         /* of the last estimate */
    struct mpl_rank_classes *ranks; /* filled in by the next trace; NULL: not wanted */
    struct mpl_arena *ranks_arena;
};

/** MEMPLAN_ERR_NOMEM or MEMPLAN_OK. */
enum memplan_status mpl_estimator_init(struct mpl_estimator *estimator, struct memplan_error *err);
void mpl_estimator_free(struct mpl_estimator *estimator);

/** The allocator settings of a plan, for the replays that follow. */
enum memplan_status mpl_estimator_set_conf(struct mpl_estimator *estimator,
                                           const struct mpl_plan *plan, struct memplan_error *err);

/** Traces and replays one plan. */
enum memplan_status mpl_estimate_run(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                     enum mpl_estimate_depth depth, struct mpl_estimate *estimate,
                                     struct memplan_error *err);

/** The same, one part after the other, for callers that may stop in between. Of live sums the trace
 * gives the highest one. */
enum memplan_status mpl_estimate_trace(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                       bool has_infos, struct mpl_estimate *estimate,
                                       struct memplan_error *err);
enum memplan_status mpl_estimate_peaks(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                       struct mpl_estimate *estimate, struct memplan_error *err);
enum memplan_status mpl_estimate_needs(struct mpl_estimator *estimator,
                                       struct mpl_estimate *estimate, struct memplan_error *err);

/** What mpl_estimate_run does after the trace. */
enum memplan_status mpl_estimate_rest(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                      enum mpl_estimate_depth depth, struct mpl_estimate *estimate,
                                      struct memplan_error *err);

/** Live sums of a timeline: fills live_steps, live_peak, stream_peak. */
void mpl_estimate_live(const struct mpl_timeline *timeline, struct mpl_estimate *estimate);

/** What each phase's live peak in the last step is made of: fills peak_orders. */
void mpl_estimate_orders(const struct mpl_timeline *timeline, struct mpl_estimate *estimate);

/** What lives right after event number `event`, of a timeline with infos. Memory for the count
 * comes and goes inside. */
enum memplan_status mpl_estimate_compose(const struct mpl_timeline *timeline, uint32_t event,
                                         struct mpl_composition *composition,
                                         struct memplan_error *err);

#endif
