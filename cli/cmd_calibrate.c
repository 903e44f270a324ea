/* SPDX-License-Identifier: MIT */
/* `memplan calibrate`: what readings say of a plan's figures, as a file that corrects them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "report.h"
#include "run.h"
#include "table.h"
#include "text.h"

#define MOST_RUNS 5

/* ---- what people read -------------------------------------------------------------------------
 */

static void print_sentence(const char *lead, char *line)
{
    if (line)
        text_wrap(stdout, lead, line);
    free(line);
}

/* A reading with a number, in its own unit. */
static void print_number(struct table *table, struct libscols_line *row, const json_t *reading)
{
    const char *unit = report_text(reading, "unit");
    const double scale = strcmp(unit, "GiB") == 0  ? TEXT_GIB
                         : strcmp(unit, "GB") == 0 ? TEXT_GB
                                                   : 1;
    const double read = report_number(reading, "read_bytes", 0);
    const double before = report_number(reading, "predicted_bytes", 0);
    const double after = report_number(reading, "corrected_bytes", 0);

    table_cell(table, row, 2, scale > 1 ? "%g %s %s" : "%.0f %s %s",
               report_number(reading, "value", 0), unit, report_text(reading, "metric"));
    if (!(read > 0 && before > 0))
        return;
    table_cell(table, row, 3, scale > 1 ? "%.2f" : "%.0f", before / scale);
    table_cell(table, row, 4, "%+.2f %%", 100 * (before / read - 1));
    if (strcmp(report_text(reading, "use"), "used") == 0)
        table_cell(table, row, 5, "%+.2f %%", 100 * (after / read - 1));
}

static bool print_readings(const json_t *root)
{
    static const char *const names[] = {">",           ">tokens", ">read", ">predicted",
                                        ">difference", ">left",   "",      NULL};
    const json_t *reading;
    struct table table;
    size_t i;

    printf("Readings, and what corrections leave of the differences\n");
    table_begin(&table, names);
    json_array_foreach(json_object_get(root, "readings"), i, reading)
    {
        struct libscols_line *row = table_row(&table);

        table_cell(&table, row, 0, "%zu", i + 1);
        table_cell(&table, row, 1, "%llu",
                   (unsigned long long)report_bytes(reading, "sequence_length"));
        if (json_object_get(reading, "value"))
            print_number(&table, row, reading);
        else
            table_cell(&table, row, 2, "%s", report_text(reading, "outcome"));
        table_cell(&table, row, 6, "%s", report_text(reading, "use"));
    }
    if (!table_end(&table, stdout))
        return false;
    json_array_foreach(json_object_get(root, "readings"), i, reading)
    {
        char lead[64];

        snprintf(lead, sizeof(lead), "  reading %zu %s: ", i + 1,
                 strcmp(report_text(reading, "use"), "contradicts") == 0 ? "contradicts, not used"
                                                                         : "not used");
        if (*report_text(reading, "why"))
            print_sentence(lead, text_format("%s", report_text(reading, "why")));
    }
    return true;
}

static void print_left(const json_t *root)
{
    const json_t *list = json_object_get(root, "alternatives"), *one;
    size_t i;

    if (report_bytes(root, "alternatives_in_all") < 2)
        return;
    printf("\nWhat the plan leaves open: %zu of %llu alternatives explain the readings\n",
           json_array_size(list), (unsigned long long)report_bytes(root, "alternatives_in_all"));
    json_array_foreach(list, i, one)
    {
        char lead[24];

        snprintf(lead, sizeof(lead), "  %5.1f %%  ", 100 * report_number(one, "weight", 0));
        print_sentence(lead, text_format("%s; read as %s, %s", report_text(one, "text"),
                                         report_text(one, "metric"), report_text(one, "unit")));
    }
}

static bool print_terms(const json_t *root)
{
    static const char *const names[] = {"",        ">correction", ">give or take",
                                        ">before", ">told, %",    NULL};
    const json_t *prior = json_object_get(root, "prior"), *term;
    struct table table;
    size_t i;

    printf("\nCorrections of the parts of the peak\n");
    table_begin(&table, names);
    json_array_foreach(json_object_get(root, "terms"), i, term)
    {
        struct libscols_line *row = table_row(&table);

        table_cell(&table, row, 0, "%s", report_text(term, "name"));
        if (report_number(term, "group", -1) < 0) {
            table_cell(&table, row, 4, "not told");
            continue;
        }
        table_cell(&table, row, 1, "%+.2f %%", 100 * report_number(term, "correction", 0));
        table_cell(&table, row, 2, "%.2f %%", 100 * report_number(term, "deviation", 0));
        table_cell(&table, row, 3, "%.2f %%", 100 * report_number(term, "prior", 0));
        table_cell(&table, row, 4, "%.0f", 100 * report_number(term, "told", 0));
    }
    if (!table_end(&table, stdout))
        return false;
    print_sentence("  ", text_format("before: together %.1f %% of allocated, from %s (%s)",
                                     100 * report_number(prior, "deviation", 0),
                                     report_text(prior, "source"), report_text(prior, "kind")));
    return true;
}

