/* SPDX-License-Identifier: MIT */
/* The report that a person reads: readings beside the prediction, and what the plan leaves open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"
#include "text.h"

#define MOST_LEFT     12 /* alternatives that are shown; --json has all */
#define MOST_EXCLUDED 8
#define MOST_READINGS 4 /* columns of differences */
#define MOST_AXES     5 /* columns of open fields */

static bool is_number(const json_t *reading)
{
    return json_object_get(reading, "value") != NULL;
}

static void print_hypotheses(struct page *page, const json_t *report)
{
    const json_t *hypotheses = json_object_get(report, "reading_hypotheses"), *hypothesis;
    size_t i;

    json_array_foreach(hypotheses, i, hypothesis)
    {
        const char *excluded = report_text(hypothesis, "excluded_by");
        const char *metric = report_text(hypothesis, "metric");
        double weight = report_number(hypothesis, "weight", 0);
        char share[24];
        char *line;

        if (*excluded)
            line = text_format("not %s, %s: %s", metric, report_text(hypothesis, "unit"), excluded);
        else
            line = text_format("taken as %s, %s%s%s%s", metric, report_text(hypothesis, "unit"),
                               weight < 1 ? " (" : "",
                               weight < 1 ? text_chance(weight, share, sizeof(share)) : "",
                               weight < 1 ? ")" : "");
        if (line)
            text_wrap(page->out, "  ", line);
        page->failed = page->failed || !line;
        free(line);
    }
}

/* Predictions for one reading over the alternatives that are left: "28.46 .. 30.12", in its unit.
 */
static void print_predicted(struct table *table, struct libscols_line *row, const json_t *report,
                            size_t index)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *alternative;
    const json_t *reading = json_array_get(json_object_get(report, "readings"), index);
    const char *unit = report_text(reading, "unit");
    double scale = strcmp(unit, "GiB") == 0 ? TEXT_GIB : strcmp(unit, "GB") == 0 ? TEXT_GB : 1;
    double low = INFINITY, high = 0, nearest = INFINITY, farthest = -INFINITY;
    size_t i;

    json_array_foreach(alternatives, i, alternative)
    {
        const json_t *one = json_array_get(json_object_get(alternative, "readings"), index);
        double bytes = (double)report_bytes(one, "predicted_bytes");
        double difference = report_number(one, "difference", NAN);

        if (!report_is_left(alternative) || !(bytes > 0))
            continue;
        low = fmin(low, bytes);
        high = fmax(high, bytes);
        nearest = fmin(nearest, difference);
        farthest = fmax(farthest, difference);
    }
    if (!(high > 0))
        return;
    if (low < high)
        table_cell(table, row, 3, "%.2f .. %.2f", low / scale, high / scale);
    else
        table_cell(table, row, 3, "%.2f", low / scale);
    if (isfinite(nearest) && nearest < farthest)
        table_cell(table, row, 4, "%+.1f .. %+.1f %%", 100 * nearest, 100 * farthest);
    else if (isfinite(nearest))
        table_cell(table, row, 4, "%+.1f %%", 100 * nearest);
}

void report_print_readings(struct page *page, const json_t *report)
{
    static const char *const names[] = {">", ">tokens", ">read", ">predicted", ">difference", NULL};
    const json_t *readings = json_object_get(report, "readings"), *reading;
    struct table table;
    size_t i;

    if (!json_array_size(readings))
        return;
    report_heading(page, "Readings, and what is predicted for them");
    table_begin(&table, names);
    json_array_foreach(readings, i, reading)
    {
        struct libscols_line *row = table_row(&table);
        const char *outcome = report_text(reading, "outcome");

        table_cell(&table, row, 0, "%zu", i + 1);
        table_cell(&table, row, 1, "%llu",
                   (unsigned long long)report_bytes(reading, "sequence_length"));
        if (is_number(reading))
            table_cell(&table, row, 2, "%g %s%s%s", report_number(reading, "value", 0),
                       report_text(reading, "unit"), *outcome ? ", " : "", outcome);
        else
            table_cell(&table, row, 2, "%s", outcome);
        if (is_number(reading))
            print_predicted(&table, row, report, i);
    }
    page->failed |= !table_end(&table, page->out);
    print_hypotheses(page, report);
}

/* The columns of the alternatives: open fields, figures, readings with a number. */
struct layout {
    const char *axes[MOST_AXES]; /* paths */
    size_t axis_count;
    size_t left_out; /* open fields without a column */
    size_t readings[MOST_READINGS];
    size_t reading_count;
    char heads[MOST_READINGS][24];
};

