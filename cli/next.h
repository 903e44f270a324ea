/* SPDX-License-Identifier: MIT */
/* What to run next: between what ran and what failed, what the model says. */
#ifndef CLI_NEXT_H
#define CLI_NEXT_H

#include "ledger_entry.h"

/** What is known of one value of the field. */
struct next_point {
    int64_t value;   /* 0: no such point */
    bool refused;    /* a recorded failure stands against it; the model was not asked */
    int verdict;     /* enum memplan_verdict */
    double survival; /* -1: no card */
    double bits;     /* expected information of its outcome */
    uint64_t needs_low_bytes, needs_high_bytes;
};

struct next {
    const struct settings *settings;
    const char *source;
    struct memplan_plan *plan; /* its value of the field changes during the search */
    struct ledger_entries entries;
    const char *field;
    size_t demand; /* number of the field */
    int64_t step;
    const struct ledger_entry *ran, *failed; /* the largest that ran, the smallest that failed */
    struct next_point fits, fails;           /* neighbours: the boundary by the model */
    struct next_point proposal;
    json_t *at_failed;    /* the model's report of what failed; owned */
    bool contradicted;    /* it says that this would fit */
    uint64_t epoch_steps; /* optimizer steps of one epoch with the proposal; 0: not asked for */
    unsigned evaluations;
};

/** Finds both ends and the proposal. Returns 0, or an exit code after a message. */
int next_search(struct next *next);

/** Steps of one epoch with the proposed sequence length, from --lengths and --rule. Returns 0, or
 * an exit code after a message. (next_epoch.c) */
int next_epoch(struct next *next);

/** Prints the proposal. Returns its exit code. */
int next_print(const struct next *next);

#endif
