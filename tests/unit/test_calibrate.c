/* SPDX-License-Identifier: MIT */
/* Calibrations of whole plans, through the public interface: what readings do to a report. */
#include <jansson.h>
#include <math.h>
#include <memplan.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tiny.h"

static struct memplan_plan *plan_at(const char *tokens)
{
    /* Releases open: that leaves room for a reading to move something. */
    static const char text[] =
        "{" TINY_MODEL("1000") ", " TINY_TRAINING("256") ", " TINY_CARD("1000000000000") "}";
    struct memplan_plan *plan = NULL;
    struct memplan_error err;
    char assignment[64];

    ck_assert_msg(!memplan_plan_load(text, strlen(text), "plan", &plan, &err), "%s", err.text);
    snprintf(assignment, sizeof(assignment), "training.sequence_length=%s", tokens);
    ck_assert(!memplan_plan_set(plan, assignment, &err));
    return plan;
}

static json_t *report_of(const struct memplan_plan *plan,
                         const struct memplan_calibration *calibration)
{
    const struct memplan_options options = {.size = sizeof(options),
                                            .ignore_readings = 1,
                                            .no_suggestions = 1,
                                            .calibration = calibration};
    struct memplan_report *report = NULL;
    struct memplan_error err;
    char *text = NULL;
    json_t *json;

    ck_assert_msg(!memplan_estimate(plan, &options, &report, &err), "%s", err.text);
    ck_assert(!memplan_report_to_json(report, &text, &err));
    json = json_loads(text, 0, NULL);
    memplan_free(text);
    memplan_report_free(report);
    return json;
}

static json_t *at(json_t *json, const char *a, const char *b, const char *c)
{
    json_t *found = json_object_get(json, a);

    found = b ? json_object_get(found, b) : found;
    found = c ? json_object_get(found, c) : found;
    ck_assert_msg(found != NULL, "%s %s %s", a, b ? b : "", c ? c : "");
    return found;
}

static double allocated_at(const char *tokens)
{
    struct memplan_plan *plan = plan_at(tokens);
    json_t *report = report_of(plan, NULL);
    const double bytes = json_number_value(at(report, "peak", "allocated_bytes", NULL));

    json_decref(report);
    memplan_plan_free(plan);
    return bytes;
}

/* A calibration of readings in JSON, at 256 tokens. */
static struct memplan_calibration *calibrate(const char *readings, json_t **json_out)
{
    struct memplan_plan *plan = plan_at("256");
    struct memplan_calibration *calibration = NULL;
    struct memplan_error err;
    char *text = NULL;

    ck_assert_msg(!memplan_plan_add_readings(plan, readings, strlen(readings), "readings", &err),
                  "%s", err.text);
    ck_assert_msg(!memplan_calibrate(plan, 0, &calibration, &err), "%s", err.text);
    ck_assert(!memplan_calibration_to_json(calibration, &text, &err));
    *json_out = json_loads(text, 0, NULL);
    memplan_free(text);
    memplan_plan_free(plan);
    return calibration;
}

#define READ "{\"sequence_length\": %d, \"bytes\": %.0f, \"metric\": \"allocated\"}"

/* Half the width of the interval of allocated, relative, at a length. */
static double width(const struct memplan_calibration *calibration, const char *tokens,
                    double *shift)
{
    struct memplan_plan *plan = plan_at(tokens);
    json_t *report = report_of(plan, calibration);
    const double low = json_number_value(
        json_object_get(at(report, "peak", "intervals", "allocated"), "low_bytes"));
    const double high = json_number_value(
        json_object_get(at(report, "peak", "intervals", "allocated"), "high_bytes"));

    if (calibration)
        *shift = json_number_value(
            json_object_get(at(report, "peak", "calibration", "allocated"), "shift"));
    json_decref(report);
    memplan_plan_free(plan);
    return log(high / low) / 2;
}

START_TEST(equal_reading_moves_nothing_and_narrows)
{
    struct memplan_calibration *calibration;
    char text[256];
    json_t *json;
    double shift = 1;

    snprintf(text, sizeof(text), "[" READ "]", 256, allocated_at("256"));
    calibration = calibrate(text, &json);
    ck_assert(width(calibration, "256", &shift) < width(NULL, "256", NULL));
    ck_assert(fabs(shift) < 1e-6);
    /* Outside of the readings it is no narrower than without them. */
    ck_assert(width(calibration, "2048", &shift) >= width(NULL, "2048", NULL) * (1 - 1e-6));
    json_decref(json);
    memplan_calibration_free(calibration);
}
END_TEST

static double first_value(json_t *json)
{
    double sum = 0;
    size_t i;
    json_t *value;

    json_array_foreach(
        json_object_get(json_array_get(json_object_get(json, "alternatives"), 0), "value"), i,
        value) sum += fabs(json_number_value(value)) * (double)(i + 1);
    return sum;
}