static void print_open(const json_t *root)
{
    const json_t *list = json_object_get(root, "not_determined"), *one;
    size_t i;

    if (json_array_size(list))
        printf("\nWhat the readings cannot tell\n");
    json_array_foreach(list, i, one)
    {
        const double before = report_number(one, "deviation_before", 0);
        const double after = report_number(one, "deviation", 0);

        print_sentence("  ", text_format("%s: %s, %.2f %% of the peak, before %.2f %%",
                                         report_text(one, "terms"), report_text(one, "why"),
                                         100 * after, 100 * before));
    }
}

static void print_next(const json_t *root)
{
    const json_t *list = json_object_get(root, "next"), *run;
    const double now = report_number(root, "deviation", 0);
    size_t i;

    printf("\nWhich further run would tell most\n");
    if (!json_array_size(list))
        printf("  none that is expected to survive\n");
    json_array_foreach(list, i, run)
    {
        const double chance = report_number(run, "survival_probability", -1);
        char survival[24], text[48] = "";

        if (i == MOST_RUNS)
            break;
        if (chance >= 0)
            snprintf(text, sizeof(text), "; it survives with %s",
                     text_chance(chance, survival, sizeof(survival)));
        printf("  %llu tokens: %.2f bits; the error at %llu tokens goes from %.2f to %.2f %%%s\n",
               (unsigned long long)report_bytes(run, "sequence_length"),
               report_number(run, "bits", 0),
               (unsigned long long)report_bytes(root, "sequence_length"), 100 * now,
               100 * report_number(run, "deviation", 0), text);
    }
}

static void print_valid(const json_t *root)
{
    const char *path;
    json_t *span;

    printf("\nValid for this plan");
    json_object_foreach(json_object_get(root, "valid"), path, span)
    {
        const double low = json_number_value(json_array_get(span, 0));
        const double high = json_number_value(json_array_get(span, 1));

        if (high > 0)
            printf(", %s %.15g .. %.15g", path, low, high);
        else
            printf(", at no length: no reading with a number was used");
    }
    printf("\n");
}

static int print_page(const json_t *root)
{
    if (!print_readings(root))
        goto failed;
    print_left(root);
    if (!print_terms(root))
        goto failed;
    print_open(root);
    print_next(root);
    print_valid(root);
    return 0;
failed:
    message_print("out of memory");
    return CLI_INTERNAL;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static int write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return message_invalid("%s: %s", path, strerror(errno));
    if (fprintf(file, "%s\n", text) < 0 || fclose(file)) {
        message_print("%s: %s", path, strerror(errno));
        return CLI_INTERNAL;
    }
    return 0;
}

static int add_readings(const struct settings *settings, struct memplan_plan *plan)
{
    struct memplan_error err = {0};
    struct input input;
    int code;

    if (!settings->readings)
        return 0;
    if ((code = input_read_file(settings->readings, INPUT_MOST_BYTES, &input)))
        return code;
    if (memplan_plan_add_readings(plan, input.text, input.len, input.source, &err))
        code = message_error(&err, input.source);
    input_free(&input);
    return code;
}

static int show(const struct settings *settings, const char *json)
{
    json_t *root;
    int code = settings->output ? write_file(settings->output, json) : 0;

    if (code)
        return code;
    if (settings->json) {
        puts(json);
        return 0;
    }
    root = json_loads(json, 0, NULL);
    if (!root) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    code = print_page(root);
    json_decref(root);
    return code;
}

static int calibrate(const struct settings *settings, struct memplan_plan *plan, const char *source)
{
    struct memplan_calibration *calibration = NULL;
    struct memplan_error err = {0};
    char *json = NULL;
    int code;

    if (memplan_calibrate(plan, settings->risk, &calibration, &err) ||
        memplan_calibration_to_json(calibration, &json, &err))
        code = message_error(&err, source);
    else
        code = show(settings, json);
    memplan_free(json);
    memplan_calibration_free(calibration);
    return code;
}

int cmd_calibrate(const struct settings *settings)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err;
    struct input input;
    int code;

    if (!settings->model)
        return message_invalid("calibrate: no plan: give --model PLAN");
    if ((code = run_read(settings, &input)))
        return code;
    if (run_load(settings, &input, &plan, &err))
        code = message_error(&err, input.source);
    else if (settings->no_readings && memplan_plan_set(plan, "observations=[]", &err))
        code = message_error(&err, input.source);
    else if (!(code = add_readings(settings, plan)))
        code = calibrate(settings, plan, input.source);
    memplan_plan_free(plan);
    input_free(&input);
    return code;
}
