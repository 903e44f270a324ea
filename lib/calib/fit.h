/* SPDX-License-Identifier: MIT */
/*
 * Calibration: corrections of a prediction from readings, by least squares under priors. Pure
 * arithmetic; what the terms and the readings are is calib/terms.h's.
 *
 * ln of a reading's prediction is linear in the terms: ln(base) + sum of value[k] x slope[k]. A
 * term's prior is normal around 0, its deviation 1: slopes carry it. For readings with a number the
 * problem is linear, so that the covariance depends on where was read, not on what.
 */
#ifndef MPL_CALIB_FIT_H
#define MPL_CALIB_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define MPL_CALIB_MOST_TERMS    32
#define MPL_CALIB_MOST_READINGS 64

/** A reading farther than this many deviations from what the others and the prior allow contradicts
 * them: 1 in 15,000 of a right model, as in verdict/readings.c. */
#define MPL_CALIB_CONTRADICTION 4.0

enum mpl_calib_kind {
    MPL_CALIB_NUMBER = 0, /* read is what was read */
    MPL_CALIB_RAN,        /* read is what the card could give */
    MPL_CALIB_DIED,
};

struct mpl_calib_reading {
    enum mpl_calib_kind kind;
    double base, read;                  /* bytes: predicted without corrections, and read */
    double noise;                       /* of ln(read): what no correction explains */
    double slope[MPL_CALIB_MOST_TERMS]; /* of ln(prediction), by deviation of the term */
    bool is_left_out;                   /* it contradicts, or is not to be used */
};

struct mpl_calib_problem {
    uint32_t terms, readings;
    struct mpl_calib_reading reading[MPL_CALIB_MOST_READINGS];
};

struct mpl_calib_fit {
    double value[MPL_CALIB_MOST_TERMS]; /* in deviations of the prior */
    double covariance[MPL_CALIB_MOST_TERMS][MPL_CALIB_MOST_TERMS];
    double evidence; /* ln of the probability of the readings used, up to a constant */
};

/** The most probable terms and, linearized there, their covariance. Readings that are left out have
 * no part. */
void mpl_calib_solve(const struct mpl_calib_problem *problem, struct mpl_calib_fit *fit);

/** Leaves out, one after the other, the readings that contradict the prior or the other readings,
 * and solves. Of two that contradict each other the one farther from the prior goes. */
void mpl_calib_solve_robustly(struct mpl_calib_problem *problem, struct mpl_calib_fit *fit);

/** ln of what a fit predicts for a reading over base, and the deviation that its terms leave. */
double mpl_calib_shift(const struct mpl_calib_problem *problem, const struct mpl_calib_fit *fit,
                       const struct mpl_calib_reading *reading, double *deviation);

/** How far a reading lies from what a fit without it says, in deviations of both; of an outcome the
 * side that it forbids, else 0. */
double mpl_calib_distance(const struct mpl_calib_problem *problem, const struct mpl_calib_fit *fit,
                          const struct mpl_calib_reading *reading);

/** The fit of no readings: the prior. */
void mpl_calib_prior(uint32_t terms, struct mpl_calib_fit *fit);

#endif
