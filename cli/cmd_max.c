/* SPDX-License-Identifier: MIT */
/* `memplan max` and `memplan min`: the value of a field up to which a plan fits. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "message.h"
#include "range.h"
#include "run.h"
#include "table.h"
#include "text.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* One search and its question. */
struct answer {
    const char *source;
    bool wants_least, is_size;
    struct memplan_search *search;
    struct memplan_search_result r;
};

/* A bound of the search, in the field's own unit. */
static int read_bound(const char *option, const char *text, enum range_kind kind, int64_t *value,
                      uint32_t *has)
{
    if (!text)
        return 0;
    if (has)
        *has = 1;
    if (range_read_value(text, kind, value))
        return 0;
    return message_invalid("--%s %s: expected a whole number%s", option, text,
                           kind == RANGE_SIZE ? " of bytes, or a size as 80 GiB" : "");
}

static int read_options(const struct settings *settings, struct answer *a,
                        struct memplan_search_options *o)
{
    struct memplan_error err = {0};
    enum range_kind kind;
    int code;

    if (settings->word_count != 1)
        return message_invalid("expected one FIELD, as sequence_length; see memplan help fields");
    if (memplan_field_find(settings->words[0], &a->r.field, &err))
        return message_invalid("%s", err.text);
    a->is_size = strcmp(a->r.field.type, "bytes") == 0;
    kind = a->is_size ? RANGE_SIZE : RANGE_INTEGER;
    *o = (struct memplan_search_options){.size = sizeof(*o),
                                         .field = a->r.field.path,
                                         .wants_least = a->wants_least,
                                         .ignore_readings = settings->no_readings,
                                         .risk = settings->risk};
    if ((code = read_bound("from", settings->from, kind, &o->from, &o->has_from)) ||
        (code = read_bound("to", settings->to, kind, &o->to, &o->has_to)) ||
        (code = read_bound("multiple-of", settings->multiple_of, kind, &o->multiple_of, NULL)))
        return code;
    if (settings->multiple_of && o->multiple_of < 1)
        return message_invalid("--multiple-of %s: expected 1 or more", settings->multiple_of);
    return 0;
}

/* ---- what people read -------------------------------------------------------------------------
 */

/* A value of the field, exact: a size has its unit. */
static const char *shown(const struct answer *a, int64_t value, char *text, size_t size)
{
    if (a->is_size && value > 0 && value % GIB == 0)
        snprintf(text, size, "%" PRId64 " GiB", value / GIB);
    else if (a->is_size && value > 0 && value % MIB == 0)
        snprintf(text, size, "%" PRId64 " MiB", value / MIB);
    else
        snprintf(text, size, "%" PRId64 "%s", value, a->is_size ? " bytes" : "");
    return text;
}

static const char *word_of(enum memplan_verdict verdict)
{
    return verdict == MEMPLAN_FITS            ? "fits"
           : verdict == MEMPLAN_DOES_NOT_FIT  ? "does not fit"
           : verdict == MEMPLAN_INSIDE_MARGIN ? "inside margin"
                                              : "cannot tell";
}

static void print_row(const struct answer *a, struct table *table,
                      const struct memplan_point *point)
{
    const struct memplan_summary *s = &point->summary;
    struct libscols_line *line = table_row(table);
    char text[64];

    table_cell(table, line, 0, "%s", shown(a, point->value, text, sizeof(text)));
    table_cell(table, line, 1, "%s", word_of(s->verdict));
    if (point->text[0]) {
        table_cell(table, line, 6, "%s", point->text);
        return;
    }
    table_cell(table, line, 2, "%s", text_chance(s->survival_probability, text, sizeof(text)));
    table_cell(table, line, 3, "%.2f", (double)s->allocated_bytes / TEXT_GIB);
    table_cell(table, line, 4, "%s",
               text_band(s->needs_low_bytes, s->needs_high_bytes, text, sizeof(text)));
    table_cell(table, line, 5, "%.2f", (double)s->usable_bytes / TEXT_GIB);
}

/* Both sides of the boundary, the smaller value first. */
static bool print_sides(const struct answer *a)
{
    static const char *const names[] = {
        ">value",      "verdict",        ">survival", ">allocated, GiB",
        ">needs, GiB", ">can give, GiB", "",          NULL};
    struct memplan_point point = {.size = sizeof(point)};
    struct table table;

    table_begin(&table, names);
    for (size_t i = 0; memplan_search_point(a->search, i, &point); i++)
        if (point.value == a->r.value || (a->r.has_beyond && point.value == a->r.beyond))
            print_row(a, &table, &point);
    return table_end(&table, stdout);
}

