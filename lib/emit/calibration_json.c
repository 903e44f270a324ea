/* SPDX-License-Identifier: MIT */
/* A calibration as JSON: the file, and all that was found on the way. */
#include "emit/calibration_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "calib/explain.h"
#include "emit/report_out.h"
#include "verdict/interval.h"
#include "verdict/readings.h"

#define TOLD 0.05 /* share of a group's prior variance below which readings did not tell it */

static const char *term_name(const struct mpl_calibration_term *term, char *name, size_t size)
{
    static const char *const names[MPL_TERM_KINDS] = {
        [MPL_TERM_CONSTANT] = "not modelled, constant",
        [MPL_TERM_TOKENS] = "not modelled, by the token",
        [MPL_TERM_ALLOCATOR] = "reserved over allocated",
        [MPL_TERM_OUTSIDE] = "outside of the allocator",
    };

    if (term->kind == MPL_TERM_PART)
        snprintf(name, size, "%s, %s", mpl_category_name((enum mpl_category)term->category),
                 mpl_order_name((enum mpl_order)term->order));
    else
        snprintf(name, size, "%s", names[term->kind]);
    return name;
}

static json_t *terms(struct out *out, const struct mpl_calib_report *report)
{
    const struct mpl_calib_fit *fit = &report->fits[report->best];
    json_t *array = json_array();
    char name[64];

    for (uint32_t k = 0; k < report->term_count; k++) {
        const struct mpl_calibration_term *term = &report->terms[k];
        json_t *object = json_object();

        put(out, object, "name", text(term_name(term, name, sizeof(name))));
        put(out, object, "kind", json_integer(term->kind));
        put(out, object, "category", json_integer(term->category));
        put(out, object, "order", json_integer(term->order));
        put(out, object, "prior", json_real(term->prior));
        put(out, object, "bytes", json_real(term->bytes));
        put(out, object, "tokens", json_real(term->tokens));
        put(out, object, "correction", json_real(term->prior * fit->value[k]));
        put(out, object, "deviation",
            json_real(term->prior * sqrt(fmax(fit->covariance[k][k], 0))));
        put(out, object, "told", json_real(mpl_calib_told(report, k)));
        put(out, object, "group", json_integer(report->group[k]));
        push(out, array, object);
    }
    return array;
}

static json_t *row(struct out *out, const double *values, uint32_t count)
{
    json_t *array = json_array();

    for (uint32_t k = 0; k < count; k++)
        push(out, array, json_real(values[k]));
    return array;
}

static json_t *alternatives(struct out *out, const struct mpl_calib_report *report)
{
    json_t *array = json_array();

    for (size_t a = 0; a < report->estimate->alternative_count; a++) {
        const struct mpl_alternative *one = &report->estimate->alternatives[a];
        json_t *object, *rows;

        if (!(report->weights[a] > 0))
            continue;
        object = json_object();
        rows = json_array();
        for (uint32_t k = 0; k < report->term_count; k++)
            push(out, rows, row(out, report->fits[a].covariance[k], report->term_count));
        put(out, object, "set", json_loads(one->set_json, 0, NULL));
        put(out, object, "text", text(one->text));
        put(out, object, "weight", json_real(report->weights[a]));
        put(out, object, "metric", text(mpl_metric_name(report->metrics[a])));
        put(out, object, "unit", text(mpl_unit_name(report->units[a])));
        put(out, object, "value", row(out, report->fits[a].value, report->term_count));
        put(out, object, "covariance", rows);
        push(out, array, object);
    }
    return array;
}

static json_t *reading(struct out *out, const struct mpl_calib_report *report, uint32_t i)
{
    static const char *const uses[] = {"used", "contradicts", "repeated", "no card"};
    const struct mpl_observation *o = &report->plan.observations[i];
    const struct mpl_calib_result *result = &report->results[i];
    json_t *object = json_object();

    put(out, object, "sequence_length", json_integer(o->sequence_length));
    put(out, object, "use", text(uses[result->use]));
    if (o->outcome == MPL_OUTCOME_NUMBER) {
        put(out, object, "value", json_real(o->value));
        put(out, object, "unit", text(mpl_unit_name(result->unit)));
        put(out, object, "metric", text(mpl_metric_name(result->metric)));
    } else {
        put(out, object, "outcome", text(o->outcome == MPL_OUTCOME_RAN ? "ran" : "oom"));
    }
    if (result->predicted_bytes > 0) {
        put(out, object, "read_bytes", json_real(result->read_bytes));
        put(out, object, "predicted_bytes", json_real(result->predicted_bytes));
        put(out, object, "corrected_bytes", json_real(result->corrected_bytes));
        put(out, object, "distance", json_real(result->distance));
    }
    if (result->why[0])
        put(out, object, "why", text(result->why));
    if (o->source[0])
        put(out, object, "source", text(o->source));
    return object;
}

