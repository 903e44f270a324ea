/* SPDX-License-Identifier: MIT */
/* Logs as they are: prefixes, wraps, colours, junk, long lines, many gigabytes. */
#include <memplan.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "log/size.h"
#include "test.h"

#define MOST_EVENTS 16

static struct memplan_log_event events[MOST_EVENTS];

static size_t take(struct memplan_log *log, size_t count)
{
    struct memplan_log_event event = {.size = sizeof(event)};

    while (memplan_log_next(log, &event)) {
        ck_assert_uint_lt(count, MOST_EVENTS);
        events[count++] = event;
    }
    return count;
}

static size_t read_bytes(const void *bytes, size_t len)
{
    struct memplan_log *log = NULL;
    struct memplan_error err;
    size_t count;

    ck_assert_int_eq(memplan_log_new(&log, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, bytes, len, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_end(log, &err), MEMPLAN_OK);
    count = take(log, 0);
    memplan_log_free(log);
    return count;
}

static size_t read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

/* ---- sizes ------------------------------------------------------------------------------------
 */

static const struct {
    const char *text;
    bool known;
    uint64_t bytes, low, high;
} size_table[] = {
    {"0 bytes", true, 0, 0, 0},
    {"1024 bytes", true, 1024, 1024, 1024},
    {"1.50 KiB", true, 1536, 1531, 1541},          /* 1530.88 .. 1541.12 */
    {"2.00 MiB", true, 2097152, 2091910, 2102394}, /* +- 5242.88 */
    {"1.00 GiB", true, 1073741824, 1068373115, 1079110533},
    {"0.00 MiB", true, 0, 0, 5242},
    {"1.5 GiB", true, 1610612736, 1556925645, 1664299827},
    {"17179869184.00 GiB", false, 0, 0, 0}, /* 2^64: the driver does not know */
    {"99999999999999999999 bytes", false, 0, 0, 0},
    {"1.2345 GiB", false, 0, 0, 0},
    {"1.2.3 GiB", false, 0, 0, 0},
    {"5 GB", false, 0, 0, 0},
    {"5 ", false, 0, 0, 0},
    {"5", false, 0, 0, 0},
    {"", false, 0, 0, 0},
    {" GiB", false, 0, 0, 0},
};

START_TEST(sizes_know_their_rounding)
{
    struct memplan_log_size size =
        mpl_log_size_read(size_table[_i].text, strlen(size_table[_i].text));

    ck_assert_msg(!!size.known == size_table[_i].known, "%s", size_table[_i].text);
    ck_assert_uint_eq(size.bytes, size_table[_i].bytes);
    ck_assert_uint_eq(size.low, size_table[_i].low);
    ck_assert_uint_eq(size.high, size_table[_i].high);
}
END_TEST

/* ---- who wrote it, and in which line ----------------------------------------------------------
 */

#define OOM                                                                                        \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total "   \
    "capacity of 79.10 GiB of which 1.00 GiB is free."

static const struct {
    const char *text;
    int rank, local_rank;
    uint64_t line;
} prefix_table[] = {
    {OOM, -1, -1, 1},
    {"\n\n" OOM, -1, -1, 3},
    {"[rank3]: " OOM, 3, -1, 1},
    {"x\n[rank12]:" OOM "\n[rank13]: x\n", 12, -1, 2},
    {"[Rank 7] " OOM, 7, -1, 1},
    {"[RANK 0] " OOM, 0, -1, 1},
    {"[rank: 5] " OOM, 5, -1, 1},
    {"3: " OOM, 3, -1, 1},
    {"  3: " OOM, 3, -1, 1},
    {"1: [rank11]: " OOM, 11, -1, 1}, /* srun starts one torchrun a node */
    {"[default2]:" OOM, -1, 2, 1},
    {"[trainer0]: [rank8]: " OOM, 8, 0, 1},
    {"[1,4]<stderr>:" OOM, 4, -1, 1},
    {"[node-1.x:6]:" OOM, -1, 6, 1},
    {"(RayTrainWorker pid=1001, ip=10.0.0.1) " OOM, -1, -1, 1},
    {"(VllmWorker rank=3 pid=1001) ERROR 06-05 [a.py:1] " OOM, 3, -1, 1},
    {"2025-11-12T11:25:13.4961658Z [rank6]: " OOM, 6, -1, 1},
    {"2025-11-12T11:25:13.49Z stderr F 2: " OOM, 2, -1, 1},
    {"2025-11-12 11:25:13,496 [rank1]: " OOM, 1, -1, 1},
    {"\033[31m[rank3]: \033[0m" OOM, 3, -1, 1},
    {"[rank3]: x\n" OOM, -1, -1, 2}, /* a line without a prefix says nothing of its rank */
    {"\n 10%|#  | 3/30\r 13%|##  | 4/30\r[rank1]: " OOM, 1, -1, 2},
    {"99999999: " OOM, -1, -1, 1},
    {"12:" OOM, -1, -1, 1},
};

START_TEST(prefixes_tell_the_rank)
{
    ck_assert_uint_eq(read_text(prefix_table[_i].text), 1);
    ck_assert_int_eq(events[0].rank, prefix_table[_i].rank);
    ck_assert_int_eq(events[0].local_rank, prefix_table[_i].local_rank);
    ck_assert_uint_eq(events[0].line, prefix_table[_i].line);
    ck_assert_str_eq(events[0].form, "pytorch-2.2");
    ck_assert_int_eq(events[0].gpu, 1);
    ck_assert_uint_eq(events[0].free.bytes, 1 << 30);
    ck_assert_uint_eq(events[0].cut, 1);
}
END_TEST

/* ---- one message in many dresses --------------------------------------------------------------
 */

#define PARTS(gap, sep)                                                                            \
    "CUDA out of memory." gap "Tried to allocate 2.00 GiB." gap "GPU 1 has a total capacity of "   \
    "79.10 GiB of which" sep "1.00 GiB is free. Including non-PyTorch" sep "memory, this process " \
    "has 78.00" sep "GiB memory in use. Of the allocated memory 70.00 GiB is" sep "allocated by "  \
    "PyTorch, and 7.00 GiB is reserved by PyTorch but unallocated." sep                            \
    "If reserved but unallocated memory is large try"

static const char *const dress_table[] = {
    PARTS(" ", " "),
    PARTS("  ", "   "),
    PARTS(" ", "\n"),
    PARTS("\n", "\r\n    "),
    PARTS(" ", "\\n"), /* in a JSON string */
    "[rank1]: " PARTS(" ", "\n[rank1]: "),
    "1: " PARTS(" ", "\n1: "),
    "[rank1]: " PARTS(" ", "\n[rank0]:   File \"x.py\", line 1\n[rank1]: "),
    "[rank1]: " PARTS(" ", "\n[rank0]: y\n[rank2]: CUDA\n[rank1]: "),
    "\033[1;31m" PARTS(" ", "\033[0m \033[36m"),
    "\033]0;title\007" PARTS(" ", " \033]8;;http://x\033\\ "),
    PARTS(" ", "\302\240"),
    "\342\224\202 " PARTS(" ", " \342\224\202\n\342\224\202 "), /* a frame */
    "\377\376\200" PARTS(" ", " \377\n") "\300\200",
    "\"" PARTS(" ", " ") "\"",
};

START_TEST(dress_does_not_matter)
{
    const char *text = dress_table[_i];

    /* Bytes that are no text, in the middle of a sentence, cut it there: figures before it stand.
     */
    ck_assert_uint_eq(read_text(text), 1);
    ck_assert_uint_eq(events[0].requested.bytes, (uint64_t)2 << 30);
    if (strchr(text, '\377'))
        return;
    ck_assert_uint_eq(events[0].in_use.bytes, (uint64_t)78 << 30);
    ck_assert_uint_eq(events[0].allocated.bytes, (uint64_t)70 << 30);
    ck_assert_uint_eq(events[0].unallocated.bytes, (uint64_t)7 << 30);
    ck_assert_uint_eq(events[0].reserved.bytes, (uint64_t)77 << 30);
    ck_assert_int_eq(events[0].expandable, MEMPLAN_LOG_EXPANDABLE_UNKNOWN);
    ck_assert_uint_eq(events[0].cut, 0);
}
END_TEST

START_TEST(nul_bytes_are_dropped)
{
    static const char text[] =
        "\0\0x\n\0[rank2]: \0CUDA out of memory. Tried to al\0locate 2.00 MiB (GPU 0; "
        "8.00 GiB \0total capacity; 1.00 GiB already allocated; 0 bytes free; "
        "2.00 GiB reserved in total by PyTorch)\0";

    ck_assert_uint_eq(read_bytes(text, sizeof(text)), 1);
    ck_assert_str_eq(events[0].form, "pytorch-1.4");
    ck_assert_int_eq(events[0].rank, 2);
    ck_assert_uint_eq(events[0].line, 2);
    ck_assert_uint_eq(events[0].unallocated.bytes, (uint64_t)1 << 30);
}
END_TEST

START_TEST(messages_of_ranks_that_write_into_each_other)
{
    ck_assert_uint_eq(read_text("[rank0]: CUDA out of memory. Tried to allocate\n"
                                "[rank1]: CUDA out of memory. Tried to allocate\n"
                                "[rank0]: 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB\n"
                                "[rank1]: 2.00 GiB. GPU 1 has a total capacity of 8.00 GiB\n"),
                      2);
    ck_assert_int_eq(events[0].rank, 0);
    ck_assert_int_eq(events[0].gpu, 0);
    ck_assert_uint_eq(events[0].requested.bytes, (uint64_t)1 << 30);
    ck_assert_int_eq(events[1].rank, 1);
    ck_assert_int_eq(events[1].gpu, 1);
    ck_assert_uint_eq(events[1].line, 2);
    ck_assert_uint_eq(events[1].requested.bytes, (uint64_t)2 << 30);
}
END_TEST

static const char *const junk_table[] = {
    "",
    "\n",
    "out of memory",
    "If you run out of memory, reduce the batch. CUDA out of memory is explained below.",
    "except torch.cuda.OutOfMemoryError: retry()",
    "Tried to allocate",
    "Tried to allocate a lot",
    "(GPU 0; total capacity; already allocated; free; reserved in total by PyTorch)",
    "has a total capacity of 8.00 GiB of which 1.00 GiB is free.",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 49807360 bytes.",
    "E tensorflow: failed to alloc 1 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "Out of memory: Killed process 1001 (python) total-vm:1kB",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "\033[\033[\033[\033]\033",
};

START_TEST(junk_is_no_message)
{
    ck_assert_uint_eq(read_text(junk_table[_i]), 0);
}
END_TEST

/* ---- large logs -------------------------------------------------------------------------------
 */

#define BLOCK ((size_t)1 << 20)

static char block[BLOCK];

/* What the library keeps does not grow, and lines are counted, whatever lies between messages. */
static void feed_much(size_t blocks, const char *expected_form)
{
    struct memplan_log *log = NULL;
    struct rusage before, after;
    size_t count = 0;

    ck_assert_int_eq(memplan_log_new(&log, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, block, BLOCK, NULL), MEMPLAN_OK);
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 1; i < blocks; i++)
        ck_assert_int_eq(memplan_log_feed(log, block, BLOCK, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, "\n[rank9]: " OOM, strlen("\n[rank9]: " OOM), NULL),
                     MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_end(log, NULL), MEMPLAN_OK);
    getrusage(RUSAGE_SELF, &after);
    count = take(log, 0);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(events[0].form, expected_form);
    ck_assert_int_eq(events[0].rank, 9);
    ck_assert_uint_eq(events[0].offset,
                      blocks * BLOCK + strlen("\n[rank9]: torch.OutOfMemoryError: "));
    ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 4096); /* KiB */
    memplan_log_free(log);
}

START_TEST(memory_does_not_grow_with_the_log)
{
    static const char line[] = "step 100/1000: loss 1.2345, lr 0.0001, 1.23 s/it, mem 70.12 GiB\n";

    for (size_t i = 0; i < BLOCK; i++)
        block[i] = line[i % (sizeof(line) - 1)];
    feed_much(200, "pytorch-2.2");
}
END_TEST

START_TEST(one_endless_line)
{
    memset(block, 'x', BLOCK);
    feed_much(200, "pytorch-2.2");
    ck_assert_uint_eq(events[0].line, 2);
}
END_TEST

/* Every word says that a message may be near, none is. */
START_TEST(hostile_text_costs_no_more_than_its_length)
{
    static const char word[] = "Tried to allocate 1.00 GiB (GPU 1; out of memory out of memory ";

    for (size_t i = 0; i < BLOCK; i++)
        block[i] = word[i % (sizeof(word) - 1)];
    feed_much(2, "pytorch-2.2");
}
END_TEST

START_TEST(a_message_in_a_long_line)
{
    const char *text = OOM;

    memset(block, ' ', BLOCK);
    for (size_t at = BLOCK / 2 - 70000; at < BLOCK / 2; at += 4999) {
        memcpy(block + at, text, strlen(text));
        ck_assert_uint_eq(read_bytes(block, BLOCK), 1);
        ck_assert_uint_eq(events[0].offset, at + strlen("torch.OutOfMemoryError: "));
        ck_assert_uint_eq(events[0].free.bytes, 1 << 30);
        memset(block + at, ' ', strlen(text));
    }
}
END_TEST

/* As many messages as fit: each is found once. */
START_TEST(a_log_of_nothing_else)
{
    static const char text[] = "[rank1]: CUDA out of memory. Tried to allocate 2.00 MiB.\n";
    struct memplan_log_event event = {.size = sizeof(event)};
    struct memplan_log *log = NULL;
    uint64_t expected = 0, line = 0;

    ck_assert_int_eq(memplan_log_new(&log, NULL), MEMPLAN_OK);
    for (int i = 0; i < 3000; i++) {
        ck_assert_int_eq(memplan_log_feed(log, text, strlen(text), NULL), MEMPLAN_OK);
        if (i == 2999)
            ck_assert_int_eq(memplan_log_end(log, NULL), MEMPLAN_OK);
        while (memplan_log_next(log, &event)) {
            ck_assert_uint_eq(event.line, ++line);
            ck_assert_uint_eq(event.offset, expected + strlen("[rank1]: "));
            expected += strlen(text);
        }
    }
    ck_assert_uint_eq(line, 3000);
    memplan_log_free(log);
}
END_TEST

/* ---- warnings ---------------------------------------------------------------------------------
 */

#define WARNING(bytes, free)                                                                       \
    "memory allocation failed with OOM on device 1 while trying to allocate " bytes                \
    " bytes (free: " free ", total: 84930000000).\n"

START_TEST(exact_figures_come_from_warnings)
{
    ck_assert_uint_eq(read_text(WARNING("2147483648", "1073741000") OOM), 2);
    ck_assert_int_eq(events[0].kind, MEMPLAN_LOG_WARNING);
    ck_assert_uint_eq(events[1].requested.low, 2147483648);
    ck_assert_uint_eq(events[1].requested.high, 2147483648);
    ck_assert_uint_eq(events[1].total.high, 84930000000);
    ck_assert_uint_eq(events[1].free.low, 1073741000);
    /* A launcher's prefix on one of them: what others may have changed is left as printed. */
    ck_assert_uint_eq(read_text(WARNING("2147483648", "1073741000") "[rank1]: " OOM), 2);
    ck_assert_uint_eq(events[1].requested.low, 2147483648);
    ck_assert_uint_lt(events[1].free.low, events[1].free.high);
    /* Two that disagree, or one of another request: neither is taken. */
    ck_assert_uint_eq(read_text(WARNING("2147483648", "1") WARNING("2149580800", "1") OOM), 3);
    ck_assert_uint_lt(events[2].requested.low, events[2].requested.high);
    ck_assert_uint_eq(read_text(WARNING("20971520", "1") OOM), 2);
    ck_assert_uint_lt(events[1].total.low, events[1].total.high);
}
END_TEST

/* ---- what follows -----------------------------------------------------------------------------
 */

#define FULL(requested, free, own, allocated, unallocated)                                         \
    "CUDA out of memory. Tried to allocate " requested                                             \
    ". GPU 0 has a total capacity of 79.10 GiB "                                                   \
    "of which " free " is free. " own "Of the allocated memory " allocated                         \
    " is allocated by PyTorch, and " unallocated " is reserved by PyTorch but unallocated."
#define OWN "Including non-PyTorch memory, this process has 78.00 GiB memory in use. "

static const struct {
    const char *text, *name;
    uint64_t low, high; /* 0: not compared */
} finding_table[] = {
    /* 70 - 0.005 GiB held, and more than 2 - 0.005 GiB - 2 MiB */
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB", "7.00 GiB"), "needs", 77296577270, UINT64_MAX},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB", "7.00 GiB"), "fragmentation", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "76.00 GiB", "1.50 GiB"), "fragmentation", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "76.90 GiB", "100.00 MiB"), "shortage", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "76.00 GiB", "1.00 GiB"), "undecided", 0, 0},
    {FULL("2.00 MiB", "5.00 GiB", OWN, "70.00 GiB", "3.00 GiB"), "room", 0, 0},
    {FULL("2.00 GiB", "40.00 GiB", OWN "40.00 GiB allowed; ", "38.00 GiB", "1.00 GiB"), "limit", 0,
     0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB", "7.00 GiB"), "outside", 1057635697, 1089847951},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB", "7.00 GiB"), "alone", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", "Process 7 has 20.00 GiB memory in use. " OWN, "5.00 GiB",
          "1.00 GiB"),
     "others", 21469467771, 21480205189},
    /* In a container this may be the process itself. */
    {FULL("2.00 GiB", "1.00 GiB", "Process 7 has 78.00 GiB memory in use. ", "70.00 GiB",
          "7.00 GiB"),
     "!others", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", "Process 7 has 20.00 GiB memory in use. ", "50.00 GiB",
          "7.00 GiB"),
     "others", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB", "7.00 GiB"), "expandable_segments", 0, 0},
    {FULL("2.00 GiB", "1.00 GiB", OWN, "70.00 GiB",
          "7.00 GiB") " If reserved but unallocated memory "
                      "is large try setting x",
     "!expandable_segments", 0, 0},
    {"[rank3]: RuntimeError: CUDA error: out of memory", "outside_allocator", 0, 0},
    {"[rank3]: RuntimeError: CUDA error: out of memory", "rank", 0, 0},
    {WARNING("2147483648", "1"), "retried", 2147483648, 2147483648},
    {WARNING("2147483648", "1"), "!rank", 0, 0},
};

