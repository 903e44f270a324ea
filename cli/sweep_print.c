/* SPDX-License-Identifier: MIT */
/* The points of `memplan sweep` as a table, as tab separated values, as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "sweep.h"
#include "table.h"
#include "text.h"

static const char *word_of(const struct sweep_point *point)
{
    switch (point->summary.verdict) {
    case MEMPLAN_FITS:
        return "fits";
    case MEMPLAN_DOES_NOT_FIT:
        return "does not fit";
    case MEMPLAN_INSIDE_MARGIN:
        return "inside margin";
    default:
        return point->text[0] ? "no run" : "cannot tell";
    }
}

/* ---- table ------------------------------------------------------------------------------------
 */

static void put_value(const struct sweep *sweep, struct table *table, struct libscols_line *line,
                      size_t point, size_t axis)
{
    const struct range_value *value = sweep_value(sweep, point, axis);
    char text[40];

    if (sweep->axes[axis].kind == RANGE_SIZE && value->number > 0)
        table_cell(table, line, axis, "%s", text_size((uint64_t)value->number, text, sizeof(text)));
    else
        table_cell(table, line, axis, "%s", value->text);
}

static void put_row(const struct sweep *sweep, struct table *table, size_t i)
{
    const struct sweep_point *point = &sweep->points[i];
    const struct memplan_summary *s = &point->summary;
    struct libscols_line *line = table_row(table);
    size_t column = sweep->axis_count;
    char text[64];

    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        put_value(sweep, table, line, i, axis);
    table_cell(table, line, column++, "%s", word_of(point));
    if (point->text[0])
        return;
    if (s->survival_probability >= 0)
        table_cell(table, line, column, "%s",
                   text_chance(s->survival_probability, text, sizeof(text)));
    table_cell(table, line, ++column, "%.2f", (double)s->allocated_bytes / TEXT_GIB);
    table_cell(table, line, ++column, "%.2f", (double)s->reserved_bytes / TEXT_GIB);
    if (!sweep->peaks_only)
        table_cell(table, line, ++column, "%s",
                   text_band(s->needs_low_bytes, s->needs_high_bytes, text, sizeof(text)));
    if (s->usable_bytes)
        table_cell(table, line, ++column, "%.2f", (double)s->usable_bytes / TEXT_GIB);
}

/* Why there are rows without figures: each reason once, with the first value that has it. */
static void print_reasons(const struct sweep *sweep)
{
    size_t last = SIZE_MAX;

    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_point *point = &sweep->points[i];
        char *text;

        if (!point->text[0] || (last != SIZE_MAX && !strcmp(point->text, sweep->points[last].text)))
            continue;
        last = i;
        text = text_format(
            "%s%s%s: %s", sweep_value(sweep, i, 0)->text, sweep->axis_count > 1 ? ", " : "",
            sweep->axis_count > 1 ? sweep_value(sweep, i, 1)->text : "", point->text);
        if (text)
            text_wrap(stdout, "  ", text);
        free(text);
    }
}

int sweep_print_table(const struct sweep *sweep)
{
    const char *names[TABLE_COLUMNS] = {0};
    char heads[SWEEP_MOST_FIELDS][100];
    struct table table;
    size_t column = 0;

    for (; column < sweep->axis_count; column++) {
        const char *path = sweep->axes[column].field.path, *dot = strrchr(path, '.');

        snprintf(heads[column], sizeof(heads[column]), "%s%s",
                 sweep->axes[column].kind == RANGE_TEXT ? "" : ">", dot ? dot + 1 : path);
        names[column] = heads[column];
    }
    names[column++] = "verdict";
    names[column++] = ">survival";
    names[column++] = ">allocated";
    names[column++] = ">reserved";
    if (!sweep->peaks_only)
        names[column++] = ">needs";
    names[column] = ">can give";
    printf("%s: GiB for each ", sweep->source);
    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        printf("%s%s", axis ? " and " : "", sweep->axes[axis].field.path);
    printf("\n\n");
    table_begin(&table, names);
    for (size_t i = 0; i < sweep->count; i++)
        put_row(sweep, &table, i);
    if (!table_end(&table, stdout)) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    print_reasons(sweep);
    return 0;
}

