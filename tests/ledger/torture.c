/* SPDX-License-Identifier: MIT */
/* The ledger under many writers that are killed in the middle: no record that was acknowledged is
 * lost, none is read in half, none twice. Also full disks, torn tails and a reader beside writers.
 * Prints TAP. usage: torture [RECORDS [PROCESSES]] */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../cli/ledger.h"

#define MOST_PROCESSES 64

static int tests, failures;

static void check(bool good, const char *name)
{
    tests++;
    failures += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", tests, name);
    fflush(stdout);
}

/* A record that says what it must hold: filler of a length and a letter that follow from its
 * number. Some are larger than a page and than a pipe's buffer. */
static size_t filler_of(long number, char *letter)
{
    *letter = (char)('a' + number % 26);
    return number % 97 == 0 ? 70000 : (size_t)(number * 7919 % 1500);
}

static json_t *make(long number)
{
    char letter, *filler;
    size_t len = filler_of(number, &letter);
    json_t *record;

    filler = malloc(len + 1);
    memset(filler, letter, len);
    filler[len] = '\0';
    record = json_pack("{s:I, s:s}", "number", (json_int_t)number, "filler", filler);
    free(filler);
    return record;
}

static bool is_whole(const json_t *record)
{
    const json_t *filler = json_object_get(record, "filler");
    const char *text = json_string_value(filler);
    char letter;
    const size_t len =
        filler_of((long)json_integer_value(json_object_get(record, "number")), &letter);

    if (!text || json_string_length(filler) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] != letter)
            return false;
    return true;
}

/* Appends numbers from, from + stride, ...; each is acknowledged through a pipe once it is there.
 */
static _Noreturn void write_records(const char *path, int acknowledge, long from, long stride,
                                    long end)
{
    for (long number = from; number < end; number += stride) {
        json_t *record = make(number);

        if (ledger_append(path, record, NULL))
            _exit(1);
        json_decref(record);
        if (write(acknowledge, &number, sizeof(number)) != sizeof(number))
            _exit(1);
    }
    _exit(0);
}

/* ---- what is read -----------------------------------------------------------------------------
 */

struct tally {
    unsigned char *seen;
    long count, halves, twice, strangers;
};

static int tally_one(void *data, const json_t *record, const char **reason_out)
{
    struct tally *tally = data;
    const long number = (long)json_integer_value(json_object_get(record, "number"));

    (void)reason_out;
    if (number < 0 || number >= tally->count) {
        tally->strangers++;
        return 0;
    }
    tally->halves += !is_whole(record);
    tally->twice += tally->seen[number]++ > 0;
    return 0;
}

static struct tally read_all(const char *path, long count, size_t *losses_out)
{
    struct tally tally = {.seen = calloc(1, (size_t)count), .count = count};
    struct ledger_query query = {.visit = tally_one, .data = &tally};

    if (ledger_read(path, &query))
        tally.strangers++;
    *losses_out = query.losses.count;
    ledger_losses_free(&query.losses);
    return tally;
}

/* ---- writers and their killer -----------------------------------------------------------------
 */

struct writer {
    pid_t pid;
    long next; /* first number that was not acknowledged */
    int fd;
};

struct torture {
    const char *path;
    struct writer writers[MOST_PROCESSES];
    int processes;
    long count, kills, promised;
    unsigned char *acknowledged;
};

static void start(struct torture *t, struct writer *writer)
{
    int fds[2];

    if (pipe(fds))
        abort();
    writer->pid = fork();
    if (writer->pid == 0) {
        close(fds[0]);
        write_records(t->path, fds[1], writer->next, t->processes, t->count);
    }
    close(fds[1]);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    writer->fd = fds[0];
}

static void take_acknowledged(struct torture *t, struct writer *writer)
{
    long number;

    while (read(writer->fd, &number, sizeof(number)) == sizeof(number)) {
        t->acknowledged[number] = 1;
        t->promised++;
        writer->next = number + t->processes;
    }
}

/* A writer that ended, by itself or by a signal. The one after it goes on behind the last number
 * that was under way: whether that one is there, nobody promised. Returns 1 when it is done. */
static int finish(struct torture *t, struct writer *writer, int status)
{
    take_acknowledged(t, writer);
    close(writer->fd);
    writer->pid = 0;
    if (WIFSIGNALED(status))
        writer->next += t->processes;
    else if (WEXITSTATUS(status) != 0)
        return -1;
    if (writer->next >= t->count)
        return 1;
    start(t, writer);
    return 0;
}

static bool run(struct torture *t)
{
    const struct timespec pause = {0, 1000000};
    int left = t->processes;
    long next_kill = 10;
    bool good = true;

    for (int i = 0; i < t->processes; i++) {
        t->writers[i].next = i;
        start(t, &t->writers[i]);
    }
    while (left > 0) {
        struct writer *victim = &t->writers[rand() % t->processes];

        nanosleep(&pause, NULL);
        /* By progress, not by time: a slow disk must not mean nothing but kills. */
        if (victim->pid && t->promised >= next_kill) {
            kill(victim->pid, SIGKILL);
            t->kills++;
            next_kill = t->promised + 10 + rand() % 30;
        }
        for (int i = 0; i < t->processes; i++) {
            struct writer *writer = &t->writers[i];
            int status, done;

            if (!writer->pid)
                continue;
            take_acknowledged(t, writer);
            if (waitpid(writer->pid, &status, WNOHANG) == 0)
                continue;
            done = finish(t, writer, status);
            left -= done != 0;
            good = good && done >= 0;
        }
    }
    return good;
}

