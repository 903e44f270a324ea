/* SPDX-License-Identifier: MIT */
/* The probability that a run survives on a card. */
#ifndef MPL_VERDICT_SURVIVAL_H
#define MPL_VERDICT_SURVIVAL_H

#include "estimate/estimate.h"
#include "verdict/capacity.h"

struct mpl_survival {
    double probability;    /* 0 to 1; at most this where the search ended early */
    double at_least;       /* the same, or below it where the search ended early */
    uint64_t enough_bytes; /* every budget tried from this on survives; 0: none did */
};

/** What a judgement is about: the estimator's last trace, and what is known of it. */
struct mpl_survival_case {
    struct mpl_estimator *estimator;
    const struct mpl_plan *plan;
    const struct mpl_estimate *estimate; /* the live peak; unlimited where it is known */
    const struct mpl_capacity *capacity;
    double error;  /* relative standard deviation of memplan's own error */
    double risk;   /* once the chance to fail is above it, the search ends with that; 1: never */
    double enough; /* and once the chance to fail is surely below this; 0: never */
    uint32_t most_replays; /* and after so many; 0: no such limit */
};

/**
 * Chance that the run survives, from replays at budgets spread over what the card may give and
 * over memplan's own error, both normal: a run that is off by x percent on a card of size B is the
 * run as traced on a card of B / (1 + x). Where the card is far from the peaks, or a budget below
 * the live peak is already likelier than the risk, nothing is replayed.
 */
enum memplan_status mpl_survival_judge(const struct mpl_survival_case *c,
                                       struct mpl_survival *survival, struct memplan_error *err);

/** The budget that settles a run which fails below some budget and survives from there on: the
 * chance that the card gives less is within the risk. Nothing is replayed. */
uint64_t mpl_survival_boundary_budget(const struct mpl_survival_case *c);

/** Chance of a run that fails below `bytes` and runs from there on; nothing is replayed. */
double mpl_survival_if_needs(const struct mpl_survival_case *c, double bytes);

#endif
