/* SPDX-License-Identifier: MIT */
/* Readings weigh alternatives: likelihoods by hand, on predictions that the test makes up. */
#include "verdict/readings.h"

#include <math.h>
#include <string.h>

#include "test.h"

#define FLOOR 0.006 /* error of an unsharded run (verdict/accuracy.c) */
#define MOST  4

static struct memplan_report report;
static struct mpl_alternative alternatives[MOST];
static struct mpl_prediction predictions[MOST][MOST];

#define BIT(x) (UINT32_C(1) << (x))

/* A report of `count` alternatives, each with all the predictions that a test may fill in. */
static void start(size_t count)
{
    memset(&report, 0, sizeof(report));
    memset(alternatives, 0, sizeof(alternatives));
    memset(predictions, 0, sizeof(predictions));
    strcpy(report.plan.model.model_type, "llama");
    report.alternatives = alternatives;
    report.alternative_count = count;
    for (size_t a = 0; a < MOST; a++) {
        alternatives[a].predictions = predictions[a];
        for (size_t i = 0; i < MOST; i++)
            predictions[a][i].survival = -1;
    }
}

static void read_number(double value, uint32_t units, uint32_t metrics, double resolution)
{
    report.plan.observations[report.plan.observation_count++] =
        (struct mpl_observation){.sequence_length = 4096,
                                 .value = value,
                                 .resolution = resolution,
                                 .units = units,
                                 .metrics = metrics};
}

static void read_outcome(enum mpl_outcome outcome)
{
    report.plan.observations[report.plan.observation_count++] =
        (struct mpl_observation){.sequence_length = 4096, .outcome = outcome};
}

/* An exact reading of 10 GB allocated: only memplan's own error counts. */
static void read_ten(void)
{
    read_number(10, BIT(MPL_UNIT_GB), BIT(MPL_METRIC_ALLOCATED), 0);
}

/* 10 GB, z tolerances above. */
static uint64_t above_ten(double z)
{
    return (uint64_t)(10e9 * exp(z * FLOOR));
}

