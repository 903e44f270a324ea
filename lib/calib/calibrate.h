/* SPDX-License-Identifier: MIT */
/*
 * Calibration of a plan by its readings: estimates at each reading's settings, corrections of the
 * parts of the peak under priors, readings that contradict, what stays open, and which further run
 * would tell most.
 */
#ifndef MPL_CALIB_CALIBRATE_H
#define MPL_CALIB_CALIBRATE_H

#include "calib/fit.h"
#include "pipeline.h"
#include "spec/calibration.h"

enum mpl_calib_use {
    MPL_CALIB_USED = 0,
    MPL_CALIB_CONTRADICTS, /* no correction inside its prior explains it */
    MPL_CALIB_REPEATED,    /* the same run as another one */
    MPL_CALIB_NO_CARD,     /* an outcome, and what the card can give is not known */
};

/** What one reading came to, under the most likely alternative. */
struct mpl_calib_result {
    enum mpl_calib_use use;
    enum mpl_metric metric;
    enum mpl_unit unit;
    double predicted_bytes, corrected_bytes; /* of an outcome: what is needed */
    double read_bytes;                       /* of an outcome: what the card can give */
    double distance;                         /* deviations from the prior alone */
    char why[256];                           /* of one that is not used */
};

#define MPL_CALIB_MOST_RUNS 12

/** A further run, and what it would tell. */
struct mpl_calib_run {
    int64_t tokens;
    double bits;      /* expected information, on corrections and alternatives */
    double deviation; /* of allocated at the plan's length afterwards */
    double survival;  /* that it runs at all; -1: no card */
};

struct mpl_calib_report {
    struct mpl_arena arena;
    struct mpl_plan plan;
    struct memplan_report *estimate; /* of the plan, without its readings */
    uint32_t term_count;
    struct mpl_calibration_term terms[MPL_CALIBRATION_MOST_TERMS];
    int group[MPL_CALIBRATION_MOST_TERMS]; /* terms of one group grow alike in all readings;
                                              -1: no reading depends on the term */
    struct mpl_calib_fit *fits;            /* of each alternative */
    double *weights;                       /* 0: excluded */
    enum mpl_metric *metrics;              /* most likely way to read the numbers */
    enum mpl_unit *units;
    size_t best;
    struct mpl_calib_result results[MPL_MAX_OBSERVATIONS];
    double low_tokens, high_tokens; /* of numbers that were used; 0: none */
    struct mpl_calibration *file;   /* its plan and its fields; owned */
    double reserved_noise, prior_deviation;
    struct mpl_calib_run runs[MPL_CALIB_MOST_RUNS]; /* most telling first */
    uint32_t run_count;
    double deviation_before; /* of allocated at the plan's length, with these readings */
};

/** *report_out is new: free with mpl_calib_free. */
enum memplan_status mpl_calibrate(const struct mpl_spec *spec, double risk,
                                  struct mpl_calib_report **report_out, struct memplan_error *err);
void mpl_calib_free(struct mpl_calib_report *report); /* NULL is accepted */

#endif
