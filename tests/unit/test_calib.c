/* SPDX-License-Identifier: MIT */
/* Calibration's arithmetic: what must hold for any readings, and cases worked by hand. */
#include "calib/fit.h"

#include <math.h>
#include <string.h>

#include "test.h"

#define ROUNDS 200

static struct mpl_calib_problem problem;
static struct mpl_calib_fit fit;

static uint32_t state;

/* 0 to 1; the same in each run. */
static double draw(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (double)(1u << 24);
}

static struct mpl_calib_reading *add(enum mpl_calib_kind kind, double base, double read)
{
    struct mpl_calib_reading *r = &problem.reading[problem.readings++];

    *r = (struct mpl_calib_reading){.kind = kind, .base = base, .read = read, .noise = 0.01};
    return r;
}

/* Slopes of a constant part, a linear one and a quadratic one at a length. */
static void grow(struct mpl_calib_reading *r, double tokens)
{
    const double part[] = {4e9, 1e6 * tokens, 20 * tokens * tokens};
    const double sum = part[0] + part[1] + part[2];

    for (int k = 0; k < 3; k++)
        r->slope[k] = 0.03 * part[k] / sum;
    r->base = sum;
}

static void start(uint32_t terms)
{
    memset(&problem, 0, sizeof(problem));
    problem.terms = terms;
}

/* Random readings that a right model may give. */
static void make(int round, uint32_t count)
{
    state = (uint32_t)round * 7919u + 1;
    start(3);
    for (uint32_t i = 0; i < count; i++) {
        struct mpl_calib_reading *r = add(MPL_CALIB_NUMBER, 1, 1);

        grow(r, 1024 + 30000 * draw());
        r->read = r->base * exp(0.04 * (draw() - 0.5));
        if (draw() < 0.3) {
            r->kind = draw() < 0.5 ? MPL_CALIB_RAN : MPL_CALIB_DIED;
            r->read = r->base * (r->kind == MPL_CALIB_RAN ? 1 + draw() / 10 : 1 - draw() / 10);
        }
    }
}

static double deviation_at(const struct mpl_calib_reading *r)
{
    double deviation;

    mpl_calib_shift(&problem, &fit, r, &deviation);
    return deviation;
}

/* One term, deviation s of the prior, one reading with noise n: the shift is s^2 / (s^2 + n^2) of
 * the residual, what is left s n / sqrt(s^2 + n^2). */
START_TEST(one_reading_by_hand)
{
    double deviation;

    start(1);
    struct mpl_calib_reading *r = add(MPL_CALIB_NUMBER, 1e10, 1.02e10);

    r->slope[0] = 0.03;
    mpl_calib_solve(&problem, &fit);
    ck_assert(fabs(mpl_calib_shift(&problem, &fit, r, &deviation) - log(1.02) * 0.9) < 1e-9);
    ck_assert(fabs(deviation - 0.03 * 0.01 / sqrt(0.001)) < 1e-9);
}
END_TEST

START_TEST(reading_equal_to_the_prediction_changes_nothing)
{
    make(_i, 5);
    for (uint32_t i = 0; i < problem.readings; i++) {
        problem.reading[i].kind = MPL_CALIB_NUMBER;
        problem.reading[i].read = problem.reading[i].base;
    }
    mpl_calib_solve(&problem, &fit);
    for (uint32_t k = 0; k < problem.terms; k++)
        ck_assert(fabs(fit.value[k]) < 1e-12);
}
END_TEST

START_TEST(more_readings_never_widen)
{
    double before[8];

    make(_i, 8);
    for (uint32_t left_out = 1; left_out < 8; left_out++)
        problem.reading[left_out].is_left_out = true;
    for (uint32_t i = 0; i < 8; i++)
        before[i] = HUGE_VAL;
    for (uint32_t more = 0; more < 8; more++) {
        problem.reading[more].is_left_out = false;
        /* What an outcome tells depends on where it is asked; numbers do not. */
        if (problem.reading[more].kind != MPL_CALIB_NUMBER)
            problem.reading[more].is_left_out = true;
        mpl_calib_solve(&problem, &fit);
        for (uint32_t i = 0; i < 8; i++) {
            const double now = deviation_at(&problem.reading[i]);

            ck_assert(now <= before[i] * (1 + 1e-9));
            before[i] = now;
        }
    }
}
END_TEST

