/* SPDX-License-Identifier: MIT */
/* Messages of real runs: those that PyTorch 2.14.1 printed, with the true bytes, and those of
 * public trackers, with the figures that a person reads in them (data/README.md, "log"). */
#include <check.h>
#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorded.h"
#include "test.h"

#define MIB         1048576.0
#define MOST_EVENTS 16

/* All events of a text that is fed in pieces of step bytes. */
static size_t read_text(const char *text, size_t len, size_t step, struct memplan_log_event *events)
{
    struct memplan_log *log = NULL;
    struct memplan_log_event event = {.size = sizeof(event)};
    size_t count = 0;

    ck_assert_int_eq(memplan_log_new(&log, NULL), MEMPLAN_OK);
    for (size_t at = 0; at <= len; at += step) {
        size_t part = len - at < step ? len - at : step;

        ck_assert_int_eq(memplan_log_feed(log, text + at, part, NULL), MEMPLAN_OK);
        if (at + step > len)
            ck_assert_int_eq(memplan_log_end(log, NULL), MEMPLAN_OK);
        while (memplan_log_next(log, &event)) {
            ck_assert_uint_lt(count, MOST_EVENTS);
            events[count++] = event;
        }
    }
    memplan_log_free(log);
    return count;
}

/* ---- the true bytes ---------------------------------------------------------------------------
 */

static bool may_be(const struct memplan_log_size *size, json_int_t bytes)
{
    return size->known && (uint64_t)bytes >= size->low && (uint64_t)bytes <= size->high;
}

/* The segment that is asked for a request. */
static json_int_t segment(json_int_t request)
{
    if (request <= 1 << 20)
        return 2 << 20;
    if (request < 10 << 20)
        return 20 << 20;
    return (request + (2 << 20) - 1) / (2 << 20) * (2 << 20);
}

static void check_figures(const json_t *row, const struct memplan_log_event *event)
{
    const json_int_t request = recorded_whole(row, "request");
    const json_int_t allocated = recorded_whole(row, "allocated");
    const json_int_t pools =
        event->private_pools.known ? (json_int_t)event->private_pools.bytes : 0;
    struct memplan_log_finding finding;

    ck_assert(may_be(&event->requested, segment(request)));
    ck_assert(may_be(&event->total, recorded_whole(row, "total")));
    ck_assert(may_be(&event->free, recorded_whole(row, "free")));
    ck_assert(may_be(&event->allocated, allocated + pools));
    ck_assert(may_be(&event->unallocated, recorded_whole(row, "reserved") - allocated - pools));
    ck_assert(may_be(&event->reserved, recorded_whole(row, "reserved")));
    ck_assert_int_eq(event->gpu, 0);
    /* The lower bound is one: live tensors and the one that was asked for. */
    ck_assert(memplan_log_find(event, 0, &finding));
    ck_assert_str_eq(finding.name, "needs");
    ck_assert(finding.size.low <= (uint64_t)(allocated + (request + 511) / 512 * 512));
    ck_assert(finding.size.low + (3 << 20) + 2 * 5368710 >=
              (uint64_t)(allocated + (segment(request) == 20 << 20 ? 1 << 20 : request)));
}

static bool has_setting(const json_t *row, const char *word)
{
    char *settings = json_dumps(json_object_get(row, "settings"), 0);
    bool found = strstr(settings, word);

    free(settings);
    return found;
}

/* The text as a log has it: warnings, then the exception. Returns how many warnings there are. */
static size_t write_log(const json_t *row, char *text, size_t size)
{
    const json_t *warnings = json_object_get(row, "stderr");
    size_t used = 0;

    for (size_t i = 0; i < json_array_size(warnings); i++)
        used +=
            (size_t)snprintf(text + used, size - used, "[W1 1:2:3 CUDACachingAllocator.cpp:1] %s\n",
                             json_string_value(json_array_get(warnings, i)));
    snprintf(text + used, size - used, "Traceback (most recent call last):\n%s: %s\n",
             recorded_text(row, "type"), recorded_text(row, "message"));
    return json_array_size(warnings);
}

