/* SPDX-License-Identifier: MIT */
/* The report that a person reads: the five quantities, where they go, what the card can give. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"
#include "text.h"

#define MOST_PARTS   24
#define MOST_LARGEST 5

#define SMALLEST_SHARE 0.0005 /* shown as 0.1 % */

struct peak_row {
    const char *name, *key, *meaning;
};

static const struct peak_row peak_rows[] = {
    {"live", "live_bytes", "tensors alive at one moment"},
    {"allocated", "allocated_bytes", "torch.cuda.max_memory_allocated"},
    {"reserved", "reserved_bytes", "torch.cuda.max_memory_reserved, card without limit"},
    {"needs", "needs_bytes", "fails below the first figure, runs from the second"},
    {"device", "device_bytes", "nvidia-smi: reserved, context, NCCL, others"},
};

static void print_band(struct table *table, struct libscols_line *row, const json_t *peak)
{
    char gib[64];
    uint64_t low, high;

    if (!report_needs(peak, &low, &high))
        return;
    table_cell(table, row, 1, "%s", text_band(low, high, gib, sizeof(gib)));
    if (low == high)
        table_cell(table, row, 2, "%.2f", (double)low / TEXT_GB);
    else
        table_cell(table, row, 2, "%.2f .. %.2f", (double)low / TEXT_GB, (double)high / TEXT_GB);
}

/* Whose figures a report gives. */
static void name_ranks(const json_t *report, char *text, size_t size)
{
    const json_t *ranks = json_object_get(report, "ranks"), *rank = json_array_get(ranks, 0);
    uint64_t world = report_bytes(json_object_get(report, "field"), "world_size");
    uint64_t alike = report_bytes(rank, "equal_ranks");

    if (alike == world || !rank)
        snprintf(text, size, "%s", alike > 1 ? "each rank, all are alike" : "the worst rank");
    else if (json_array_size(ranks) == 1)
        snprintf(text, size, "rank %llu of %llu, which the plan names",
                 (unsigned long long)report_bytes(rank, "rank"), (unsigned long long)world);
    else
        snprintf(text, size, "rank %llu, the worst of %llu (alike: %s)",
                 (unsigned long long)report_bytes(rank, "rank"), (unsigned long long)world,
                 report_text(rank, "ranks"));
}

static void print_rank(struct table *table, const json_t *rank)
{
    static const char *const keys[] = {"live_bytes", "allocated_bytes", "reserved_bytes"};
    struct libscols_line *row = table_row(table);
    char gib[64];
    uint64_t low, high;

    table_cell(table, row, 0, "%s", report_text(rank, "ranks"));
    table_cell(table, row, 1, "%llu", (unsigned long long)report_bytes(rank, "equal_ranks"));
    for (size_t i = 0; i < 3; i++)
        if (json_object_get(rank, keys[i]))
            table_cell(table, row, i + 2, "%.2f", (double)report_bytes(rank, keys[i]) / TEXT_GIB);
    if (report_needs(rank, &low, &high))
        table_cell(table, row, 5, "%s", text_band(low, high, gib, sizeof(gib)));
}

void report_print_ranks(struct page *page, const json_t *report)
{
    static const char *const names[] = {"ranks",     ">alike",      ">live", ">allocated",
                                        ">reserved", ">needs, GiB", NULL};
    const json_t *rank;
    struct table table;
    size_t i;

    if (!json_is_true(json_object_get(report, "all_ranks")))
        return;
    report_heading(page, "Each rank, the worst first, GiB");
    table_begin(&table, names);
    json_array_foreach(json_object_get(report, "ranks"), i, rank) print_rank(&table, rank);
    page->failed |= !table_end(&table, page->out);
}

/* Where a plan asks for more than steps: the highest allocated figure of each kind of moment. */
static void print_moments(struct page *page, json_t *peak)
{
    json_t *moments = json_object_get(peak, "moments"), *value;
    char line[512];
    const char *name;
    size_t used = 0;

    if (!json_object_get(moments, "resume") && !json_object_get(moments, "evaluation") &&
        !json_object_get(moments, "save"))
        return;
    json_object_foreach(moments, name, value)
    {
        if (used < sizeof(line))
            used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %.2f GiB",
                                     used ? ", " : "", name,
                                     (double)report_bytes(moments, name) / TEXT_GIB);
    }
    text_wrap(page->out, "  moments, allocated: ", line);
}