static void print_answer(const struct answer *a)
{
    const struct memplan_search_result *r = &a->r;
    char value[40], beyond[40], grain[40], from[40], to[40];

    shown(a, r->value, value, sizeof(value));
    shown(a, r->beyond, beyond, sizeof(beyond));
    shown(a, r->multiple_of, grain, sizeof(grain));
    shown(a, r->from, from, sizeof(from));
    shown(a, r->cut_at && r->is_cut ? r->cut_at : r->to, to, sizeof(to));
    printf("%s: ", a->source);
    if (r->verdict == MEMPLAN_CANNOT_TELL)
        printf("%s\n", r->reason);
    else if (r->verdict != MEMPLAN_FITS)
        printf("no %s from %s to %s fits\n", r->field.path, from, to);
    else if (r->has_beyond)
        printf("%s %s %s fits, %s does not%s%s\n", r->field.path, a->wants_least ? "from" : "up to",
               value, beyond, r->multiple_of > 1 ? "; multiples of " : "",
               r->multiple_of > 1 ? grain : "");
    else
        printf("%s %s fits, the %s %s\n", r->field.path, value,
               a->wants_least ? "least" : "largest",
               r->is_spent || r->is_cut ? "that could be told" : "that is tried");
}

static void print_trend(const struct answer *a)
{
    const struct memplan_search_result *r = &a->r;
    char one[40], two[40], three[40], text[512];

    if (r->has_hole) {
        struct memplan_point point = {.size = sizeof(point)};
        bool outer_fit = false;

        for (size_t i = 0; memplan_search_point(a->search, i, &point); i++)
            if (point.value == r->hole[0])
                outer_fit = point.summary.verdict == MEMPLAN_FITS;
        shown(a, r->hole[0], one, sizeof(one));
        shown(a, r->hole[1], two, sizeof(two));
        shown(a, r->hole[2], three, sizeof(three));
        if (outer_fit)
            snprintf(text, sizeof(text),
                     "There is more than one boundary: it fits at %s and %s, not at %s.", one,
                     three, two);
        else
            snprintf(text, sizeof(text),
                     "There is more than one boundary: it fits at %s, not at %s and %s.", two, one,
                     three);
        text_wrap(stdout, "  ", text);
    }
    if (r->trend == MEMPLAN_TREND_TURNS) {
        snprintf(text, sizeof(text),
                 "What is allocated does not only rise or only fall: it turns at %s, between %s "
                 "and %s.",
                 shown(a, r->turn[1], two, sizeof(two)), shown(a, r->turn[0], one, sizeof(one)),
                 shown(a, r->turn[2], three, sizeof(three)));
        text_wrap(stdout, "  ", text);
    }
}

static void print_limits(const struct answer *a)
{
    static const char *const trends[] = {[MEMPLAN_TREND_LEVEL] = "is the same",
                                         [MEMPLAN_TREND_RISES] = "rises",
                                         [MEMPLAN_TREND_FALLS] = "falls",
                                         [MEMPLAN_TREND_TURNS] = "turns"};
    const struct memplan_search_result *r = &a->r;
    struct memplan_point point = {.size = sizeof(point)};
    char cut[40], text[512];

    snprintf(text, sizeof(text), "%" PRIu32 " value%s tried%s%s%s.", r->points,
             r->points == 1 ? " was" : "s were", r->points == 1 ? "" : "; what is allocated ",
             r->points == 1 ? "" : trends[r->trend], r->points == 1 ? "" : " over them");
    text_wrap(stdout, "  ", text);
    if (r->is_cut) {
        snprintf(text, sizeof(text), "Nothing above %s was tried.",
                 shown(a, r->cut_at, cut, sizeof(cut)));
        text_wrap(stdout, "  ", text);
    }
    for (size_t i = 0; memplan_search_point(a->search, i, &point); i++)
        if (point.text[0] && point.value == r->cut_at) {
            snprintf(text, sizeof(text), "At %s %s.", shown(a, r->cut_at, cut, sizeof(cut)),
                     point.text);
            text_wrap(stdout, "  ", text);
        }
    if (r->is_spent)
        text_wrap(stdout, "  ", "The search ended before the gap was closed.");
    if (r->skipped) {
        snprintf(text, sizeof(text), "%" PRIu32 " value%s passed over, %s first: %s", r->skipped,
                 r->skipped == 1 ? " was" : "s were", shown(a, r->skipped_value, cut, sizeof(cut)),
                 r->skipped_text);
        text_wrap(stdout, "  ", text);
    }
}

static int print_page(const struct answer *a)
{
    print_answer(a);
    if (a->r.verdict == MEMPLAN_FITS && !print_sides(a)) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    if (a->r.verdict != MEMPLAN_CANNOT_TELL) {
        print_trend(a);
        print_limits(a);
    }
    return 0;
}