/* "a; b; c" of a group's terms. */
static void list_group(const struct mpl_calib_report *report, int group, char *list, size_t size)
{
    char name[64];
    size_t used = 0;

    list[0] = '\0';
    for (uint32_t k = 0; k < report->term_count; k++)
        if (report->group[k] == group && used < size)
            used += (size_t)snprintf(list + used, size - used, "%s%s", used ? "; " : "",
                                     term_name(&report->terms[k], name, sizeof(name)));
}

static uint32_t members(const struct mpl_calib_report *report, int group)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < report->term_count; k++)
        count += report->group[k] == group;
    return count;
}

/* Directions in which the readings say nothing, or say only something of a sum. */
static json_t *not_determined(struct out *out, const struct mpl_calib_report *report)
{
    json_t *array = json_array();
    char list[600];

    for (int group = -1; group < (int)report->term_count; group++) {
        const uint32_t count = members(report, group);
        double before, after;
        json_t *object;

        if (!count)
            continue;
        list_group(report, group, list, sizeof(list));
        mpl_calib_group_deviation(report, group, &before, &after);
        if (group >= 0 && count == 1 && after * after < (1 - TOLD) * before * before)
            continue;
        object = json_object();
        put(out, object, "terms", text(list));
        put(out, object, "why",
            text(group < 0 ? "no reading depends on it"
                 : after * after >= (1 - TOLD) * before * before
                     ? "the readings leave it as wide as it was"
                     : "they grow alike in all readings: only their sum is told"));
        put(out, object, "deviation_before", json_real(before));
        put(out, object, "deviation", json_real(after));
        push(out, array, object);
    }
    return array;
}

static json_t *next_runs(struct out *out, const struct mpl_calib_report *report)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->run_count; i++) {
        const struct mpl_calib_run *run = &report->runs[i];
        json_t *object = json_object();

        put(out, object, "sequence_length", json_integer(run->tokens));
        put(out, object, "bits", json_real(run->bits));
        put(out, object, "deviation", json_real(run->deviation));
        if (run->survival >= 0)
            put(out, object, "survival_probability", json_real(run->survival));
        push(out, array, object);
    }
    return array;
}

static json_t *valid(struct out *out, const struct mpl_calibration *file)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < file->field_count; i++)
        put(out, object, file->fields[i].path,
            json_pack("[f, f]", file->fields[i].low, file->fields[i].high));
    return object;
}

static json_t *prior(struct out *out, const struct mpl_calib_report *report)
{
    const enum mpl_openness open = report->estimate->openness;
    json_t *object = json_object();

    put(out, object, "deviation", json_real(report->prior_deviation));
    put(out, object, "kind", text(mpl_openness_name(open)));
    put(out, object, "source", text(mpl_accuracy_spread(MPL_FIGURE_ALLOCATED, open)->source));
    return object;
}

enum memplan_status mpl_calibration_to_json(const struct mpl_calib_report *report, char **json_out,
                                            struct memplan_error *err)
{
    struct out out = {false};
    json_t *root = json_object(), *list = json_array();
    char *json = NULL;

    put(&out, root, "memplan_calibration", json_integer(1));
    put(&out, root, "version", text(MEMPLAN_VERSION_STRING));
    put(&out, root, "valid", valid(&out, report->file));
    put(&out, root, "prior", prior(&out, report));
    put(&out, root, "sequence_length", json_integer(report->plan.training.sequence_length));
    put(&out, root, "deviation", json_real(report->deviation_before));
    for (uint32_t i = 0; i < report->plan.observation_count; i++)
        push(&out, list, reading(&out, report, i));
    put(&out, root, "readings", list);
    put(&out, root, "terms", terms(&out, report));
    put(&out, root, "not_determined", not_determined(&out, report));
    put(&out, root, "next", next_runs(&out, report));
    put(&out, root, "reserved_noise", json_real(report->reserved_noise));
    put(&out, root, "alternatives", alternatives(&out, report));
    put(&out, root, "alternatives_in_all",
        json_integer((json_int_t)report->estimate->alternative_count));
    put(&out, root, "plan", json_loads(report->file->plan, 0, NULL));
    if (!out.has_failed)
        json = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (!json)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while writing a calibration");
    *json_out = json;
    return MEMPLAN_OK;
}
