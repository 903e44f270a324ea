/* SPDX-License-Identifier: MIT */
/* The allocator against recorded answers of PyTorch's own: every counter, every failure, every
 * change of reserved bytes. The data's form is described in data/README.md, "allocator". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "recorded.h"
#include "replay/allocator.h"
#include "test.h"

#define COUNTERS 15

struct case_run {
    char name[128];
    unsigned line;
    uint64_t total_bytes, context_bytes;
    double fraction; /* 0: not set */
    bool is_lazy;
    struct mpl_allocator allocator;
    MPL_VEC(uint32_t) held; /* block of each request of the case, in order */
    uint64_t last_reserved; /* after the event before this one */
    bool is_started, has_failed, failure_is_expected, change_is_expected;
    unsigned cases, marks, failures;
};

/* What follows an event has been read: nothing else may have happened. */
static void close_event(struct case_run *r)
{
    uint64_t reserved = r->allocator.now.reserved;

    ck_assert_msg(r->has_failed == r->failure_is_expected, "%s, before line %u: request %s",
                  r->name, r->line, r->has_failed ? "failed" : "did not fail");
    ck_assert_msg((reserved != r->last_reserved) == r->change_is_expected,
                  "%s, before line %u: reserved %" PRIu64 ", was %" PRIu64, r->name, r->line,
                  reserved, r->last_reserved);
    r->last_reserved = reserved;
    r->has_failed = r->failure_is_expected = r->change_is_expected = false;
}

static void start_case(struct case_run *r)
{
    if (r->is_started)
        return;
    mpl_allocator_reset(&r->allocator, r->total_bytes - r->context_bytes, r->total_bytes);
    if (r->fraction > 0)
        mpl_allocator_set_fraction(&r->allocator, r->fraction, r->total_bytes);
    r->allocator.is_lazy = r->is_lazy;
    r->held.len = 0;
    r->last_reserved = 0;
    r->is_started = true;
}

static void request(struct case_run *r, const char *args)
{
    uint64_t bytes = 0;
    unsigned stream = 0;
    uint32_t block;

    ck_assert_int_ge(sscanf(args, "%" SCNu64 " %u", &bytes, &stream), 1);
    block = mpl_allocator_request(&r->allocator, bytes, stream);
    ck_assert(!r->allocator.is_out_of_memory);
    ck_assert_int_eq(mpl_vec_reserve(&r->held), 0);
    r->held.data[r->held.len++] = block;
    r->has_failed = !block;
    r->failures += !block;
}

static void release(struct case_run *r, const char *args)
{
    size_t back = strtoul(args, NULL, 10);
    uint32_t *block;

    if (!back)
        return; /* an id that never was */
    ck_assert_uint_le(back, r->held.len);
    block = &r->held.data[r->held.len - back];
    if (*block)
        mpl_allocator_release(&r->allocator, *block);
    *block = 0;
}

static void record_stream(struct case_run *r, const char *args)
{
    size_t back = 0;
    unsigned stream = 0;

    ck_assert_int_eq(sscanf(args, "%zu %u", &back, &stream), 2);
    ck_assert_uint_le(back, r->held.len);
    if (back && r->held.data[r->held.len - back])
        mpl_allocator_record_stream(&r->allocator, r->held.data[r->held.len - back], stream);
}

static void compare(const struct case_run *r, const char *args)
{
    static const char *const names[COUNTERS] = {
        "allocated",      "reserved",      "active",       "requested",   "inactive_split",
        "peak_allocated", "peak_reserved", "peak_active",  "blocks",      "segments",
        "retries",        "ooms",          "device_alloc", "device_free", "syncs"};
    const struct mpl_counters *now = &r->allocator.now;
    const uint64_t values[COUNTERS] = {now->allocated,     now->reserved,       now->active,
                                       now->requested,     now->inactive_split, now->peak_allocated,
                                       now->peak_reserved, now->peak_active,    now->blocks,
                                       now->segments,      now->retries,        now->ooms,
                                       now->device_allocs, now->device_frees,   now->syncs};
    char *at = (char *)(uintptr_t)args;

    for (int i = 0; i < COUNTERS; i++) {
        uint64_t expected = strtoull(at, &at, 10);

        ck_assert_msg(values[i] == expected, "%s, line %u: %s is %" PRIu64 ", expected %" PRIu64,
                      r->name, r->line, names[i], values[i], expected);
    }
    ck_assert_msg(mpl_allocator_check(&r->allocator), "%s, line %u: books disagree", r->name,
                  r->line);
    if (*at == ' ')
        ck_assert_uint_eq(r->allocator.budget_bytes - r->allocator.used_bytes,
                          strtoull(at, NULL, 10));
}