/* How wrong the figures may be. */
static void print_intervals(struct page *page, const json_t *report)
{
    static const char *const figures[] = {"allocated", "reserved", "needs", "device"};
    const json_t *intervals = json_object_get(json_object_get(report, "peak"), "intervals");
    char lead[64], line[512];
    size_t used = 0;

    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        const json_t *one = json_object_get(intervals, figures[i]);

        if (!one || used >= sizeof(line) ||
            (strcmp(figures[i], "device") == 0 && !json_object_get(report, "capacity")))
            continue;
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %.2f .. %.2f",
                                 used ? ", " : "", figures[i],
                                 (double)report_bytes(one, "low_bytes") / TEXT_GIB,
                                 (double)report_bytes(one, "high_bytes") / TEXT_GIB);
    }
    if (!used)
        return;
    snprintf(lead, sizeof(lead),
             "  in %g of 100, GiB: ", 100 * report_number(intervals, "coverage", 0));
    text_wrap(page->out, lead, line);
}

void report_print_peaks(struct page *page, const json_t *report)
{
    static const char *const names[] = {"", ">GiB", ">GB", "", NULL};
    json_t *peak = json_object_get(report, "peak");
    struct table table;
    char whose[200];

    name_ranks(report, whose, sizeof(whose));
    report_heading(page, "Memory of %s; peak in %s, step %llu", whose, report_text(peak, "phase"),
                   (unsigned long long)report_bytes(peak, "step"));
    table_begin(&table, names);
    for (size_t i = 0; i < sizeof(peak_rows) / sizeof(*peak_rows); i++) {
        const json_t *value = json_object_get(peak, peak_rows[i].key);
        struct libscols_line *row;

        /* Without a card nothing is known of what lies outside of PyTorch. */
        if (!value ||
            (strcmp(peak_rows[i].key, "device_bytes") == 0 && !json_object_get(report, "capacity")))
            continue;
        row = table_row(&table);
        table_cell(&table, row, 0, "%s", peak_rows[i].name);
        table_cell(&table, row, 3, "%s", peak_rows[i].meaning);
        if (json_is_array(value)) {
            print_band(&table, row, peak);
            continue;
        }
        table_cell(&table, row, 1, "%.2f", (double)report_bytes(peak, peak_rows[i].key) / TEXT_GIB);
        table_cell(&table, row, 2, "%.2f", (double)report_bytes(peak, peak_rows[i].key) / TEXT_GB);
    }
    page->failed |= !table_end(&table, page->out);
    print_intervals(page, report);
    print_moments(page, peak);
}

struct part {
    const char *name;
    uint64_t bytes;
};

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->name, y->name);
}

/* The parts of an object that are not negligible, largest first. Returns their number. */
static size_t list_parts(json_t *object, struct part *parts, uint64_t *sum)
{
    const char *name;
    json_t *value;
    size_t count = 0;

    *sum = 0;
    json_object_foreach(object, name, value)
    {
        uint64_t bytes = report_bytes(object, name);

        if (!bytes || count == MOST_PARTS)
            continue;
        parts[count++] = (struct part){name, bytes};
        *sum += bytes;
    }
    qsort(parts, count, sizeof(*parts), compare_parts);
    while (count && (double)parts[count - 1].bytes < SMALLEST_SHARE * (double)*sum)
        count--;
    return count;
}

static void print_part(struct table *table, struct libscols_line *row, size_t column,
                       const struct part *part, uint64_t sum)
{
    char name[40];

    snprintf(name, sizeof(name), "%s", part->name);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = ' ';
    table_cell(table, row, column, "%s", name);
    table_cell(table, row, column + 1, "%.2f GiB", (double)part->bytes / TEXT_GIB);
    table_cell(table, row, column + 2, "%.1f %%", 100 * (double)part->bytes / (double)sum);
}