static const char *leaf(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

static void find_layout(const json_t *report, struct layout *layout)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *reading;
    json_t *set = json_object_get(json_array_get(alternatives, 0), "set"), *value;
    const char *path;
    size_t i;

    *layout = (struct layout){0};
    json_object_foreach(set, path, value)
    {
        if (value && layout->axis_count < MOST_AXES)
            layout->axes[layout->axis_count++] = path;
        else
            layout->left_out++;
    }
    json_array_foreach(json_object_get(report, "readings"), i, reading)
    {
        size_t n = layout->reading_count;

        if (!is_number(reading) || n == MOST_READINGS)
            continue;
        snprintf(layout->heads[n], sizeof(layout->heads[n]), ">at %llu",
                 (unsigned long long)report_bytes(reading, "sequence_length"));
        layout->readings[layout->reading_count++] = i;
    }
}

static void begin_left(struct table *table, const struct layout *layout)
{
    const char *names[TABLE_COLUMNS + 1] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < layout->axis_count; i++)
        names[count++] = leaf(layout->axes[i]);
    names[count++] = ">weight";
    names[count++] = ">needs, GiB";
    names[count++] = ">survival";
    for (size_t i = 0; i < layout->reading_count; i++)
        names[count++] = layout->heads[i];
    table_begin(table, names);
}

static void print_left(struct table *table, const struct layout *layout, const json_t *alternative)
{
    const json_t *peak = json_object_get(alternative, "peak");
    const json_t *set = json_object_get(alternative, "set");
    const json_t *predicted = json_object_get(alternative, "readings");
    double survival = report_number(peak, "survival_probability", -1);
    struct libscols_line *row = table_row(table);
    char text[64];
    uint64_t low, high;
    size_t column = 0;

    for (size_t i = 0; i < layout->axis_count; i++) {
        report_value(json_object_get(set, layout->axes[i]), text, sizeof(text));
        table_cell(table, row, column++, "%.16s", text);
    }
    table_cell(table, row, column++, "%.0f %%", 100 * report_number(alternative, "weight", 0));
    if (report_needs(peak, &low, &high))
        table_cell(table, row, column, "%s", text_band(low, high, text, sizeof(text)));
    column++;
    if (survival >= 0)
        table_cell(table, row, column, "%s", text_chance(survival, text, sizeof(text)));
    column++;
    for (size_t i = 0; i < layout->reading_count; i++, column++) {
        const json_t *one = json_array_get(predicted, layout->readings[i]);

        if (json_object_get(one, "difference"))
            table_cell(table, row, column, "%+.1f %%", 100 * report_number(one, "difference", 0));
    }
}

static void print_all_left(struct page *page, const json_t *report, size_t left)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *alternative;
    struct layout layout;
    struct table table;
    size_t i, shown = 0;

    find_layout(report, &layout);
    begin_left(&table, &layout);
    json_array_foreach(alternatives, i,
                       alternative) if (report_is_left(alternative) && shown++ < MOST_LEFT)
        print_left(&table, &layout, alternative);
    page->failed |= !table_end(&table, page->out);
    if (layout.left_out)
        fprintf(page->out, "  %zu more open fields have no column, see --json\n", layout.left_out);
    if (left > MOST_LEFT)
        fprintf(page->out, "  and %zu more, see --json\n", left - MOST_LEFT);
}

static void print_excluded(struct page *page, const json_t *alternatives)
{
    const json_t *alternative;
    size_t i, count = 0;

    json_array_foreach(alternatives, i, alternative)
    {
        const char *why = report_text(alternative, "excluded_by");
        char label[256];
        char *line;

        if (report_is_left(alternative) || count++ >= MOST_EXCLUDED)
            continue;
        if (count == 1)
            fputs("  Excluded by the readings:\n", page->out);
        report_label(alternative, label, sizeof(label));
        line = text_format("%s: %s", label, *why ? why : "no weight is left");
        if (line)
            text_wrap(page->out, "  ", line);
        page->failed = page->failed || !line;
        free(line);
    }
    if (count > MOST_EXCLUDED)
        fprintf(page->out, "  and %zu more are excluded, see --json\n", count - MOST_EXCLUDED);
}

void report_print_alternatives(struct page *page, const json_t *report)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *alternative;
    size_t i, left = 0;

    if (json_array_size(alternatives) < 2)
        return;
    json_array_foreach(alternatives, i, alternative) left += report_is_left(alternative);
    report_heading(page, "What the plan leaves open: %zu of %zu alternatives are left", left,
                   json_array_size(alternatives));
    print_all_left(page, report, left);
    print_excluded(page, alternatives);
    if (left > 1)
        report_print_deciders(page, report);
}
