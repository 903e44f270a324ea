/* SPDX-License-Identifier: MIT */
/* From a plan's bytes and the command line to a report. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <jansson.h>
#include <memplan.h>

#include "input.h"
#include "options.h"

/** One estimate. Free with run_free. */
struct run {
    struct memplan_report *report; /* NULL: the ledger refused before a model was asked */
    json_t *json; /* the report as JSON, when it was asked for; of a refusal always */
};

/** What is needed of a run, besides its verdict. */
enum run_want {
    RUN_JSON = 1 << 0,
    RUN_SUGGESTIONS = 1 << 1,
    RUN_BRIEF = 1 << 2, /* where it fits nothing else is needed, which takes a part of the time */
};

/** The plan in *input as settings change it. *plan_out is new. On failure *err is filled. */
enum memplan_status run_load(const struct settings *settings, const struct input *input,
                             struct memplan_plan **plan_out, struct memplan_error *err);

/** Another card by name: forgets what the plan says of the old one's memory. */
enum memplan_status run_forget_card(struct memplan_plan *plan, struct memplan_error *err);

/** Estimates a plan that settings have changed already; the ledger may add readings to it. */
enum memplan_status run_plan(const struct settings *settings, struct memplan_plan *plan,
                             unsigned want, uint32_t stage, struct run *run,
                             struct memplan_error *err);

/** Estimates the plan in *input as settings change it; stage is a bit of enum memplan_stage, or 0.
 * On failure *err is filled, and *run is empty. */
enum memplan_status run_estimate(const struct settings *settings, const struct input *input,
                                 unsigned want, uint32_t stage, struct run *run,
                                 struct memplan_error *err);

/** The report as JSON text, or the ledger's refusal; free with memplan_free. */
enum memplan_status run_to_json(const struct run *run, char **text_out, struct memplan_error *err);

/** The verdict of an estimate that succeeded. */
int run_verdict(const struct run *run);

/** Reads the plan that settings name, of whatever it is made. Returns 0, or an exit code after a
 * message; *input is set on success only. */
int run_read(const struct settings *settings, struct input *input);

/** Reads what settings name and estimates it. Returns the verdict, or an exit code after a
 * message; title_out is the name of the input, new, and may be NULL. */
int run_model(const struct settings *settings, unsigned want, uint32_t stage, struct run *run,
              char **title_out);

void run_free(struct run *run);

#endif
