/* SPDX-License-Identifier: MIT */
/* The report that a person reads: which of the open fields decide, and what each value leads to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"
#include "text.h"

#define MOST_DECIDERS 8
#define MOST_CHOICES  8 /* values of one field that are compared */

/* One value of an open field, and the alternatives that have it. */
struct choice {
    char value[64];
    double weight, survival; /* survival is the sum of weight times probability */
    uint64_t low, high;
};

static void add_to_choice(struct choice *choice, const json_t *alternative)
{
    const json_t *peak = json_object_get(alternative, "peak");
    double weight = report_number(alternative, "weight", 0);
    uint64_t low = 0, high = 0;

    report_needs(peak, &low, &high);
    choice->low = choice->weight > 0 && choice->low < low ? choice->low : low;
    choice->high = choice->high > high ? choice->high : high;
    choice->weight += weight;
    choice->survival += weight * report_number(peak, "survival_probability", 0);
}

/* Gathers the alternatives that are left by their value of one field. */
static size_t gather(const json_t *alternatives, const char *path, struct choice *choices)
{
    const json_t *alternative;
    size_t i, count = 0;

    json_array_foreach(alternatives, i, alternative)
    {
        char value[64];
        size_t c = 0;

        if (!report_is_left(alternative))
            continue;
        report_value(json_object_get(json_object_get(alternative, "set"), path), value,
                     sizeof(value));
        while (c < count && strcmp(choices[c].value, value) != 0)
            c++;
        if (c == MOST_CHOICES)
            continue;
        if (c == count) {
            choices[count] = (struct choice){0};
            snprintf(choices[count++].value, sizeof(choices->value), "%s", value);
        }
        add_to_choice(&choices[c], alternative);
    }
    return count;
}

/* An open field and what its values lead to. */
struct decider {
    const char *path;
    struct choice choices[MOST_CHOICES];
    size_t count;
    double spread; /* of survival, then of needs; 0: makes no difference */
};

static void weigh_decider(struct decider *decider)
{
    double least = 1, most = 0;
    bool differs = false;

    for (size_t c = 0; c < decider->count; c++) {
        const struct choice *choice = &decider->choices[c], *first = decider->choices;
        double survival = choice->weight > 0 ? choice->survival / choice->weight : 0;

        least = fmin(least, survival);
        most = fmax(most, survival);
        differs = differs || choice->low != first->low || choice->high != first->high;
    }
    decider->spread = differs ? fmax(most - least, 1e-9) : 0;
}

static int compare_deciders(const void *a, const void *b)
{
    const struct decider *x = a, *y = b;

    return x->spread < y->spread ? 1 : x->spread > y->spread ? -1 : strcmp(x->path, y->path);
}

static size_t list_deciders(const json_t *alternatives, struct decider *deciders)
{
    json_t *set = json_object_get(json_array_get(alternatives, 0), "set"), *value;
    const char *path;
    size_t count = 0;

    json_object_foreach(set, path, value)
    {
        struct decider *decider = &deciders[count];

        if (!value || count == MOST_DECIDERS)
            break;
        *decider = (struct decider){.path = path};
        decider->count = gather(alternatives, path, decider->choices);
        weigh_decider(decider);
        count += decider->count > 1;
    }
    qsort(deciders, count, sizeof(*deciders), compare_deciders);
    return count;
}

static void print_choices(struct table *table, const json_t *report, const struct decider *decider)
{
    for (size_t c = 0; c < decider->count; c++) {
        const struct choice *choice = &decider->choices[c];
        struct libscols_line *row = table_row(table);
        char text[64];

        table_cell(table, row, 0, "%s", c ? "" : decider->path);
        table_cell(table, row, 1, "%.24s", choice->value);
        table_cell(table, row, 2, "%s", text_band(choice->low, choice->high, text, sizeof(text)));
        if (choice->weight > 0 && json_object_get(report, "capacity"))
            table_cell(table, row, 3, "%s",
                       text_chance(choice->survival / choice->weight, text, sizeof(text)));
    }
}

/* What each open field changes, the one that changes most first. */
void report_print_deciders(struct page *page, const json_t *report)
{
    static const char *const names[] = {"", "", ">needs, GiB", ">survival", NULL};
    struct decider deciders[MOST_DECIDERS];
    size_t count = list_deciders(json_object_get(report, "alternatives"), deciders);
    struct table table;

    if (!count)
        return;
    report_heading(page, "What decides");
    table_begin(&table, names);
    for (size_t i = 0; i < count; i++)
        if (deciders[i].spread > 0)
            print_choices(&table, report, &deciders[i]);
    page->failed |= !table_end(&table, page->out);
    for (size_t i = 0; i < count; i++)
        if (!(deciders[i].spread > 0))
            fprintf(page->out, "  %s makes no difference\n", deciders[i].path);
}