/* ---- what programs read -----------------------------------------------------------------------
 */

static json_t *point_json(const struct memplan_point *point)
{
    const struct memplan_summary *s = &point->summary;
    json_t *object = json_pack("{s:I, s:s}", "value", (json_int_t)point->value, "verdict",
                               memplan_verdict_name(s->verdict));

    if (point->text[0]) {
        json_object_set_new(object, "text", json_string(point->text));
        return object;
    }
    if (s->survival_probability >= 0)
        json_object_set_new(object, "survival_probability", json_real(s->survival_probability));
    json_object_set_new(object, "live_bytes", json_integer((json_int_t)s->live_bytes));
    json_object_set_new(object, "allocated_bytes", json_integer((json_int_t)s->allocated_bytes));
    json_object_set_new(object, "reserved_bytes", json_integer((json_int_t)s->reserved_bytes));
    if (s->needs_high_bytes)
        json_object_set_new(
            object, "needs_bytes",
            json_pack("[I, I]", (json_int_t)s->needs_low_bytes, (json_int_t)s->needs_high_bytes));
    json_object_set_new(object, "usable_bytes", json_integer((json_int_t)s->usable_bytes));
    return object;
}

static json_t *three(const int64_t *values)
{
    return json_pack("[I, I, I]", (json_int_t)values[0], (json_int_t)values[1],
                     (json_int_t)values[2]);
}

static json_t *answer_json(const struct answer *a)
{
    static const char *const trends[] = {[MEMPLAN_TREND_LEVEL] = "level",
                                         [MEMPLAN_TREND_RISES] = "rises",
                                         [MEMPLAN_TREND_FALLS] = "falls",
                                         [MEMPLAN_TREND_TURNS] = "turns"};
    const struct memplan_search_result *r = &a->r;
    struct memplan_point point = {.size = sizeof(point)};
    json_t *points = json_array(), *root;

    root = json_pack("{s:i, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:s, s:b, s:b}", "schema", 1, "find",
                     a->wants_least ? "min" : "max", "field", r->field.path, "verdict",
                     memplan_verdict_name(r->verdict), "code", (int)r->verdict, "from",
                     (json_int_t)r->from, "to", (json_int_t)r->to, "multiple_of",
                     (json_int_t)r->multiple_of, "allocated", trends[r->trend], "one_boundary",
                     !r->has_hole, "complete", !r->is_spent);
    if (r->verdict == MEMPLAN_FITS)
        json_object_set_new(root, "value", json_integer(r->value));
    if (r->has_beyond)
        json_object_set_new(root, "fails", json_integer(r->beyond));
    if (r->has_hole)
        json_object_set_new(root, "hole", three(r->hole));
    if (r->trend == MEMPLAN_TREND_TURNS)
        json_object_set_new(root, "turn", three(r->turn));
    if (r->is_cut)
        json_object_set_new(root, "nothing_tried_above", json_integer(r->cut_at));
    if (r->reason[0])
        json_object_set_new(root, "reason", json_string(r->reason));
    if (r->skipped)
        json_object_set_new(root, "skipped",
                            json_pack("{s:I, s:I, s:s}", "count", (json_int_t)r->skipped, "first",
                                      (json_int_t)r->skipped_value, "text", r->skipped_text));
    for (size_t i = 0; memplan_search_point(a->search, i, &point); i++)
        json_array_append_new(points, point_json(&point));
    json_object_set_new(root, "points", points);
    return root;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static int search(const struct settings *settings, const struct input *input, struct answer *a,
                  const struct memplan_search_options *options)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err = {0};
    int code;

    a->source = input->source;
    a->r.size = sizeof(a->r);
    if (run_load(settings, input, &plan, &err) || memplan_search(plan, options, &a->search, &err) ||
        memplan_search_describe(a->search, &a->r, &err))
        code = message_error(&err, input->source);
    else if (!(code = settings->json ? message_print_json(answer_json(a)) : print_page(a)))
        code = (int)a->r.verdict;
    memplan_search_free(a->search);
    memplan_plan_free(plan);
    return code;
}

static int run(const struct settings *settings, bool wants_least)
{
    struct answer a = {.wants_least = wants_least};
    struct memplan_search_options options;
    struct input input;
    int code;

    if ((code = read_options(settings, &a, &options)))
        return code;
    if (!settings->model)
        return message_invalid("no plan: give --model PLAN; see memplan list for presets");
    if ((code = run_read(settings, &input)))
        return code;
    code = search(settings, &input, &a, &options);
    input_free(&input);
    return code;
}

int cmd_max(const struct settings *settings)
{
    return run(settings, false);
}

int cmd_min(const struct settings *settings)
{
    return run(settings, true);
}
