/* SPDX-License-Identifier: MIT */
/* What a calibration says of one alternative, summed up by order of growth: the shift of a figure
 * at any length, and how well it is known there. */
#ifndef MPL_VERDICT_CORRECTION_H
#define MPL_VERDICT_CORRECTION_H

#include "estimate/estimate.h"
#include "spec/calibration.h"
#include "verdict/accuracy.h"
#include "verdict/capacity.h"

/* Directions: bytes by order of growth, the factor of reserved, bytes outside of the allocator. */
enum { MPL_DIRECTION_ALLOCATOR = MPL_ORDER_COUNT, MPL_DIRECTION_OUTSIDE, MPL_DIRECTIONS };

struct mpl_correction {
    bool is_known;
    double tokens; /* at which the bytes by order are */
    double mean[MPL_DIRECTIONS];
    double covariance[MPL_DIRECTIONS][MPL_DIRECTIONS];
    double reserved_noise;
    double low_tokens, high_tokens; /* of the readings with a number; 0: none */
    bool is_outside;                /* in another field than the length */
    double surprise; /* ln of what a run that failed must have needed at least over what it was
                        predicted to; 0: none that should have survived */
};

/** One figure at one length. */
struct mpl_correction_point {
    enum mpl_figure figure;
    double tokens;
    double allocated, reserved, taken; /* bytes predicted there; taken: outside the allocator */
};

/** Sums a calibration's terms up for an estimate of `tokens` tokens, `all_tokens` in a micro-batch.
 */
void mpl_correction_sum(const struct mpl_calibration *calibration,
                        const struct mpl_calibration_alternative *alternative,
                        const struct mpl_estimate *estimate, double tokens, double all_tokens,
                        struct mpl_correction *correction);

/** How ln of a figure changes with each direction. */
void mpl_correction_gradient(const struct mpl_correction *correction,
                             const struct mpl_correction_point *point,
                             double gradient[MPL_DIRECTIONS]);

/**
 * Shift of ln of a figure, and its deviation with memplan's own error (accuracy->floor) in it.
 * Between the readings it is at most `unread`, the deviation without any; beyond them it is at
 * least that, grows with each doubling, and a shift that lowers the figure is not taken.
 */
double mpl_correction_shift(const struct mpl_correction *correction,
                            const struct mpl_accuracy *accuracy, double unread,
                            const struct mpl_correction_point *point, double *deviation);

/**
 * Shift of ln of needs, and its deviation, that a failure without a calibration stands for: needs
 * are off by more than the surprise, and nothing says by how much. Taken is a normal error as large
 * as the surprise itself, of which only what lies beyond is left. 0 without a surprise.
 */
double mpl_correction_surprise(const struct mpl_correction *correction, double *deviation);

/** What a run is judged with at a length: a card that is smaller by what the run needs more, and
 * the error. Without a calibration both stay as they are. */
void mpl_correction_judge(const struct mpl_correction *correction,
                          const struct mpl_accuracy *accuracy, double tokens, double allocated,
                          struct mpl_capacity *capacity, double *error);

#endif
