/* SPDX-License-Identifier: MIT */
/*
 * From a spec to a verdict: the stages in their order. The first file to open.
 *
 *     spec -> step -> timeline -> replay -> estimate -> readings -> verdict
 */
#ifndef MPL_PIPELINE_H
#define MPL_PIPELINE_H

#include "base/arena.h"
#include "estimate/estimate.h"
#include "spec/spec.h"
#include "table/note.h"
#include "verdict/accuracy.h"
#include "verdict/capacity.h"
#include "verdict/correction.h"
#include "verdict/survival.h"

/** What one alternative predicts for one reading, in bytes; an outcome has a probability. */
struct mpl_prediction {
    uint64_t allocated_bytes, reserved_bytes, device_bytes;
    double survival;
};

/** What one class of ranks takes. */
struct mpl_rank_figures {
    bool is_known;
    uint64_t live_bytes, allocated_bytes, reserved_bytes;
    struct mpl_needs needs;
};

/** One combination of what the plan leaves open. */
struct mpl_alternative {
    size_t combination;
    char text[256];                   /* "model.head_dim = 112, software.pytorch = 2.9.1" */
    char *set_json;                   /* {"model.head_dim": 112}; arena memory */
    struct mpl_estimate estimate;     /* of the worst rank that was computed */
    struct mpl_rank_classes ranks;    /* count 0: the plan names the rank */
    struct mpl_rank_figures *figures; /* one for each class of ranks, when they differ */
    int64_t rank;                     /* whose estimate it is */
    struct mpl_capacity capacity;
    struct mpl_correction correction; /* of a calibration; not known without one */
    double error;                     /* relative, at the plan's length */
    double survival;                  /* -1 without a device; with has_bounds the most it can be */
    double survival_at_least;
    double weight; /* of the readings; over all kept ones they add up to 1 */
    bool is_excluded;
    char excluded_by[192];
    struct mpl_prediction *predictions; /* one for each reading; arena memory */
};

/** One way to read the numbers: all of them are this quantity in this unit. */
struct mpl_hypothesis {
    enum mpl_metric metric;
    enum mpl_unit unit;
    double weight;
    double nearest; /* smallest worst difference over the alternatives, relative */
    bool is_excluded;
};

#define MPL_MAX_HYPOTHESES 12
#define MPL_MAX_NOTES      64

struct mpl_report_note {
    enum mpl_note_code code;
    char path[64], text[256];
};

struct mpl_suggestion {
    bool is_found;
    int64_t sequence_length, fails_at; /* fails_at 0: the search ended before anything failed */
    uint64_t needs_bytes;
    double survival;
};

/** All that a report says. */
struct memplan_report {
    struct mpl_arena arena;
    struct mpl_plan plan; /* of the most likely alternative that is left */
    char id[128];
    double risk;
    bool uses_readings, has_all_ranks, has_peaks_only;
    bool has_bounds; /* survival is known well enough for the verdict, and no better */
    enum mpl_openness openness;
    struct mpl_accuracy accuracy;              /* of verdicts */
    const struct mpl_calibration *calibration; /* borrowed while the stages run; NULL: none */
    bool is_calibrated;
    struct mpl_alternative *alternatives;
    size_t alternative_count, kept_count, best;
    struct mpl_hypothesis hypotheses[MPL_MAX_HYPOTHESES];
    uint32_t hypothesis_count;
    bool readings_contradict; /* no alternative explains them */
    int64_t farthest_reading; /* tokens; 0: none */
    double survival;          /* over all that are left; -1 without a device */
    enum memplan_verdict verdict;
    char reason[512];
    struct mpl_suggestion suggestion;
    struct mpl_report_note notes[MPL_MAX_NOTES];
    uint32_t note_count;
    char *spec_json; /* dumps; malloc'ed, NULL when not asked for */
    char *timeline_text, *replay_text;
};

/**
 * Predictions of readings, kept from one run of the pipeline to the next. For plans that differ
 * only in a field at which every reading is pinned (mpl_spec_pin_readings); zeroed at first.
 */
struct mpl_readings_memo {
    struct mpl_prediction *predictions; /* readings of the first alternative, then of the next... */
    double *surprise;                   /* of each alternative */
    size_t alternatives, readings;
};

void mpl_readings_memo_free(struct mpl_readings_memo *memo);

/** Runs all stages; calibration and memo may be NULL. *report_out is new. */
enum memplan_status mpl_pipeline_run(const struct mpl_spec *spec,
                                     const struct memplan_options *options,
                                     const struct mpl_calibration *calibration,
                                     struct mpl_readings_memo *memo,
                                     struct memplan_report **report_out, struct memplan_error *err);

#endif
