/* SPDX-License-Identifier: MIT */
/* Calibration: least squares under priors, with MINPACK's Levenberg-Marquardt. */
#include "calib/fit.h"

#include <cminpack.h>
#include <math.h>
#include <string.h>

#define TERMS     MPL_CALIB_MOST_TERMS
#define RESIDUALS (MPL_CALIB_MOST_READINGS + MPL_CALIB_MOST_TERMS)

#define TOLERANCE   1e-12 /* of the sum of squares and of the terms */
#define EVALUATIONS 400

/* ln of the prediction over what was read. */
static double log_ratio(const struct mpl_calib_reading *r, uint32_t terms, const double *value)
{
    double sum = log(r->base / r->read);

    for (uint32_t k = 0; k < terms; k++)
        sum += r->slope[k] * value[k];
    return sum;
}

/* -ln of the normal distribution function, and its derivative, far out by their asymptote. */
static double unlikelihood(double z, double *derivative)
{
    const double below = 0.5 * erfc(-z / sqrt(2.0));

    if (z < -30) {
        *derivative = z - 1 / z;
        return z * z / 2 + log(-z) + 0.5 * log(2 * 3.14159265358979324);
    }
    *derivative = -exp(-z * z / 2) / sqrt(2 * 3.14159265358979324) / below;
    return -log(below);
}

/* The residual of one reading, and how it changes with ln of the prediction. */
static double residual(const struct mpl_calib_reading *r, double ratio, double *by_log)
{
    const double z = (r->kind == MPL_CALIB_DIED ? ratio : -ratio) / r->noise;
    double slope, value;

    *by_log = 1 / r->noise;
    if (r->kind == MPL_CALIB_NUMBER)
        return ratio / r->noise;
    value = sqrt(2 * unlikelihood(z, &slope));
    *by_log *= value > 1e-12 ? slope / value * (r->kind == MPL_CALIB_DIED ? 1 : -1) : 0;
    return value;
}

/* MINPACK's callback. Residuals: the readings, then the terms themselves, which are the priors. */
static int evaluate(void *context, int m, int n, const double *x, double *f, double *jacobian,
                    int rows, int what)
{
    const struct mpl_calib_problem *p = context;
    int row = 0;

    for (uint32_t i = 0; i < p->readings; i++) {
        const struct mpl_calib_reading *r = &p->reading[i];
        double by_log, value;

        if (r->is_left_out)
            continue;
        value = residual(r, log_ratio(r, p->terms, x), &by_log);
        if (what == 1)
            f[row] = value;
        else
            for (int k = 0; k < n; k++)
                jacobian[row + k * rows] = by_log * r->slope[k];
        row++;
    }
    for (int k = 0; row < m; k++, row++) {
        if (what == 1)
            f[row] = x[k];
        else
            for (int j = 0; j < n; j++)
                jacobian[row + j * rows] = j == k;
    }
    return 0;
}

static uint32_t used(const struct mpl_calib_problem *p)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < p->readings; i++)
        count += !p->reading[i].is_left_out;
    return count;
}

/* ln of the readings' noise: without it a way to read them that allows anything would win. */
static double log_noise(const struct mpl_calib_problem *p)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->readings; i++)
        if (!p->reading[i].is_left_out && p->reading[i].kind == MPL_CALIB_NUMBER)
            sum += log(p->reading[i].noise);
    return sum;
}

void mpl_calib_prior(uint32_t terms, struct mpl_calib_fit *fit)
{
    memset(fit, 0, sizeof(*fit));
    for (uint32_t k = 0; k < terms; k++)
        fit->covariance[k][k] = 1;
}

void mpl_calib_solve(const struct mpl_calib_problem *p, struct mpl_calib_fit *fit)
{
    const int n = (int)p->terms, m = (int)(used(p) + p->terms);
    double f[RESIDUALS], jacobian[RESIDUALS * TERMS], scale[TERMS], work[4][TERMS], last[RESIDUALS];
    int pivots[TERMS], evaluations, derivatives;
    double squares = 0, log_determinant = 0;

    mpl_calib_prior(p->terms, fit);
    if (n == 0 || m == n)
        return;
    for (int k = 0; k < n; k++)
        scale[k] = 1;
    lmder(evaluate, (void *)p, m, n, fit->value, f, jacobian, m, TOLERANCE, TOLERANCE, 0,
          EVALUATIONS, scale, 2, 100, 0, &evaluations, &derivatives, pivots, work[0], work[1],
          work[2], work[3], last);
    for (int i = 0; i < m; i++)
        squares += f[i] * f[i];
    for (int k = 0; k < n; k++)
        log_determinant += 2 * log(fabs(jacobian[k + k * m]));
    /* The priors make it full rank; the inverse of J'J stands in the upper left corner. */
    covar(n, jacobian, m, pivots, 0, work[0]);
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++)
            fit->covariance[k][j] = jacobian[k + j * m];
    fit->evidence = -squares / 2 - log_noise(p) - log_determinant / 2;
}

double mpl_calib_shift(const struct mpl_calib_problem *p, const struct mpl_calib_fit *fit,
                       const struct mpl_calib_reading *r, double *deviation)
{
    double variance = 0, shift = 0;

    for (uint32_t k = 0; k < p->terms; k++) {
        shift += r->slope[k] * fit->value[k];
        for (uint32_t j = 0; j < p->terms; j++)
            variance += r->slope[k] * fit->covariance[k][j] * r->slope[j];
    }
    *deviation = sqrt(fmax(variance, 0));
    return shift;
}

double mpl_calib_distance(const struct mpl_calib_problem *p, const struct mpl_calib_fit *fit,
                          const struct mpl_calib_reading *r)
{
    double deviation;
    const double shift = mpl_calib_shift(p, fit, r, &deviation);
    const double z = (log(r->base / r->read) + shift) / hypot(deviation, r->noise);

    if (r->kind == MPL_CALIB_NUMBER)
        return fabs(z);
    return fmax(r->kind == MPL_CALIB_DIED ? -z : z, 0);
}

/* The reading that lies farthest from what the others say, and its distance from the prior, where
 * that is beyond what is allowed; -1: none. */
static int worst_reading(struct mpl_calib_problem *p, const struct mpl_calib_fit *prior)
{
    double worst = 0;
    int at = -1;

    for (uint32_t i = 0; i < p->readings; i++) {
        struct mpl_calib_reading *r = &p->reading[i];
        struct mpl_calib_fit others;
        double distance, alone;

        if (r->is_left_out)
            continue;
        r->is_left_out = true;
        mpl_calib_solve(p, &others);
        r->is_left_out = false;
        distance = mpl_calib_distance(p, &others, r);
        alone = mpl_calib_distance(p, prior, r);
        if (distance > MPL_CALIB_CONTRADICTION && alone > worst) {
            worst = alone;
            at = (int)i;
        }
    }
    return at;
}

void mpl_calib_solve_robustly(struct mpl_calib_problem *p, struct mpl_calib_fit *fit)
{
    struct mpl_calib_fit prior;
    int worst;

    mpl_calib_prior(p->terms, &prior);
    for (uint32_t i = 0; i < p->readings; i++)
        if (!p->reading[i].is_left_out &&
            mpl_calib_distance(p, &prior, &p->reading[i]) > MPL_CALIB_CONTRADICTION)
            p->reading[i].is_left_out = true;
    while ((worst = worst_reading(p, &prior)) >= 0)
        p->reading[worst].is_left_out = true;
    mpl_calib_solve(p, fit);
}
