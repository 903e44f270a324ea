/* SPDX-License-Identifier: MIT */
/*
 * Stage "step": runs the plan's training loop on the tape, in the real code's order, until the peak
 * repeats: the first step has no optimizer state, the second is the steady one.
 */
#ifndef MPL_STEP_TRAIN_H
#define MPL_STEP_TRAIN_H

#include <memplan.h>

#include "base/arena.h"
#include "parallel/ranks.h"
#include "spec/plan.h"
#include "timeline/timeline.h"

#define MPL_MAX_STEPS 8

/** What a run tells: its events, and sums. Zero-initialized is empty; it may be used again, and
 * then uses its memory again. */
struct mpl_trace {
    struct mpl_timeline timeline;
    struct mpl_arena arena;                    /* the tape's, empty between runs */
    uint64_t parameters, trainable_parameters; /* counts, whole model, tied ones once */
    uint64_t parameter_bytes, buffer_bytes;    /* this rank's, each rounded up to 512 */
    uint64_t optimizer_bytes;                  /* after the last step */
    uint64_t live_peak; /* over the whole run; a step that is copied lives as the one before it */
};

/** How the run is looked at. */
struct mpl_trace_options {
    bool has_kernels; /* book what CUDA kernels and cuBLAS take for themselves */
    bool has_infos;   /* keep operator, shape and dtype of every request */
    bool traces_all;  /* copy no step that repeats the one before: the same events, slower */
    struct mpl_rank_classes *ranks; /* filled in; NULL: not wanted */
    struct mpl_arena *ranks_arena;  /* for them */
};

/** Traces the plan into *trace, in place of what was there. On failure its figures mean nothing. */
enum memplan_status mpl_trace_run(const struct mpl_plan *plan,
                                  const struct mpl_trace_options *options, struct mpl_trace *trace,
                                  struct memplan_error *err);

void mpl_trace_free(struct mpl_trace *trace);

#endif