static void check_recorded(const json_t *row)
{
    static const struct {
        const char *recorded, *form;
    } forms[] = {
        {"rejected before the driver", "pytorch-rejected"},
        {"rejected, expandable", "pytorch-rejected"},
        {"no caching", "cuda-error"},
        {"driver pool backend", "pytorch-async"},
        {"above 1 EB", "pytorch-1eb"},
        {"fraction", "pytorch-2.5"},
        {"fraction by setting", "pytorch-2.5"},
        {"expandable and fraction", "pytorch-2.5"},
        {"private pool with a free block", "pytorch-2.4"},
    };
    struct memplan_log_event events[MOST_EVENTS];
    const char *recorded = recorded_text(row, "form"), *form = "pytorch-2.2";
    const struct memplan_log_event *last;
    char text[4096];
    size_t warnings = write_log(row, text, sizeof(text));
    size_t count = read_text(text, strlen(text), sizeof(text), events);

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        form = strcmp(forms[i].recorded, recorded) == 0 ? forms[i].form : form;
    ck_assert_uint_eq(count, warnings + 1);
    last = &events[count - 1];
    ck_assert_str_eq(last->form, form);
    ck_assert_uint_eq(last->cut, 0);
    ck_assert_uint_eq(last->line, warnings + 2);
    if (strncmp(form, "pytorch-2", 9) == 0) {
        check_figures(row, last);
        ck_assert_int_eq(last->expandable, has_setting(row, "expandable_segments:True"));
    }
    if (strncmp(form, "pytorch-2", 9) == 0 && warnings && !has_setting(row, "expandable")) {
        ck_assert_uint_eq(last->requested.low, (uint64_t)segment(recorded_whole(row, "request")));
        ck_assert_uint_eq(last->requested.high, last->requested.low);
        ck_assert_uint_eq(last->free.low, (uint64_t)recorded_whole(row, "free"));
        ck_assert_uint_eq(last->free.high, last->free.low);
    }
    if (warnings)
        ck_assert_uint_eq(last->total.low, (uint64_t)recorded_whole(row, "total"));
    if (strcmp(form, "pytorch-rejected") == 0)
        ck_assert(may_be(&last->requested, recorded_whole(row, "request")));
    if (strcmp(form, "pytorch-async") == 0) {
        ck_assert(may_be(&last->requested, recorded_whole(row, "request")));
        ck_assert(may_be(&last->total, recorded_whole(row, "total")));
        ck_assert(may_be(&last->free, recorded_whole(row, "free")));
        ck_assert(!last->allowed.known);
    }
}

START_TEST(figures_are_the_true_bytes_within_rounding)
{
    FILE *file = recorded_open("log-oom.jsonl");
    char line[8192];
    int rows = 0;

    for (; fgets(line, sizeof(line), file); rows++) {
        json_t *row = json_loads(line, 0, NULL);

        ck_assert(row != NULL);
        check_recorded(row);
        json_decref(row);
    }
    fclose(file);
    ck_assert_int_eq(rows, 22);
}
END_TEST

/* ---- public messages --------------------------------------------------------------------------
 */

#define AT(member) offsetof(struct memplan_log_event, member)

static const struct {
    const char *key;
    size_t offset;
} sizes[] = {
    {"requested", AT(requested)}, {"total", AT(total)},
    {"free", AT(free)},           {"allowed", AT(allowed)},
    {"allocated", AT(allocated)}, {"unallocated", AT(unallocated)},
    {"reserved", AT(reserved)},   {"private_pools", AT(private_pools)},
    {"in_use", AT(in_use)},
};

static const struct memplan_log_size *size_of(const struct memplan_log_event *event, size_t i)
{
    return (const struct memplan_log_size *)((const char *)event + sizes[i].offset);
}

/* What a person reads: the figure, and half of its last digit to both sides. */
static void check_size(const struct memplan_log_size *size, const char *printed, const char *text)
{
    char unit[8] = "";
    double value = 0, scale = 1, half;

    ck_assert_int_eq(sscanf(printed, "%lf %7s", &value, unit), 2);
    half = strchr(printed, '.') ? 0.005 : 0;
    scale = unit[0] == 'K' ? 1024 : unit[0] == 'M' ? MIB : unit[0] == 'G' ? 1024 * MIB : 1;
    ck_assert_msg(size->known, "%s not read: %s", printed, text);
    ck_assert_double_eq_tol((double)size->bytes, value * scale, 1);
    ck_assert_double_eq_tol((double)size->low, (value - half) * scale, 1);
    ck_assert_double_eq_tol((double)size->high, (value + half) * scale, 1);
}

static void check_sizes(const json_t *row, const struct memplan_log_event *event, const char *text)
{
    const json_t *processes = json_object_get(row, "processes");

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const char *printed = json_string_value(json_object_get(row, sizes[i].key));
        /* One of these two follows from the other. */
        const bool is_derived = strcmp(sizes[i].key, "reserved") == 0 ||
                                (strcmp(sizes[i].key, "unallocated") == 0 && event->reserved.known);

        if (printed)
            check_size(size_of(event, i), printed, text);
        else
            ck_assert_msg(is_derived || !size_of(event, i)->known, "%s is not in: %s", sizes[i].key,
                          text);
    }
    ck_assert_uint_eq(event->process_count, json_array_size(processes));
    for (uint32_t i = 0; i < event->process_count; i++) {
        check_size(&event->processes[i].in_use, json_string_value(json_array_get(processes, i)),
                   text);
        ck_assert_uint_eq(event->processes[i].number, i + 1);
    }
}

