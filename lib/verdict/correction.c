/* SPDX-License-Identifier: MIT */
/* What a calibration says of one alternative: shift and deviation of a figure at any length. */
#include "verdict/correction.h"

#include <math.h>
#include <string.h>

#define MOST_SHIFT 5.0 /* of ln of a figure */

/* Bytes (or the factor) that one deviation of a term stands for, and their direction; -1: none. */
static int direction_of(const struct mpl_calibration_term *term,
                        const struct mpl_estimate *estimate, double all_tokens, double *size)
{
    switch (term->kind) {
    case MPL_TERM_PART:
        *size = term->prior * (double)estimate->composition.by_both[term->category][term->order];
        return term->order;
    case MPL_TERM_CONSTANT:
        *size = term->prior * term->bytes;
        return MPL_CONSTANT;
    case MPL_TERM_TOKENS:
        *size = term->prior * term->bytes * all_tokens / term->tokens;
        return MPL_LINEAR;
    case MPL_TERM_ALLOCATOR:
        *size = term->prior;
        return MPL_DIRECTION_ALLOCATOR;
    case MPL_TERM_OUTSIDE:
        *size = term->prior * term->bytes;
        return MPL_DIRECTION_OUTSIDE;
    default:
        return -1;
    }
}

void mpl_correction_sum(const struct mpl_calibration *calibration,
                        const struct mpl_calibration_alternative *alternative,
                        const struct mpl_estimate *estimate, double tokens, double all_tokens,
                        struct mpl_correction *c)
{
    int direction[MPL_CALIBRATION_MOST_TERMS];
    double size[MPL_CALIBRATION_MOST_TERMS];
    const uint32_t count = calibration->term_count;

    memset(c, 0, sizeof(*c));
    for (uint32_t k = 0; k < count; k++)
        direction[k] = direction_of(&calibration->terms[k], estimate, all_tokens, &size[k]);
    for (uint32_t k = 0; k < count; k++) {
        if (direction[k] < 0)
            continue;
        c->mean[direction[k]] += size[k] * alternative->value[k];
        for (uint32_t j = 0; j < count; j++)
            if (direction[j] >= 0)
                c->covariance[direction[k]][direction[j]] +=
                    size[k] * alternative->covariance[k][j] * size[j];
    }
    c->is_known = true;
    c->tokens = tokens;
    c->reserved_noise = calibration->reserved_noise;
}

void mpl_correction_gradient(const struct mpl_correction *c, const struct mpl_correction_point *p,
                             double gradient[MPL_DIRECTIONS])
{
    const double ratio = p->tokens / c->tokens, device = p->reserved + p->taken;
    const double grown[MPL_ORDER_COUNT] = {1, ratio, ratio * ratio};
    /* A share of the device's figure is the allocator's, and moves with it. */
    const double share = p->figure == MPL_FIGURE_DEVICE ? p->reserved / device : 1;

    memset(gradient, 0, MPL_DIRECTIONS * sizeof(*gradient));
    for (int order = 0; order < MPL_ORDER_COUNT; order++)
        gradient[order] = share * grown[order] / p->allocated;
    if (p->figure == MPL_FIGURE_RESERVED || p->figure == MPL_FIGURE_DEVICE)
        gradient[MPL_DIRECTION_ALLOCATOR] = share;
    if (p->figure == MPL_FIGURE_DEVICE)
        gradient[MPL_DIRECTION_OUTSIDE] = 1 / device;
}

/* Doublings between a length and the nearest reading; 0 between readings, 1 without any. */
static double doublings(const struct mpl_correction *c, double tokens)
{
    if (!(c->low_tokens > 0))
        return 1;
    return fmax(fmax(log2(tokens / c->high_tokens), log2(c->low_tokens / tokens)), 0);
}

double mpl_correction_shift(const struct mpl_correction *c, const struct mpl_accuracy *accuracy,
                            double unread, const struct mpl_correction_point *p, double *deviation)
{
    const double far = doublings(c, p->tokens);
    double gradient[MPL_DIRECTIONS], mean = 0, variance = 0, noise = accuracy->floor, error;

    mpl_correction_gradient(c, p, gradient);
    for (int i = 0; i < MPL_DIRECTIONS; i++) {
        mean += gradient[i] * c->mean[i];
        for (int j = 0; j < MPL_DIRECTIONS; j++)
            variance += gradient[i] * c->covariance[i][j] * gradient[j];
    }
    if (p->figure == MPL_FIGURE_RESERVED || p->figure == MPL_FIGURE_DEVICE)
        noise = hypot(noise, c->reserved_noise);
    /* A file may say anything; what a card can be off by is far within. */
    mean = fmax(fmin(mean, MOST_SHIFT), -MOST_SHIFT);
    error = fmin(sqrt(fmax(variance, 0) + noise * noise), MOST_SHIFT);
    if (far > 0 || c->is_outside) {
        *deviation = hypot(fmax(error, unread), accuracy->growth * far);
        return fmax(mean, 0);
    }
    *deviation = fmin(error, unread);
    return mean;
}

double mpl_correction_surprise(const struct mpl_correction *c, double *deviation)
{
    /* Mean and deviation of a standard normal variable that is above 1. */
    static const double mean = 1.525135, spread = 0.446203;

    *deviation = c->is_known ? 0 : spread * c->surprise;
    return c->is_known ? 0 : mean * c->surprise;
}

static uint64_t scaled(uint64_t bytes, double factor)
{
    return (uint64_t)fmin(fmax((double)bytes * factor, 0), 0x1p62);
}

void mpl_correction_judge(const struct mpl_correction *c, const struct mpl_accuracy *accuracy,
                          double tokens, double allocated, struct mpl_capacity *capacity,
                          double *error)
{
    const struct mpl_correction_point p = {MPL_FIGURE_NEEDS, tokens, allocated, allocated, 0};
    double factor, surprise;

    if (c->is_known && allocated > 0)
        factor = exp(-mpl_correction_shift(c, accuracy, accuracy->unread, &p, error));
    else if (c->surprise > 0) {
        factor = exp(-mpl_correction_surprise(c, &surprise));
        *error = hypot(*error, surprise);
    } else
        return;
    capacity->usable_bytes = scaled(capacity->usable_bytes, factor);
    capacity->usable_low_bytes = scaled(capacity->usable_low_bytes, factor);
    capacity->usable_high_bytes = scaled(capacity->usable_high_bytes, factor);
    capacity->spread_bytes *= factor;
}
