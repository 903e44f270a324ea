/* SPDX-License-Identifier: MIT */
/* The chance to survive, of a run that asks for one piece of memory and fails below its size. */
#include "verdict/survival.h"

#include <math.h>

#include "test.h"

#define NEEDED (20 * MPL_GIB) /* a whole number of the card's pages: reserved is the same */

/* Deviations between two nodes of the grid (verdict/survival.c), and where its ends lie. */
#define STEP 0.25
#define END  3.5

static struct mpl_estimator estimator;

/* One request at event 0. */
static struct mpl_estimate one_piece(void)
{
    struct mpl_timeline *t = &estimator.trace.timeline;
    struct mpl_estimate estimate = {.live_peak = NEEDED};

    ck_assert_int_eq(mpl_estimator_init(&estimator, NULL), MEMPLAN_OK);
    ck_assert(!mpl_vec_reserve(&t->events) && !mpl_vec_reserve(&t->requests));
    t->events.data[t->events.len++] = 0;
    t->requests.data[t->requests.len++] = (struct mpl_request){.bytes = NEEDED};
    return estimate;
}

static struct mpl_survival judge(struct mpl_estimate *estimate, uint64_t usable_bytes,
                                 double spread_bytes, double error, double risk)
{
    static const struct mpl_plan plan;
    const struct mpl_capacity capacity = {
        .state = MPL_CAPACITY_KNOWN, .usable_bytes = usable_bytes, .spread_bytes = spread_bytes};
    const struct mpl_survival_case judged = {&estimator, &plan, estimate, &capacity,
                                             error,      risk,  0,        0};
    struct mpl_survival survival;

    ck_assert_int_eq(mpl_survival_judge(&judged, &survival, NULL), MEMPLAN_OK);
    return survival;
}

static struct mpl_survival judge_at(struct mpl_estimate *estimate, uint64_t usable_bytes,
                                    double error, double risk, double enough)
{
    static const struct mpl_plan plan;
    const struct mpl_capacity capacity = {.state = MPL_CAPACITY_KNOWN,
                                          .usable_bytes = usable_bytes};
    const struct mpl_survival_case judged = {&estimator, &plan, estimate, &capacity,
                                             error,      risk,  enough,   0};
    struct mpl_survival survival;

    ck_assert_int_eq(mpl_survival_judge(&judged, &survival, NULL), MEMPLAN_OK);
    return survival;
}