START_TEST(findings_follow)
{
    const char *name = finding_table[_i].name;
    struct memplan_log_finding finding;
    bool found = false;

    ck_assert_uint_eq(read_text(finding_table[_i].text), 1);
    for (size_t i = 0; memplan_log_find(&events[0], i, &finding); i++) {
        ck_assert(finding.text[0] && strlen(finding.text) + 1 < sizeof(finding.text));
        if (strcmp(finding.name, name + (*name == '!')) != 0)
            continue;
        found = true;
        if (!finding_table[_i].high)
            continue;
        ck_assert_uint_eq(finding.size.low, finding_table[_i].low);
        ck_assert_uint_eq(finding.size.high, finding_table[_i].high);
    }
    ck_assert_msg(found == (*name != '!'), "%s", name);
}
END_TEST

/* ---- the interface ----------------------------------------------------------------------------
 */

START_TEST(wrong_calls_are_refused)
{
    struct memplan_log *log = NULL;
    struct memplan_log_event event = {.size = sizeof(event)};
    struct memplan_log_finding finding;
    struct memplan_error err;

    ck_assert_int_eq(memplan_log_new(NULL, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_log_feed(NULL, "", 0, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_log_end(NULL, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_log_next(NULL, &event), 0);
    ck_assert_int_eq(memplan_log_find(NULL, 0, &finding), 0);
    memplan_log_free(NULL);
    ck_assert_int_eq(memplan_log_new(&log, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, NULL, 1, &err), MEMPLAN_ERR_ARG);
    ck_assert_int_eq(memplan_log_feed(log, NULL, 0, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_end(log, &err), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, "x", 1, &err), MEMPLAN_ERR_ARG);
    ck_assert_str_ne(err.text, "");
    memplan_log_free(log);
    ck_assert_str_eq(memplan_log_kind_name(MEMPLAN_LOG_NCCL), "nccl");
    ck_assert_str_eq(memplan_log_kind_name((enum memplan_log_kind)99), "unknown");
}
END_TEST

/* A caller with an older header gets as much as it knows. */
START_TEST(an_event_of_another_size)
{
    struct {
        struct memplan_log_event event;
        char more[64];
    } larger = {.event.size = sizeof(larger)};
    struct memplan_log_event event = {.size = offsetof(struct memplan_log_event, kind), .rank = 77};
    struct memplan_log *log = NULL;

    memset(larger.more, 'x', sizeof(larger.more));
    ck_assert_int_eq(memplan_log_new(&log, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_feed(log, OOM "\n" OOM, 2 * strlen(OOM) + 1, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_end(log, NULL), MEMPLAN_OK);
    ck_assert_int_eq(memplan_log_next(log, &event), 1);
    ck_assert_uint_eq(event.line, 1);
    ck_assert_int_eq(event.rank, 77);
    ck_assert_int_eq(memplan_log_next(log, &larger.event), 1);
    ck_assert_uint_eq(larger.event.size, sizeof(larger.event));
    ck_assert_int_eq(larger.more[0], 0);
    ck_assert_int_eq(memplan_log_next(log, &event), 0);
    memplan_log_free(log);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("log_text");

    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, sizes_know_their_rounding, 0, ROWS(size_table));
    tcase_add_loop_test(tcase, prefixes_tell_the_rank, 0, ROWS(prefix_table));
    tcase_add_loop_test(tcase, dress_does_not_matter, 0, ROWS(dress_table));
    tcase_add_test(tcase, nul_bytes_are_dropped);
    tcase_add_test(tcase, messages_of_ranks_that_write_into_each_other);
    tcase_add_loop_test(tcase, junk_is_no_message, 0, ROWS(junk_table));
    tcase_add_test(tcase, memory_does_not_grow_with_the_log);
    tcase_add_test(tcase, one_endless_line);
    tcase_add_test(tcase, hostile_text_costs_no_more_than_its_length);
    tcase_add_test(tcase, a_message_in_a_long_line);
    tcase_add_test(tcase, a_log_of_nothing_else);
    tcase_add_test(tcase, exact_figures_come_from_warnings);
    tcase_add_loop_test(tcase, findings_follow, 0, ROWS(finding_table));
    tcase_add_test(tcase, wrong_calls_are_refused);
    tcase_add_test(tcase, an_event_of_another_size);
    return test_run("log_text", tcase);
}