static void torture(const char *path, long count, int processes, const char *name)
{
    struct torture t = {.path = path, .count = count, .processes = processes};
    struct tally tally;
    size_t losses;
    long lost = 0;
    char text[256];
    bool good;

    t.acknowledged = calloc(1, (size_t)count);
    good = run(&t);
    tally = read_all(path, count, &losses);
    for (long i = 0; i < count; i++)
        lost += t.acknowledged[i] && !tally.seen[i];
    snprintf(text, sizeof(text), "%s: %d writers, %ld records acknowledged, %ld kills, %zu torn",
             name, processes, t.promised, t.kills, losses);
    check(good && t.promised > count / 2, text);
    check(lost == 0, "no record that was acknowledged is lost");
    check(tally.halves == 0 && tally.strangers == 0, "none is read in half");
    check(tally.twice == 0, "none is read twice");
    check(losses <= (size_t)t.kills, "no more torn lines than kills");
    free(tally.seen);
    free(t.acknowledged);
}

/* ---- other troubles ---------------------------------------------------------------------------
 */

static off_t size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) ? -1 : info.st_size;
}

/* A file that may not grow any more stands for a full disk: part of a record fits. */
static void fill_up(const char *path)
{
    json_t *large = make(97); /* 70,000 bytes */
    off_t before;
    size_t losses;
    struct tally tally;
    pid_t pid;
    int status;

    check(ledger_append(path, large, NULL) == 0, "a record before the disk is full");
    before = size_of(path);
    pid = fork();
    if (pid == 0) {
        const struct rlimit limit = {(rlim_t)before + 30000, (rlim_t)before + 30000};

        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(ledger_append(path, large, NULL));
    }
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 1, "a full disk is an error, not the end");
    check(size_of(path) == before, "nothing half-written stays");
    check(ledger_append(path, large, NULL) == 0, "with room again, the next one is written");
    tally = read_all(path, 1000, &losses);
    check(tally.seen[97] == 2 && tally.halves == 0 && losses == 0, "both are read");
    free(tally.seen);
    json_decref(large);
}

/* A writer may die, or a disk fill up, at any byte. */
static void truncate_everywhere(const char *path)
{
    json_t *one = make(1), *two = make(2);
    size_t losses;
    bool good = true;
    off_t whole;

    unlink(path);
    ledger_append(path, one, NULL);
    whole = size_of(path);
    /* The last line is cut at every length; the next record must be whole whatever is left. */
    for (off_t len = 0; len <= whole; len += len < 40 || len > whole - 40 ? 1 : 37) {
        struct tally tally;

        unlink(path);
        ledger_append(path, one, NULL);
        good = good && truncate(path, len) == 0 && ledger_append(path, two, NULL) == 0;
        tally = read_all(path, 10, &losses);
        good = good && tally.seen[2] == 1 && tally.halves == 0 && tally.strangers == 0;
        good = good && tally.seen[1] == (len >= whole - 1) && losses == (len && len < whole - 1);
        free(tally.seen);
    }
    check(good, "a line that is cut anywhere is skipped, and what follows is whole");
    json_decref(one);
    json_decref(two);
}

/* Whoever reads beside a writer sees whole records, and at most one torn one, at the end. */
static void read_beside(const char *path)
{
    long most = 0, seen = 0;
    bool good = true;
    int fds[2], status;
    pid_t pid;

    unlink(path);
    if (pipe(fds))
        abort();
    pid = fork();
    if (pid == 0)
        write_records(path, fds[1], 0, 1, 400);
    close(fds[1]);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        size_t losses;
        struct tally tally = read_all(path, 400, &losses);

        for (seen = 0; seen < 400 && tally.seen[seen]; seen++)
            continue;
        good = good && losses <= 1 && tally.halves == 0 && seen >= most;
        most = seen;
        free(tally.seen);
    }
    close(fds[0]);
    check(good && WEXITSTATUS(status) == 0, "a reader beside a writer sees what is whole");
}

/* The frame as docs/ledger.md has it; zlib.crc32(b'{"a":1}') in Python. */
static void check_line(void)
{
    json_t *record = json_pack("{s:i}", "a", 1);
    size_t len = 0;
    char *line = ledger_line_write(record, &len);

    check(line && strcmp(line, "{\"crc32\":\"561bacaf\",\"record\":{\"a\":1}}\n") == 0,
          "a line has the checksum that others compute");
    free(line);
    json_decref(record);
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
    (void)info;
    (void)flag;
    (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    const long count = argc > 1 ? atol(argv[1]) : 10000;
    const int processes = argc > 2 ? atoi(argv[2]) : 8;
    char folder[] = "/tmp/memplan-ledger-XXXXXX", path[128];

    if (count < 100 || processes < 1 || processes > MOST_PROCESSES || !mkdtemp(folder))
        return 2;
    srand(1);
    check_line();
    snprintf(path, sizeof(path), "%s/shared", folder);
    torture(path, count, processes, "one folder");
    snprintf(path, sizeof(path), "%s/single.jsonl", folder);
    torture(path, count / 5, processes, "one file");
    snprintf(path, sizeof(path), "%s/full.jsonl", folder);
    fill_up(path);
    snprintf(path, sizeof(path), "%s/cut.jsonl", folder);
    truncate_everywhere(path);
    snprintf(path, sizeof(path), "%s/beside.jsonl", folder);
    read_beside(path);
    printf("1..%d\n", tests);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