static void print_tensor(struct table *table, const json_t *one)
{
    struct libscols_line *row = table_row(table);
    char shape[48], op[40];
    char *overload;

    report_value(json_object_get(one, "shape"), shape, sizeof(shape));
    snprintf(op, sizeof(op), "%s", report_text(one, "op"));
    overload = strstr(op, ".default");
    if (overload)
        *overload = '\0';
    table_cell(table, row, 0, "%.2f", (double)report_bytes(one, "bytes") / TEXT_GIB);
    if (report_bytes(one, "count") > 1)
        table_cell(table, row, 1, "%llu x", (unsigned long long)report_bytes(one, "count"));
    table_cell(table, row, 2, "%.28s", op);
    table_cell(table, row, 3, "%s %s", shape, report_text(one, "dtype"));
    table_cell(table, row, 4, "%s, %s", report_text(one, "category"), report_text(one, "phase"));
}

/* The tensors that take most at the peak, alike ones together. */
static void print_largest(struct page *page, const json_t *peak)
{
    static const char *const names[] = {">GiB", ">", "made by", "shape", "kind, phase", NULL};
    const json_t *largest = json_object_get(peak, "largest"), *one;
    struct table table;
    size_t i;

    if (!json_array_size(largest))
        return;
    report_heading(page, "Largest tensors at the peak");
    table_begin(&table, names);
    json_array_foreach(largest, i, one) if (i < MOST_LARGEST) print_tensor(&table, one);
    page->failed |= !table_end(&table, page->out);
}

/* What each stream's pool keeps, when there is more than one. */
static void print_streams(struct page *page, const json_t *peak)
{
    struct part streams[MOST_PARTS];
    uint64_t sum;
    size_t count = list_parts(json_object_get(peak, "by_stream"), streams, &sum);
    char line[512];
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof(line); i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %.2f GiB", i ? ", " : "",
                                 streams[i].name, (double)streams[i].bytes / TEXT_GIB);
    if (count > 1)
        text_wrap(page->out, "  one pool per stream: ", line);
}

void report_print_parts(struct page *page, const json_t *report)
{
    static const char *const names[] = {"", ">", ">", "", "", ">", ">", NULL};
    const json_t *peak = json_object_get(report, "peak");
    struct part kinds[MOST_PARTS], orders[MOST_PARTS];
    uint64_t kind_sum, order_sum;
    size_t kind_count = list_parts(json_object_get(peak, "by_category"), kinds, &kind_sum);
    size_t order_count = list_parts(json_object_get(peak, "by_order"), orders, &order_sum);
    struct table table;

    if (!kind_count && !order_count)
        return;
    report_heading(page, "Where it goes, and how that grows with the sequence");
    table_begin(&table, names);
    for (size_t i = 0; i < kind_count || i < order_count; i++) {
        struct libscols_line *row = table_row(&table);

        if (i < kind_count)
            print_part(&table, row, 0, &kinds[i], kind_sum);
        if (i < order_count)
            print_part(&table, row, 4, &orders[i], order_sum);
    }
    page->failed |= !table_end(&table, page->out);
    print_streams(page, peak);
    print_largest(page, peak);
}

static const struct peak_row card_rows[] = {
    {"total", "total_bytes", "total_source"},
    {"CUDA context", "context_bytes", "context_source"},
    {"NCCL", "nccl_bytes", "nccl_source"},
    {"other contexts", "other_contexts_bytes", "other_contexts_source"},
    {"other processes", "other_bytes", "other_source"},
    {"kept free", "reserve_bytes", "reserve_source"},
};

static void print_room_row(struct table *table, const char *name, double bytes, const char *text)
{
    struct libscols_line *row = table_row(table);

    table_cell(table, row, 0, "%s", name);
    table_cell(table, row, 1, "%.2f GiB", bytes / TEXT_GIB + 0.0); /* no -0 */
    table_cell(table, row, 2, "%s", text);
}

/* What the run leaves of what the card can give: its tensors alone, and what else takes room. */
static void print_room(struct table *table, const json_t *report)
{
    const json_t *peak = json_object_get(report, "peak");
    const double usable = (double)report_bytes(json_object_get(report, "capacity"), "usable_bytes");
    const double live = (double)report_bytes(peak, "live_bytes");
    const double error = report_number(peak, "error", 0);
    uint64_t low, high;
    char text[128], band[64];

    if (!report_needs(peak, &low, &high))
        return;
    snprintf(text, sizeof(text), "tensors at the peak; they alone %s %.2f GiB",
             live > usable ? "lack" : "leave", fabs(usable - live) / TEXT_GIB);
    print_room_row(table, "live", -live, text);
    low = low > (uint64_t)live ? low - (uint64_t)live : 0;
    high = high > (uint64_t)live ? high - (uint64_t)live : 0;
    snprintf(text, sizeof(text), "%s: a pool per stream, free blocks that fit nothing",
             text_band(low, high, band, sizeof(band)));
    print_room_row(table, "pools, gaps", -(double)high, text);
    snprintf(text, sizeof(text), "memplan's own error here is %.1f %%, %.2f GiB", error * 100,
             error * usable / TEXT_GIB);
    print_room_row(table, usable < live + (double)high ? "lacking" : "left",
                   fabs(usable - live - (double)high), text);
}

