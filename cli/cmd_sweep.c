/* SPDX-License-Identifier: MIT */
/* `memplan sweep`: one plan, estimated for each value of one or two of its fields. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "message.h"
#include "run.h"
#include "sweep.h"
#include "text.h"

const struct range_value *sweep_value(const struct sweep *sweep, size_t point, size_t axis)
{
    return &sweep->axes[axis].range.values[sweep->points[point].at[axis]];
}

static enum range_kind kind_of(const struct memplan_field *field)
{
    if (strcmp(field->type, "bytes") == 0)
        return RANGE_SIZE;
    return strcmp(field->type, "integer") == 0 || strcmp(field->type, "number") == 0 ? RANGE_INTEGER
                                                                                     : RANGE_TEXT;
}

/* "FIELD=VALUES". */
static int read_axis(const char *word, struct sweep_axis *axis)
{
    const size_t len = strcspn(word, "=");
    struct memplan_error err = {0};
    char name[96], why[256];

    if (!word[len] || !len || len >= sizeof(name))
        return message_invalid("%s: expected FIELD=A..B, FIELD=A..B:STEP, FIELD=A..B*FACTOR or "
                               "FIELD=A,B,...",
                               word);
    memcpy(name, word, len);
    name[len] = '\0';
    if (memplan_field_find(name, &axis->field, &err))
        return message_invalid("%s", err.text);
    axis->kind = kind_of(&axis->field);
    if (!range_read(word + len + 1, axis->kind, &axis->range, why, sizeof(why)))
        return message_invalid("%s: %s", axis->field.path, why);
    return 0;
}

static int read_axes(const struct settings *settings, struct sweep *sweep)
{
    int code = 0;

    if (settings->word_count < 1 || settings->word_count > SWEEP_MOST_FIELDS)
        return message_invalid("sweep: expected one or two FIELD=VALUES, found %zu",
                               settings->word_count);
    if (settings->json && settings->tsv)
        return message_invalid("--json and --tsv: give one of them");
    if (settings->svg && settings->word_count > 1)
        return message_invalid("--svg %s: draws one field, found two", settings->svg);
    sweep->count = 1;
    for (size_t i = 0; i < settings->word_count && !code; i++) {
        code = read_axis(settings->words[i], &sweep->axes[i]);
        sweep->axis_count = i + 1;
        sweep->count *= sweep->axes[i].range.count;
    }
    if (!code && sweep->axis_count == 2 &&
        strcmp(sweep->axes[0].field.path, sweep->axes[1].field.path) == 0)
        return message_invalid("sweep: %s is given twice", sweep->axes[0].field.path);
    if (!code && sweep->count > RANGE_MOST)
        return message_invalid("sweep: %zu points, expected at most %d", sweep->count, RANGE_MOST);
    return code;
}

/* ---- the points -------------------------------------------------------------------------------
 */

static enum memplan_status set_value(struct memplan_plan *plan, const struct sweep *sweep,
                                     size_t point, size_t axis, struct memplan_error *err)
{
    const char *value = sweep_value(sweep, point, axis)->text;
    char assignment[192];

    snprintf(assignment, sizeof(assignment), "%s=%s", sweep->axes[axis].field.path, value);
    return memplan_plan_set(plan, assignment, err);
}

/* What is no possible run has a row too, with the reason. */
static enum memplan_status estimate(const struct settings *settings, struct memplan_plan *plan,
                                    const struct sweep *sweep, struct sweep_point *point,
                                    struct memplan_error *err)
{
    const struct memplan_options options = {.size = sizeof(options),
                                            .risk = settings->risk,
                                            .ignore_readings = settings->no_readings,
                                            .no_suggestions = 1,
                                            .peaks_only = settings->peaks_only};
    struct memplan_report *report = NULL;
    enum memplan_status status = MEMPLAN_OK;

    *err = (struct memplan_error){0};
    for (size_t axis = 0; axis < sweep->axis_count && !status; axis++)
        status = set_value(plan, sweep, (size_t)(point - sweep->points), axis, err);
    if (!status)
        status = memplan_estimate(plan, &options, &report, err);
    point->summary.size = sizeof(point->summary);
    if (!status)
        status = memplan_report_summary(report, &point->summary, err);
    memplan_report_free(report);
    if (!status || status == MEMPLAN_ERR_NOMEM || status == MEMPLAN_ERR_ARG ||
        status == MEMPLAN_ERR_INTERNAL)
        return status;
    point->summary.verdict =
        status == MEMPLAN_ERR_OVERFLOW ? MEMPLAN_DOES_NOT_FIT : MEMPLAN_CANNOT_TELL;
    snprintf(point->text, sizeof(point->text), "%s", err->text);
    return MEMPLAN_OK;
}