static double normal(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

/* Room of the card, in deviations above what is needed. */
static const double place_table[] = {-5,  -3.6, -3.1, -2,  -1,  -0.6, -0.1, 0,
                                     0.1, 0.5,  1,    1.7, 2.4, 3,    3.7,  5};

START_TEST(chance_is_the_normal_one)
{
    const double error = 0.02, z = place_table[_i];
    const double usable = (double)NEEDED / (1 - z * error); /* usable - NEEDED = z error usable */
    struct mpl_estimate estimate = one_piece();
    const struct mpl_survival s = judge(&estimate, (uint64_t)usable + 1, 0, error, 1);

    if (fabs(z) > END) { /* beyond the grid */
        ck_assert(fabs(s.probability - (z > 0)) < 1e-6);
    } else {
        ck_assert_msg(s.probability >= normal(z - STEP / 2) - 1e-6 &&
                          s.probability <= normal(z + STEP / 2) + 1e-6,
                      "%g at %g deviations", s.probability, z);
        /* Whatever budget was tried: the run goes the same from what is needed. */
        ck_assert_uint_eq(s.enough_bytes, NEEDED);
    }
    mpl_estimator_free(&estimator);
}
END_TEST

/* The table's spread and memplan's own error add in squares. */
START_TEST(spreads_add_in_squares)
{
    const double usable = (double)NEEDED * 1.05;
    struct mpl_estimate estimate = one_piece();
    const double both = judge(&estimate, (uint64_t)usable, 0.03 * usable, 0.04, 1).probability;
    const double one = judge(&estimate, (uint64_t)usable, 0, 0.05, 1).probability;

    ck_assert(fabs(both - one) < 1e-6 && one > 0.5 && one < 0.99);
    mpl_estimator_free(&estimator);
}
END_TEST

START_TEST(without_spread_it_is_yes_or_no)
{
    struct mpl_estimate estimate = one_piece();

    ck_assert(judge(&estimate, NEEDED, 0, 0, 1).probability > 1 - 1e-9);
    ck_assert(judge(&estimate, NEEDED - 1, 0, 0, 1).probability < 1e-9);
    ck_assert(judge(&estimate, 0, 0, 0.01, 1).probability < 1e-9);
    mpl_estimator_free(&estimator);
}
END_TEST

/* More than six deviations away nothing is replayed: there is no allocator to replay with. */
START_TEST(far_away_nothing_is_replayed)
{
    struct mpl_estimate estimate = {.live_peak = NEEDED,
                                    .unlimited = {.reserved_peak = NEEDED, .survived = true}};
    struct mpl_survival s;

    estimator = (struct mpl_estimator){0};
    s = judge(&estimate, NEEDED - NEEDED / 10, 0, 0.01, 1);
    ck_assert(s.probability < 1e-9 && s.enough_bytes == 0);
    s = judge(&estimate, NEEDED + NEEDED / 10, 0, 0.01, 1);
    ck_assert(s.probability == 1);
    ck_assert_uint_eq(s.enough_bytes, NEEDED);
}
END_TEST

/* Once more than the risk has failed the answer is no, whatever the rest would give; a chance to
 * fail below the risk is the one that the whole grid gives. */
START_TEST(risk_ends_the_search)
{
    static const double risks[] = {0.001, 0.01, 0.1, 0.4};
    struct mpl_estimate estimate = one_piece();

    for (int i = 0; i < ROWS(place_table); i++)
        for (int r = 0; r < ROWS(risks); r++) {
            const uint64_t usable = (uint64_t)((double)NEEDED / (1 - place_table[i] * 0.02)) + 1;
            const double whole = judge(&estimate, usable, 0, 0.02, 1).probability;
            const double cut = judge(&estimate, usable, 0, 0.02, risks[r]).probability;

            ck_assert_msg((whole < 1 - risks[r]) == (cut < 1 - risks[r]), "%g and %g", whole, cut);
            ck_assert(cut >= whole - 1e-12);
            if (whole > 1 - risks[r])
                ck_assert(fabs(cut - whole) < 1e-12);
        }
    mpl_estimator_free(&estimator);
}
END_TEST

/* Where the search ends early the chance lies between both figures, and the answer is the same. */
START_TEST(early_answers_are_those_of_the_whole)
{
    static const double risks[] = {0.001, 0.01, 0.1, 0.4};
    struct mpl_estimate estimate = one_piece();

    for (int i = 0; i < ROWS(place_table); i++)
        for (int r = 0; r < ROWS(risks); r++) {
            const uint64_t usable = (uint64_t)((double)NEEDED / (1 - place_table[i] * 0.02)) + 1;
            const double whole = judge(&estimate, usable, 0, 0.02, 1).probability;
            const struct mpl_survival s = judge_at(&estimate, usable, 0.02, risks[r], risks[r]);

            ck_assert_msg(s.at_least <= whole + 1e-12 && whole <= s.probability + 1e-12,
                          "%g: %g to %g", whole, s.at_least, s.probability);
            ck_assert((whole > 1 - risks[r]) == (s.at_least > 1 - risks[r]));
            ck_assert((whole < 1 - risks[r]) == (s.probability < 1 - risks[r]));
        }
    mpl_estimator_free(&estimator);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("survival");

    tcase_add_loop_test(tcase, chance_is_the_normal_one, 0, ROWS(place_table));
    tcase_add_test(tcase, spreads_add_in_squares);
    tcase_add_test(tcase, without_spread_it_is_yes_or_no);
    tcase_add_test(tcase, far_away_nothing_is_replayed);
    tcase_add_test(tcase, risk_ends_the_search);
    tcase_add_test(tcase, early_answers_are_those_of_the_whole);
    return test_run("survival", tcase);
}