static void expect(struct case_run *r, const char *args)
{
    if (!strncmp(args, "oom", 3)) {
        r->failure_is_expected = true;
    } else if (!strncmp(args, "reserved ", 9)) {
        r->change_is_expected = true;
        ck_assert_msg(r->allocator.now.reserved == strtoull(args + 9, NULL, 10) * MPL_MIB,
                      "%s, line %u: reserved is %" PRIu64 ", expected %s", r->name, r->line,
                      r->allocator.now.reserved, args + 9);
    } else if (!strncmp(args, "mark ", 5)) {
        compare(r, args + 5);
        r->marks++;
    } else {
        ck_assert(!strncmp(args, "end ", 4));
        close_event(r);
        compare(r, args + 4);
        r->cases++;
    }
}

static void header(struct case_run *r, const char *line)
{
    struct memplan_error err = {0};

    if (!strncmp(line, "case ", 5)) {
        snprintf(r->name, sizeof(r->name), "%.100s", line + 5);
        r->is_started = r->is_lazy = false;
        r->fraction = 0;
        r->allocator.conf = (struct mpl_alloc_conf){0};
    } else if (!strncmp(line, "card ", 5)) {
        ck_assert_int_eq(
            sscanf(line + 5, "%" SCNu64 " %" SCNu64, &r->total_bytes, &r->context_bytes), 2);
        r->total_bytes *= MPL_MIB;
        r->context_bytes *= MPL_MIB;
    } else if (!strncmp(line, "conf ", 5)) {
        ck_assert_msg(!mpl_alloc_conf_parse(line + 5, (struct mpl_alloc_release){0},
                                            &r->allocator.conf, &err),
                      "%s", err.text);
    } else if (!strncmp(line, "fraction ", 9)) {
        r->fraction = strtod(line + 9, NULL);
    } else {
        ck_assert(!strcmp(line, "gpu lazy"));
        r->is_lazy = true;
    }
}

static void event(struct case_run *r, const char *line)
{
    start_case(r);
    close_event(r);
    switch (line[0]) {
    case 'a':
        request(r, line + 1);
        break;
    case 'f':
        release(r, line + 1);
        break;
    case 'e':
        mpl_allocator_empty_cache(&r->allocator);
        break;
    case 'z':
        mpl_allocator_reset_peaks(&r->allocator);
        break;
    case 'r':
        record_stream(r, line + 1);
        break;
    case 's':
        mpl_allocator_wait(&r->allocator);
        break;
    case 'y':
        mpl_allocator_wait_stream(&r->allocator, (uint32_t)strtoul(line + 1, NULL, 10));
        break;
    case 'p':
        ck_assert(mpl_allocator_enter_pool(&r->allocator, (uint32_t)strtoul(line + 1, NULL, 10)));
        break;
    case 'q':
        ck_assert(mpl_allocator_enter_pool(&r->allocator, 0));
        break;
    default: /* a mark */
        ck_assert(line[0] == 'm');
    }
}

static void run_file(struct case_run *r, const char *name)
{
    FILE *file = recorded_open(name);
    char line[512];

    while (fgets(line, sizeof(line), file)) {
        r->line++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '=')
            expect(r, line + 2);
        else if (line[0] && line[1] && line[1] != ' ')
            header(r, line);
        else
            event(r, line);
    }
    fclose(file);
    mpl_allocator_free(&r->allocator);
    mpl_vec_free(&r->held);
}

static const struct {
    const char *file;
    unsigned cases, marks, failures;
} file_table[] = {
    {"allocator-default.txt", 44, 326, 169},
    {"allocator-expandable.txt", 22, 247, 56},
    /* Every other setting, alone and together, and fractions of the card. */
    {"allocator-settings.txt", 238, 2119, 2720},
    /* Several streams, record_stream, private pools, a card that is behind; in all settings. */
    {"allocator-streams.txt", 84, 638, 749},
};

START_TEST(as_pytorch_answered)
{
    struct case_run r = {0};

    run_file(&r, file_table[_i].file);
    ck_assert_uint_eq(r.cases, file_table[_i].cases);
    ck_assert_uint_eq(r.marks, file_table[_i].marks);
    ck_assert_uint_eq(r.failures, file_table[_i].failures);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("recorded");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, as_pytorch_answered, 0, ROWS(file_table));
    return test_run("allocator", tcase);
}