/* ---- what programs read -----------------------------------------------------------------------
 */

/* Tabs and line ends would make more cells. */
static void put_cell(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < 0x20 ? ' ' : *text);
}

int sweep_print_tsv(const struct sweep *sweep)
{
    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        printf("%s\t", sweep->axes[axis].field.path);
    printf("verdict\tsurvival\tlive_bytes\tallocated_bytes\treserved_bytes\tneeds_low_bytes\t"
           "needs_high_bytes\tdevice_bytes\tusable_bytes\ttext\n");
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_point *point = &sweep->points[i];
        const struct memplan_summary *s = &point->summary;

        for (size_t axis = 0; axis < sweep->axis_count; axis++) {
            put_cell(sweep_value(sweep, i, axis)->text);
            putchar('\t');
        }
        if (point->text[0]) {
            printf("%s\t\t\t\t\t\t\t\t\t",
                   s->verdict == MEMPLAN_CANNOT_TELL ? "no_run" : memplan_verdict_name(s->verdict));
            put_cell(point->text);
            putchar('\n');
            continue;
        }
        printf("%s\t", memplan_verdict_name(s->verdict));
        if (s->survival_probability >= 0)
            printf("%.9g", s->survival_probability);
        printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", s->live_bytes, s->allocated_bytes,
               s->reserved_bytes);
        if (sweep->peaks_only)
            putchar('\t');
        else
            printf("%" PRIu64 "\t%" PRIu64, s->needs_low_bytes, s->needs_high_bytes);
        printf("\t%" PRIu64 "\t", s->device_bytes);
        if (s->usable_bytes)
            printf("%" PRIu64, s->usable_bytes);
        printf("\t\n");
    }
    return 0;
}

static void put_bytes(json_t *object, const char *key, uint64_t bytes)
{
    json_object_set_new(object, key, json_integer((json_int_t)bytes));
}

static json_t *value_json(const struct range_value *value)
{
    if (isnan(value->number))
        return json_string(value->text);
    return value->number == floor(value->number) && fabs(value->number) < 9e15
               ? json_integer(strtoll(value->text, NULL, 10))
               : json_real(value->number);
}

static json_t *point_json(const struct sweep *sweep, size_t i)
{
    const struct sweep_point *point = &sweep->points[i];
    const struct memplan_summary *s = &point->summary;
    json_t *object = json_object(), *set = json_object();

    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        json_object_set_new(set, sweep->axes[axis].field.path,
                            value_json(sweep_value(sweep, i, axis)));
    json_object_set_new(object, "set", set);
    if (point->text[0]) {
        json_object_set_new(object, "error", json_string(point->text));
        return object;
    }
    json_object_set_new(object, "verdict", json_string(memplan_verdict_name(s->verdict)));
    json_object_set_new(object, "code", json_integer(s->verdict));
    if (s->survival_probability >= 0)
        json_object_set_new(object, "survival_probability", json_real(s->survival_probability));
    put_bytes(object, "live_bytes", s->live_bytes);
    put_bytes(object, "allocated_bytes", s->allocated_bytes);
    put_bytes(object, "reserved_bytes", s->reserved_bytes);
    if (!sweep->peaks_only)
        json_object_set_new(
            object, "needs_bytes",
            json_pack("[I, I]", (json_int_t)s->needs_low_bytes, (json_int_t)s->needs_high_bytes));
    put_bytes(object, "device_bytes", s->device_bytes);
    if (s->usable_bytes)
        put_bytes(object, "usable_bytes", s->usable_bytes);
    return object;
}

int sweep_print_json(const struct sweep *sweep)
{
    json_t *root = json_object(), *fields = json_array(), *points = json_array();

    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        json_array_append_new(fields, json_string(sweep->axes[axis].field.path));
    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(points, point_json(sweep, i));
    json_object_set_new(root, "schema", json_integer(1));
    json_object_set_new(root, "fields", fields);
    json_object_set_new(root, "code", json_integer(sweep->code));
    json_object_set_new(root, "points", points);
    return message_print_json(root);
}