static void check_public(const json_t *row)
{
    const char *text = recorded_text(row, "text");
    const char *form = json_string_value(json_object_get(row, "form"));
    struct memplan_log_event events[MOST_EVENTS];
    size_t count = read_text(text, strlen(text), 4096, events);

    ck_assert_msg(count == (form ? 1 : 0), "%zu events in: %s", count, text);
    if (!form)
        return;
    ck_assert_msg(strcmp(events[0].form, form) == 0, "%s in: %s", events[0].form, text);
    ck_assert_int_eq(events[0].gpu, (int)recorded_whole(row, "gpu"));
    ck_assert_int_eq(events[0].rank, (int)recorded_whole(row, "rank"));
    ck_assert_int_eq(events[0].local_rank, (int)recorded_whole(row, "local_rank"));
    ck_assert_msg(events[0].cut == json_is_true(json_object_get(row, "cut")), "cut: %s", text);
    check_sizes(row, &events[0], text);
}

/* Runs a check on every row of the public messages. */
static int each_public(void (*check)(const json_t *row))
{
    FILE *file = recorded_open("log-messages.jsonl");
    char line[8192];
    int rows = 0;

    for (; fgets(line, sizeof(line), file); rows++) {
        json_t *row = json_loads(line, 0, NULL);

        ck_assert(row != NULL);
        check(row);
        json_decref(row);
    }
    fclose(file);
    return rows;
}

START_TEST(public_messages_are_read_as_a_person_reads_them)
{
    ck_assert_int_eq(each_public(check_public), 89);
}
END_TEST

static bool same_size(const struct memplan_log_size *a, const struct memplan_log_size *b)
{
    return a->bytes == b->bytes && a->low == b->low && a->high == b->high;
}

/* 1 for the first row of a form, a larger step for the rows that follow. */
static size_t step_of(const char *form)
{
    static const char *seen[40];
    static char names[40][32];

    for (size_t i = 0; i < 40; i++) {
        if (!seen[i]) {
            snprintf(names[i], sizeof(names[i]), "%s", form);
            seen[i] = names[i];
            return 1;
        }
        if (strcmp(seen[i], form) == 0)
            return 11;
    }
    return 11;
}

/* What is read of a text that ends early is part of what is read of the whole one. */
static void check_cut(const json_t *row)
{
    const char *form = json_string_value(json_object_get(row, "form"));
    const size_t step = step_of(form ? form : "none");
    const char *text = recorded_text(row, "text");
    const char *hint = strstr(text, " If reserved");
    const size_t len = hint ? (size_t)(hint - text) + 48 : strlen(text); /* all that is read */
    struct memplan_log_event whole[MOST_EVENTS], cut[MOST_EVENTS];
    const size_t count = read_text(text, strlen(text), 4096, whole);

    for (size_t end = 0; end < len; end += step) {
        const size_t found = read_text(text, end, 4096, cut);

        ck_assert_msg(found <= count, "%.*s", (int)end, text);
        if (!found)
            continue;
        ck_assert_uint_eq(cut[0].offset, whole[0].offset);
        ck_assert(cut[0].gpu == -1 || cut[0].gpu == whole[0].gpu);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            ck_assert_msg(!size_of(&cut[0], i)->known ||
                              same_size(size_of(&cut[0], i), size_of(&whole[0], i)),
                          "%s of %.*s", sizes[i].key, (int)end, text);
        for (uint32_t i = 0; i < cut[0].process_count; i++)
            ck_assert(same_size(&cut[0].processes[i].in_use, &whole[0].processes[i].in_use));
    }
}

START_TEST(a_text_cut_at_any_byte_gives_no_wrong_figure)
{
    each_public(check_cut);
}
END_TEST

static void check_pieces(const json_t *row)
{
    const char *text = recorded_text(row, "text");
    struct memplan_log_event whole[MOST_EVENTS], pieces[MOST_EVENTS];
    const size_t count = read_text(text, strlen(text), 4096, whole);

    for (size_t step = 1; step < 12; step += 5) {
        ck_assert_uint_eq(read_text(text, strlen(text), step, pieces), count);
        ck_assert(memcmp(whole, pieces, count * sizeof(whole[0])) == 0);
    }
}

START_TEST(pieces_of_any_size_give_the_same)
{
    each_public(check_pieces);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("log");

    tcase_add_test(tcase, figures_are_the_true_bytes_within_rounding);
    tcase_add_test(tcase, public_messages_are_read_as_a_person_reads_them);
    tcase_add_test(tcase, a_text_cut_at_any_byte_gives_no_wrong_figure);
    tcase_add_test(tcase, pieces_of_any_size_give_the_same);
    return test_run("log", tcase);
}