static void weigh(void)
{
    double sum = 0;

    ck_assert_int_eq(mpl_readings_weigh(&report, NULL), MEMPLAN_OK);
    for (size_t a = 0; a < report.alternative_count; a++) {
        ck_assert(alternatives[a].is_excluded == (alternatives[a].weight == 0));
        ck_assert((alternatives[a].excluded_by[0] != '\0') == alternatives[a].is_excluded);
        sum += alternatives[a].weight;
    }
    ck_assert(fabs(sum - 1) < 1e-12);
    mpl_arena_free(&report.arena);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

START_TEST(weight_is_the_likelihood)
{
    start(3);
    read_ten();
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = above_ten(1);
    predictions[2][0].allocated_bytes = above_ten(-2);
    weigh();
    const double total = 1 + exp(-0.5) + exp(-2);

    ck_assert(near(alternatives[0].weight, 1 / total));
    ck_assert(near(alternatives[1].weight, exp(-0.5) / total));
    ck_assert(near(alternatives[2].weight, exp(-2) / total));
    ck_assert(!report.readings_contradict);
}
END_TEST

START_TEST(likelihoods_of_readings_multiply)
{
    start(2);
    read_ten();
    read_ten();
    predictions[0][0].allocated_bytes = predictions[0][1].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = predictions[1][1].allocated_bytes = above_ten(1);
    weigh();
    ck_assert(near(alternatives[1].weight / alternatives[0].weight, exp(-1)));
}
END_TEST

/* exp(-z z / 2) is 1:100 at z = 3.035. */
START_TEST(excluded_at_one_to_a_hundred)
{
    start(3);
    read_ten();
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = above_ten(3.02);
    predictions[2][0].allocated_bytes = above_ten(-3.05);
    weigh();
    ck_assert(!alternatives[1].is_excluded && alternatives[2].is_excluded);
    ck_assert_str_eq(alternatives[2].excluded_by,
                     "reading 1 (10 at 4096 tokens): 9.82 GB allocated predicted, 1.8 % below");
}
END_TEST

/* A number that was rounded to 1 GB says little: deviation 1 / sqrt(12) GB. */
START_TEST(rounding_widens)
{
    const double rounding = 0.1 / sqrt(12.0), tolerance = hypot(FLOOR, rounding);

    start(2);
    read_number(10, BIT(MPL_UNIT_GB), BIT(MPL_METRIC_ALLOCATED), 1);
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = above_ten(4);
    weigh();
    ck_assert(near(alternatives[1].weight / alternatives[0].weight,
                   exp(-pow(4 * FLOOR / tolerance, 2) / 2)));
    start(2);
    read_ten();
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = above_ten(4);
    weigh();
    ck_assert(alternatives[1].is_excluded);
}
END_TEST

static const struct mpl_hypothesis *hypothesis(enum mpl_metric metric, enum mpl_unit unit)
{
    for (uint32_t i = 0; i < report.hypothesis_count; i++)
        if (report.hypotheses[i].metric == metric && report.hypotheses[i].unit == unit)
            return &report.hypotheses[i];
    return NULL;
}

/* "10" of an unknown unit and quantity: 10 GiB on the card is what the prediction says. */
START_TEST(readings_find_their_unit_and_metric)
{
    const struct mpl_hypothesis *h;

    start(1);
    read_number(10, BIT(MPL_UNIT_GB) | BIT(MPL_UNIT_GIB),
                BIT(MPL_METRIC_ALLOCATED) | BIT(MPL_METRIC_RESERVED) | BIT(MPL_METRIC_DEVICE), 0);
    predictions[0][0].allocated_bytes = UINT64_C(8000000000);
    predictions[0][0].reserved_bytes = UINT64_C(9000000000);
    predictions[0][0].device_bytes = UINT64_C(10737418240);
    weigh();
    ck_assert_uint_eq(report.hypothesis_count, 6);
    h = hypothesis(MPL_METRIC_DEVICE, MPL_UNIT_GIB);
    ck_assert(h && near(h->weight, 1) && !h->is_excluded && near(h->nearest, 0));
    h = hypothesis(MPL_METRIC_DEVICE, MPL_UNIT_GB);
    ck_assert(h && h->is_excluded && near(h->nearest, 0.073741824));
    h = hypothesis(MPL_METRIC_ALLOCATED, MPL_UNIT_GB);
    ck_assert(h && h->is_excluded && near(h->nearest, -0.2));
}
END_TEST

/* All numbers are the same quantity in the same unit: two that are each explained by another
 * hypothesis do not explain each other. */
START_TEST(readings_share_a_hypothesis)
{
    start(1);
    read_number(10, BIT(MPL_UNIT_GB) | BIT(MPL_UNIT_GIB), BIT(MPL_METRIC_ALLOCATED), 0);
    read_number(20, BIT(MPL_UNIT_GB), BIT(MPL_METRIC_ALLOCATED) | BIT(MPL_METRIC_DEVICE), 0);
    predictions[0][0].allocated_bytes = UINT64_C(10000000000);
    predictions[0][1].allocated_bytes = UINT64_C(20000000000);
    predictions[0][1].device_bytes = UINT64_C(21000000000);
    weigh();
    ck_assert_uint_eq(report.hypothesis_count, 1);
    ck_assert_ptr_nonnull(hypothesis(MPL_METRIC_ALLOCATED, MPL_UNIT_GB));
}
END_TEST

/* A hypothesis is weighed over the alternatives: each may stay with another one. */
START_TEST(alternatives_and_hypotheses_are_one_table)
{
    const struct mpl_hypothesis *gb, *gib;

    start(3);
    read_number(10, BIT(MPL_UNIT_GB) | BIT(MPL_UNIT_GIB), BIT(MPL_METRIC_ALLOCATED), 0);
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[1][0].allocated_bytes = UINT64_C(10737418240);
    predictions[2][0].allocated_bytes = UINT64_C(12000000000);
    weigh();
    gb = hypothesis(MPL_METRIC_ALLOCATED, MPL_UNIT_GB);
    gib = hypothesis(MPL_METRIC_ALLOCATED, MPL_UNIT_GIB);
    ck_assert(gb && gib && near(gb->weight, 0.5) && near(gib->weight, 0.5));
    ck_assert(near(alternatives[0].weight, 0.5) && near(alternatives[1].weight, 0.5));
    ck_assert(alternatives[2].is_excluded);
}
END_TEST

START_TEST(readings_that_share_nothing_speak_for_themselves)
{
    start(2);
    read_ten();
    read_number(11e9, BIT(MPL_UNIT_BYTES), BIT(MPL_METRIC_RESERVED), 0);
    predictions[0][0].allocated_bytes = above_ten(0);
    predictions[0][1].reserved_bytes = UINT64_C(11000000000);
    predictions[1][0].allocated_bytes = above_ten(1);
    predictions[1][1].reserved_bytes = UINT64_C(11000000000);
    weigh();
    ck_assert_uint_eq(report.hypothesis_count, 0);
    ck_assert(near(alternatives[1].weight / alternatives[0].weight, exp(-0.5)));
}
END_TEST

START_TEST(outcomes_weigh_by_their_chance)
{
    start(3);
    read_outcome(MPL_OUTCOME_RAN);
    read_outcome(MPL_OUTCOME_OOM);
    predictions[0][0].survival = 0.9;
    predictions[0][1].survival = 0.2;
    predictions[1][0].survival = 0.6;
    predictions[1][1].survival = 0.4;
    predictions[2][0].survival = 0.9;
    predictions[2][1].survival = 0.9999;
    weigh();
    ck_assert(near(alternatives[1].weight / alternatives[0].weight, 0.6 * 0.6 / (0.9 * 0.8)));
    ck_assert(alternatives[2].is_excluded);
    ck_assert_str_eq(alternatives[2].excluded_by, "reading 2 (out of memory at 4096 tokens): it "
                                                  "would have survived with a chance of 1");
}
END_TEST

/* No outcome is quite impossible: at 1 in 10,000 it ends. */
START_TEST(outcomes_have_a_least_chance)
{
    start(2);
    read_outcome(MPL_OUTCOME_RAN);
    predictions[0][0].survival = 0;
    predictions[1][0].survival = 0.002;
    weigh();
    ck_assert(near(alternatives[0].weight / alternatives[1].weight, 0.05));
}
END_TEST

START_TEST(outcomes_without_a_card_say_nothing)
{
    start(2);
    read_outcome(MPL_OUTCOME_OOM);
    weigh();
    ck_assert(near(alternatives[0].weight, 0.5) && near(alternatives[1].weight, 0.5));
}
END_TEST

static const struct {
    double first, second; /* deviations of two readings under the only alternative */
    bool contradicts;
} contradiction_table[] = {
    {0, 0, false}, {3.9, 3.9, false}, {4.1, 4.1, true}, {0, 5.6, false}, {0, 5.7, true},
};

START_TEST(contradiction_is_told)
{
    start(1);
    read_ten();
    read_ten();
    predictions[0][0].allocated_bytes = above_ten(contradiction_table[_i].first);
    predictions[0][1].allocated_bytes = above_ten(contradiction_table[_i].second);
    weigh();
    ck_assert(report.readings_contradict == contradiction_table[_i].contradicts);
    ck_assert(near(alternatives[0].weight, 1)); /* the only one stays */
}
END_TEST

START_TEST(units_and_metrics)
{
    const struct mpl_prediction p = {1, 2, 3, 0};

    ck_assert(mpl_reading_bytes(28.5, MPL_UNIT_GB) == 28.5e9);
    ck_assert(mpl_reading_bytes(1.5, MPL_UNIT_GIB) == 1610612736.0);
    ck_assert(mpl_reading_bytes(7, MPL_UNIT_BYTES) == 7);
    ck_assert_uint_eq(mpl_prediction_bytes(&p, MPL_METRIC_ALLOCATED), 1);
    ck_assert_uint_eq(mpl_prediction_bytes(&p, MPL_METRIC_RESERVED), 2);
    ck_assert_uint_eq(mpl_prediction_bytes(&p, MPL_METRIC_DEVICE), 3);
    ck_assert_str_eq(mpl_metric_name(MPL_METRIC_DEVICE), "device");
    ck_assert_str_eq(mpl_unit_name(MPL_UNIT_GIB), "GiB");
}
END_TEST

/* The error of a figure: none read, read nearby, one and two doublings beyond. */
START_TEST(error_grows_beyond_the_readings)
{
    const struct mpl_accuracy a = {.floor = 0.03, .unread = 0.07, .growth = 0.04};

    ck_assert(mpl_accuracy_error(&a, 4096, 0) == 0.07);
    ck_assert(mpl_accuracy_error(&a, 4096, 8192) == 0.03);
    ck_assert(mpl_accuracy_error(&a, 8192, 8192) == 0.03);
    ck_assert(near(mpl_accuracy_error(&a, 16384, 8192), 0.05));
    ck_assert(near(mpl_accuracy_error(&a, 32768, 8192), hypot(0.03, 0.08)));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("readings");

    tcase_add_test(tcase, weight_is_the_likelihood);
    tcase_add_test(tcase, likelihoods_of_readings_multiply);
    tcase_add_test(tcase, excluded_at_one_to_a_hundred);
    tcase_add_test(tcase, rounding_widens);
    tcase_add_test(tcase, readings_find_their_unit_and_metric);
    tcase_add_test(tcase, readings_share_a_hypothesis);
    tcase_add_test(tcase, alternatives_and_hypotheses_are_one_table);
    tcase_add_test(tcase, readings_that_share_nothing_speak_for_themselves);
    tcase_add_test(tcase, outcomes_weigh_by_their_chance);
    tcase_add_test(tcase, outcomes_have_a_least_chance);
    tcase_add_test(tcase, outcomes_without_a_card_say_nothing);
    tcase_add_loop_test(tcase, contradiction_is_told, 0, ROWS(contradiction_table));
    tcase_add_test(tcase, units_and_metrics);
    tcase_add_test(tcase, error_grows_beyond_the_readings);
    return test_run("readings", tcase);
}