START_TEST(order_and_repetition_do_not_matter)
{
    const double a = allocated_at("128") * 1.03, b = allocated_at("512") * 1.01;
    struct memplan_calibration *once, *turned, *twice;
    json_t *json[3];
    char text[512];

    snprintf(text, sizeof(text), "[" READ "," READ "]", 128, a, 512, b);
    once = calibrate(text, &json[0]);
    snprintf(text, sizeof(text), "[" READ "," READ "]", 512, b, 128, a);
    turned = calibrate(text, &json[1]);
    snprintf(text, sizeof(text), "[" READ "," READ "," READ "]", 128, a, 512, b, 128, a);
    twice = calibrate(text, &json[2]);
    ck_assert(first_value(json[0]) > 0.01);
    ck_assert(fabs(first_value(json[1]) - first_value(json[0])) < 1e-6);
    ck_assert(fabs(first_value(json[2]) - first_value(json[0])) < 1e-6);
    for (int i = 0; i < 3; i++)
        json_decref(json[i]);
    memplan_calibration_free(once);
    memplan_calibration_free(turned);
    memplan_calibration_free(twice);
}
END_TEST

/* Readings below the traced figure lower it where was read, and nowhere beyond. */
START_TEST(nothing_is_taken_off_outside)
{
    struct memplan_calibration *calibration;
    char text[256];
    json_t *json;
    double shift = 0;

    snprintf(text, sizeof(text), "[" READ "]", 256, allocated_at("256") * 0.9);
    calibration = calibrate(text, &json);
    width(calibration, "256", &shift);
    ck_assert(shift < -0.05);
    width(calibration, "512", &shift);
    ck_assert(!(shift < 0) && !(shift > 0));
    json_decref(json);
    memplan_calibration_free(calibration);
}
END_TEST

START_TEST(wrong_unit_is_named)
{
    struct memplan_calibration *calibration;
    char text[256];
    json_t *json, *reading;
    double shift = 1;

    snprintf(text, sizeof(text), "[" READ "]", 256, allocated_at("256") / 1024);
    calibration = calibrate(text, &json);
    reading = json_array_get(json_object_get(json, "readings"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(reading, "use")), "contradicts");
    ck_assert(strstr(json_string_value(json_object_get(reading, "why")), "MiB for GiB") != NULL);
    ck_assert(width(calibration, "256", &shift) >= width(NULL, "256", NULL) * (1 - 1e-6));
    ck_assert(fabs(shift) < 1e-9);
    json_decref(json);
    memplan_calibration_free(calibration);
}
END_TEST

/* Any one number of the file replaced: an error, or a calibration that still estimates. */
START_TEST(damaged_files_do_no_harm)
{
    static const double numbers[] = {0, -1, 1e300, 1e-300, 4e18, -4e18, 999, 1e9};
    struct memplan_calibration *calibration, *damaged = NULL;
    struct memplan_error err;
    char text[256], *whole = NULL;
    json_t *json;

    snprintf(text, sizeof(text), "[" READ "]", 256, allocated_at("256") * 1.02);
    calibration = calibrate(text, &json);
    for (size_t k = 0; k < json_array_size(json_object_get(json, "terms")); k++)
        for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
            json_t *copy = json_deep_copy(json);
            json_t *term = json_array_get(json_object_get(copy, "terms"), k);
            json_t *one = json_array_get(json_object_get(copy, "alternatives"), 0);
            static const char *const keys[] = {"prior", "bytes", "tokens", "kind"};

            json_object_set_new(term, keys[(k + n) % 4], json_real(numbers[n]));
            json_array_set_new(json_object_get(one, "value"), k, json_real(numbers[n] / 10));
            whole = json_dumps(copy, JSON_REAL_PRECISION(12));
            damaged = NULL;
            if (!memplan_calibration_load(whole, strlen(whole), "", &damaged, &err)) {
                double shift;

                ck_assert(width(damaged, "256", &shift) >= 0);
                memplan_calibration_free(damaged);
            }
            free(whole);
            json_decref(copy);
        }
    json_decref(json);
    memplan_calibration_free(calibration);
}
END_TEST

START_TEST(arguments_are_checked)
{
    struct memplan_calibration *calibration = NULL;
    struct memplan_plan *plan = plan_at("256");
    struct memplan_error err;
    char *text;

    ck_assert_int_eq(memplan_calibrate(NULL, 0, &calibration, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_calibrate(plan, 0.7, &calibration, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_calibrate(plan, 0, &calibration, &err), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(memplan_calibration_load(NULL, 0, "", &calibration, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_calibration_load("[]", 2, "", &calibration, &err), MEMPLAN_ERR_VALUE);
    ck_assert_int_eq(memplan_calibration_to_json(NULL, &text, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_plan_add_readings(plan, "{", 1, "", &err), MEMPLAN_ERR_SYNTAX);
    ck_assert(calibration == NULL);
    memplan_calibration_free(NULL);
    memplan_plan_free(plan);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("calibrate");

    tcase_add_test(tcase, equal_reading_moves_nothing_and_narrows);
    tcase_add_test(tcase, order_and_repetition_do_not_matter);
    tcase_add_test(tcase, nothing_is_taken_off_outside);
    tcase_add_test(tcase, wrong_unit_is_named);
    tcase_add_test(tcase, damaged_files_do_no_harm);
    tcase_add_test(tcase, arguments_are_checked);
    return test_run("calibrate", tcase);
}