/* 0: some point fits; 3: none does; 5: none has a verdict; 2: none is a possible run. */
static int code_of(const struct sweep *sweep)
{
    int code = CLI_INVALID;

    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_point *point = &sweep->points[i];

        if (point->summary.verdict == MEMPLAN_FITS)
            return MEMPLAN_FITS;
        if (point->summary.verdict != MEMPLAN_CANNOT_TELL)
            code = MEMPLAN_DOES_NOT_FIT;
        else if (!point->text[0] && code == CLI_INVALID)
            code = MEMPLAN_CANNOT_TELL;
    }
    return code;
}

static enum memplan_status run_points(const struct settings *settings, struct memplan_plan *plan,
                                      struct sweep *sweep, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t axis = 0; axis < sweep->axis_count && !status; axis++)
        status = memplan_plan_pin_readings(plan, sweep->axes[axis].field.path, err);
    for (size_t i = 0; i < sweep->count && !status; i++) {
        size_t rest = i;

        for (size_t axis = sweep->axis_count; axis-- > 0; rest /= sweep->axes[axis].range.count)
            sweep->points[i].at[axis] = rest % sweep->axes[axis].range.count;
        status = estimate(settings, plan, sweep, &sweep->points[i], err);
    }
    sweep->code = code_of(sweep);
    return status;
}

/* The plan as it stands, whose observations are drawn. One that is no possible run has none. */
static enum memplan_status look_at_plan(const struct settings *settings, struct memplan_plan *plan,
                                        struct sweep *sweep, struct memplan_error *err)
{
    const struct memplan_options options = {
        .size = sizeof(options), .no_suggestions = 1, .peaks_only = 1};
    struct memplan_report *report = NULL;
    char *text = NULL;

    if (!settings->svg || settings->no_readings)
        return MEMPLAN_OK;
    if (!memplan_plan_to_json(plan, &text, err))
        sweep->plan = json_loads(text, 0, NULL);
    memplan_free(text);
    text = NULL;
    if (!memplan_estimate(plan, &options, &report, err) &&
        !memplan_report_to_json(report, &text, err))
        sweep->report = json_loads(text, 0, NULL);
    memplan_free(text);
    memplan_report_free(report);
    *err = (struct memplan_error){0};
    return MEMPLAN_OK;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static int show(const struct settings *settings, const struct sweep *sweep)
{
    int code = settings->json  ? sweep_print_json(sweep)
               : settings->tsv ? sweep_print_tsv(sweep)
                               : sweep_print_table(sweep);

    if (!code && settings->svg)
        code = sweep_draw(sweep, settings->svg);
    return code ? code : sweep->code;
}

static int run(const struct settings *settings, struct sweep *sweep)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err = {0};
    struct input input;
    int code;

    if ((code = run_read(settings, &input)))
        return code;
    sweep->source = input.source;
    sweep->peaks_only = settings->peaks_only;
    sweep->points = calloc(sweep->count, sizeof(*sweep->points));
    if (!sweep->points) {
        message_print("out of memory");
        code = CLI_INTERNAL;
    } else if (run_load(settings, &input, &plan, &err) ||
               look_at_plan(settings, plan, sweep, &err) ||
               run_points(settings, plan, sweep, &err)) {
        code = message_error(&err, input.source);
    } else {
        code = show(settings, sweep);
    }
    memplan_plan_free(plan);
    input_free(&input);
    return code;
}

int cmd_sweep(const struct settings *settings)
{
    struct sweep sweep = {0};
    int code = read_axes(settings, &sweep);

    if (!code && !settings->model)
        code = message_invalid("no plan: give --model PLAN; see memplan list for presets");
    if (!code)
        code = run(settings, &sweep);
    for (size_t i = 0; i < sweep.axis_count; i++)
        range_free(&sweep.axes[i].range);
    json_decref(sweep.plan);
    json_decref(sweep.report);
    free(sweep.points);
    return code;
}
