/* SPDX-License-Identifier: MIT */
/*
 * Reads a log in pieces, in memory that does not grow with it. A fast search finds the words that
 * messages hold; only a window around such a word is read closely. Every byte is searched once, and
 * read closely in at most a few windows, whatever the log holds.
 */
#include "log/log.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a window before the word, in which its message may start; from the word on in which
 * messages belong to the window; and behind those, for the rest of the last one. */
#define BEFORE  1024
#define OWN     16384
#define LONGEST 8192

_Static_assert(BEFORE + OWN + LONGEST <= MPL_LOG_WINDOW, "a window has room");

enum memplan_status mpl_log_init(struct memplan_log *log, struct memplan_error *err)
{
    log->line = 1;
    mpl_log_triggers_init(&log->triggers);
    return mpl_log_scanner_init(&log->scanner, err);
}

void mpl_log_clear(struct memplan_log *log)
{
    mpl_log_scanner_free(&log->scanner);
    free(log->events.data);
}

static uint64_t newlines(const char *bytes, size_t len)
{
    const char *end = bytes + len;
    uint64_t count = 0;

    for (const char *at = bytes; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* True when a line starts at that byte of the buffer. */
static bool is_line_start(const struct memplan_log *log, size_t at)
{
    return at ? log->buffer[at - 1] == '\n' : !log->offset;
}

/* The start of a window for a word: of a line if one is near, since the prefix stands there. */
static size_t window_start(const struct memplan_log *log, size_t word)
{
    const size_t first = word > BEFORE ? word - BEFORE : 0;
    size_t start = first;

    while (start < word && !is_line_start(log, start))
        start++;
    return is_line_start(log, start) ? start : first;
}

/* Reads the window around a word closely. */
static enum memplan_status look(struct memplan_log *log, size_t word, struct memplan_error *err)
{
    const size_t start = window_start(log, word);
    const size_t len = least(word + OWN + LONGEST, log->len) - start;
    const size_t to = least(word + OWN, log->len);
    const struct mpl_log_span span = {
        .from = log->owned > start ? log->owned - start : 0,
        .to = to - start,
        .offset = log->offset + start,
        .line = log->line + newlines(log->buffer, start),
        .is_line_start = is_line_start(log, start),
    };
    enum memplan_status status =
        mpl_log_scan(&log->scanner, log->buffer + start, len, &span, &log->events, err);

    log->owned = to;
    log->searched = to;
    return status;
}

/* Finds the messages of the buffer that are sure to be whole. */
static enum memplan_status search(struct memplan_log *log, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    while (!status) {
        size_t word = mpl_log_triggers_find(&log->triggers, log->buffer, log->len, log->searched);

        if (word == log->len) {
            const size_t open = log->has_ended ? 0 : log->triggers.longest;

            if (log->len > open && log->len - open > log->searched)
                log->searched = log->len - open;
            break;
        }
        log->searched = word;
        if (!log->has_ended && log->len - word < OWN + LONGEST)
            break;
        status = look(log, word, err);
    }
    return status;
}

/* Drops what no later window can hold. */
static void drop(struct memplan_log *log)
{
    size_t gone = log->searched > BEFORE ? log->searched - BEFORE : 0;

    if (!gone)
        return;
    log->line += newlines(log->buffer, gone);
    log->offset += gone;
    log->len -= gone;
    log->searched -= gone;
    log->owned -= least(log->owned, gone);
    memmove(log->buffer, log->buffer + gone, log->len);
}

/* What was taken makes room for what comes. */
static void forget(struct mpl_log_events *events)
{
    if (events->taken == events->len)
        events->taken = events->len = 0;
}

enum memplan_status mpl_log_feed(struct memplan_log *log, const char *bytes, size_t len,
                                 struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    forget(&log->events);
    while (len && !status) {
        const size_t part = least(len, MPL_LOG_BUFFER - log->len);

        memcpy(log->buffer + log->len, bytes, part);
        log->len += part;
        bytes += part;
        len -= part;
        status = search(log, err);
        if (log->len > MPL_LOG_BUFFER / 2)
            drop(log);
    }
    return status;
}

enum memplan_status mpl_log_end(struct memplan_log *log, struct memplan_error *err)
{
    forget(&log->events);
    log->has_ended = true;
    return search(log, err);
}

const struct memplan_log_event *mpl_log_next(struct memplan_log *log)
{
    return log->events.taken < log->events.len ? &log->events.data[log->events.taken++] : NULL;
}