START_TEST(outcomes_never_widen_beyond_the_prior)
{
    struct mpl_calib_fit prior;
    double deviation;

    make(_i, 6);
    mpl_calib_prior(3, &prior);
    mpl_calib_solve(&problem, &fit);
    for (uint32_t i = 0; i < problem.readings; i++) {
        mpl_calib_shift(&problem, &prior, &problem.reading[i], &deviation);
        ck_assert(deviation_at(&problem.reading[i]) <= deviation * (1 + 1e-9));
    }
}
END_TEST

START_TEST(order_does_not_matter)
{
    struct mpl_calib_fit turned;

    make(_i, 7);
    mpl_calib_solve_robustly(&problem, &fit);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mpl_calib_reading kept = problem.reading[i];

        problem.reading[i] = problem.reading[6 - i];
        problem.reading[6 - i] = kept;
    }
    for (uint32_t i = 0; i < 7; i++)
        problem.reading[i].is_left_out = false;
    mpl_calib_solve_robustly(&problem, &turned);
    for (uint32_t k = 0; k < 3; k++) {
        ck_assert(fabs(fit.value[k] - turned.value[k]) < 1e-6);
        ck_assert(fabs(fit.covariance[k][k] - turned.covariance[k][k]) < 1e-6);
    }
}
END_TEST

/* A reading in the wrong unit among good ones: it alone is left out, wherever it stands. */
START_TEST(wrong_unit_is_left_out)
{
    static const double factors[] = {1.073741824, 1 / 1.073741824, 1.024, 1024, 1e-3, 1e9};
    const double factor = factors[_i % 6];

    start(3);
    for (uint32_t i = 0; i < 6; i++) {
        struct mpl_calib_reading *r = add(MPL_CALIB_NUMBER, 1, 1);

        grow(r, 4096 * (i + 1));
        r->noise = 0.002;
        r->read = r->base * (1 + 0.001 * (i % 2));
    }
    problem.reading[_i / 6].read *= factor;
    mpl_calib_solve_robustly(&problem, &fit);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_int_eq(problem.reading[i].is_left_out, (int)i == _i / 6);
}
END_TEST

/* A run that survived where it should not says that less is needed, and the other way around; one
 * that did what was expected says next to nothing. */
START_TEST(outcomes_are_one_sided)
{
    double deviation;
    struct mpl_calib_reading *r;

    start(1);
    r = add(MPL_CALIB_RAN, 1e10, 0.97e10);
    r->slope[0] = 0.03;
    mpl_calib_solve(&problem, &fit);
    ck_assert(mpl_calib_shift(&problem, &fit, r, &deviation) < -0.01);
    r->kind = MPL_CALIB_DIED;
    mpl_calib_solve(&problem, &fit);
    ck_assert(fabs(mpl_calib_shift(&problem, &fit, r, &deviation)) < 0.005);
    r->read = 1.03e10;
    mpl_calib_solve(&problem, &fit);
    ck_assert(mpl_calib_shift(&problem, &fit, r, &deviation) > 0.01);
    r->read = 1e13;
    mpl_calib_solve_robustly(&problem, &fit);
    ck_assert(r->is_left_out && fit.value[0] == 0);
    r->is_left_out = false;
    r->read = 1; /* and far out the other way it says nothing at all */
    mpl_calib_solve_robustly(&problem, &fit);
    ck_assert(!r->is_left_out && fabs(fit.value[0]) < 1e-6);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("calib");

    tcase_add_test(tcase, one_reading_by_hand);
    tcase_add_loop_test(tcase, reading_equal_to_the_prediction_changes_nothing, 0, ROUNDS);
    tcase_add_loop_test(tcase, more_readings_never_widen, 0, ROUNDS);
    tcase_add_loop_test(tcase, outcomes_never_widen_beyond_the_prior, 0, ROUNDS);
    tcase_add_loop_test(tcase, order_does_not_matter, 0, ROUNDS);
    tcase_add_loop_test(tcase, wrong_unit_is_left_out, 0, 36);
    tcase_add_test(tcase, outcomes_are_one_sided);
    return test_run("calib", tcase);
}