/* Where a figure is from; a total of the table says how it is known. */
static void name_source(const json_t *capacity, const struct peak_row *row, char *text, size_t size)
{
    const char *source = report_text(capacity, row->meaning);

    if (row == card_rows && strcmp(report_text(capacity, "source"), "table") == 0)
        snprintf(text, size, "%s: %s", report_text(capacity, "table_total_status"), source);
    else
        snprintf(text, size, "%s", source);
}

void report_print_card(struct page *page, const json_t *report)
{
    static const char *const names[] = {"", ">", "", NULL};
    const json_t *capacity = json_object_get(report, "capacity");
    struct libscols_line *row;
    struct table table;
    char usable[64], source[68], why[512];

    if (!report_usable(report, usable, sizeof(usable)))
        return;
    report_heading(page, "The card: %s",
                   *report_text(capacity, "gpu") ? report_text(capacity, "gpu")
                                                 : "as the plan says");
    table_begin(&table, names);
    for (size_t i = 0; i < sizeof(card_rows) / sizeof(*card_rows); i++) {
        uint64_t bytes = report_bytes(capacity, card_rows[i].key);

        if (!bytes)
            continue;
        row = table_row(&table);
        table_cell(&table, row, 0, "%s", card_rows[i].name);
        table_cell(&table, row, 1, "%s%.2f GiB", i ? "-" : "", (double)bytes / TEXT_GIB);
        name_source(capacity, &card_rows[i], why, sizeof(why));
        table_cell(&table, row, 2, "%s", text_cut(why, source, sizeof(source)));
    }
    row = table_row(&table);
    table_cell(&table, row, 0, "can give");
    table_cell(&table, row, 1, "%.2f GiB",
               (double)report_bytes(capacity, "usable_bytes") / TEXT_GIB);
    if (strstr(usable, ".."))
        table_cell(&table, row, 2, "%s GiB", usable);
    print_room(&table, report);
    page->failed |= !table_end(&table, page->out);
}

/* Beside the card: what the node's host holds. */
void report_print_host(struct page *page, const json_t *report)
{
    static const char *const names[] = {"", ">", "", "", NULL};
    const json_t *host = json_object_get(report, "host"), *line;
    struct libscols_line *row;
    struct table table;
    char source[68];
    size_t i;

    if (!json_is_true(json_object_get(host, "asked_for")))
        return;
    report_heading(page, "Host memory per node, %llu rank%s; no part of the verdict",
                   (unsigned long long)report_bytes(host, "ranks"),
                   report_bytes(host, "ranks") == 1 ? "" : "s");
    table_begin(&table, names);
    json_array_foreach(json_object_get(host, "lines"), i, line)
    {
        row = table_row(&table);
        table_cell(&table, row, 0, "%s", report_text(line, "name"));
        table_cell(&table, row, 1, "%.2f GiB", (double)report_bytes(line, "bytes") / TEXT_GIB);
        table_cell(&table, row, 2, "%s", report_text(line, "moment"));
        table_cell(&table, row, 3, "%s",
                   text_cut(report_text(line, "source"), source, sizeof(source)));
    }
    row = table_row(&table);
    table_cell(&table, row, 0, "highest moment");
    table_cell(&table, row, 1, "%.2f GiB", (double)report_bytes(host, "peak_bytes") / TEXT_GIB);
    table_cell(&table, row, 3, "processes, Python and libraries come on top");
    page->failed |= !table_end(&table, page->out);
    if (json_is_true(json_object_get(host, "exceeds")))
        fprintf(page->out, "  More than the node's %.2f GiB.\n",
                (double)report_bytes(host, "memory_bytes") / TEXT_GIB);
}
