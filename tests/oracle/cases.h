/* SPDX-License-Identifier: MIT */
/* Recorded runs as test cases: plans with their results, one a line, and the gaps that are known.
 */
#ifndef CASES_H
#define CASES_H

#include <jansson.h>
#include <stdbool.h>

#include "estimate/estimate.h"

struct case_file {
    char **lines;
    int count;
};

/** Reads a file of $MPL_TEST_DATA; the test run ends when it cannot be read. */
struct case_file case_file_read(const char *name);
void case_file_free(struct case_file *file);

/** One case that was run. */
struct case_run {
    json_t *document; /* the plan and its "result" */
    const char *id;
    const json_t *result;
    struct mpl_plan plan;
    struct mpl_estimator estimator;
    struct mpl_estimate estimate;
};

/** Binds and traces a line. is_card: with what kernels take, as on a card. False: err says why. */
bool case_run_try(struct case_run *run, const char *line, bool is_card, struct memplan_error *err);
/** The same in a test, which fails when the line cannot be run. */
void case_run_start(struct case_run *run, const char *line, bool is_card);
void case_run_end(struct case_run *run);

/** A figure of the result's step, or -1. */
json_int_t case_step_figure(const struct case_run *run, size_t step, const char *name);

/**
 * Asserts that a figure is near the recorded one: within max(64 KiB, share of it), or within what
 * data/gaps.tsv says of this file, case and figure. A gap that has closed is an error too: its line
 * must go.
 */
void case_expect(const char *file, const struct case_run *run, const char *figure, double share,
                 uint64_t mine, json_int_t recorded);

/** True when data/gaps.tsv has a line for this file, case and figure. */
bool case_has_gap(const char *file, const char *id, const char *figure);

#endif
