/* SPDX-License-Identifier: MIT */
/* Reads a log in pieces, in memory that does not grow with it. */
#ifndef MPL_LOG_LOG_H
#define MPL_LOG_LOG_H

#include "log/scan.h"
#include "log/trigger.h"

#define MPL_LOG_BUFFER ((size_t)4 * MPL_LOG_WINDOW)

struct memplan_log {
    struct mpl_log_triggers triggers;
    struct mpl_log_scanner scanner;
    struct mpl_log_events events;
    uint64_t offset; /* of the buffer's first byte in the log */
    uint64_t line;   /* that it stands in */
    size_t len;
    size_t searched; /* bytes of the buffer in which no trigger starts any more */
    size_t owned;    /* bytes of the buffer whose messages were taken */
    bool has_ended;
    char buffer[MPL_LOG_BUFFER];
};

enum memplan_status mpl_log_init(struct memplan_log *log, struct memplan_error *err);
enum memplan_status mpl_log_feed(struct memplan_log *log, const char *bytes, size_t len,
                                 struct memplan_error *err);
enum memplan_status mpl_log_end(struct memplan_log *log, struct memplan_error *err);

/** The next event, borrowed until more is fed; NULL when none waits. */
const struct memplan_log_event *mpl_log_next(struct memplan_log *log);

void mpl_log_clear(struct memplan_log *log);

#endif
