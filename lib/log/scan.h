/* SPDX-License-Identifier: MIT */
/* All messages of a window. */
#ifndef MPL_LOG_SCAN_H
#define MPL_LOG_SCAN_H

#include "base/vec.h"
#include "log/event.h"
#include "log/window.h"

/** What a scan needs besides the window. */
struct mpl_log_scanner {
    struct mpl_log_pattern *forms[MPL_LOG_FORMS];
    struct mpl_log_pattern *item;
    struct mpl_log_prefixes prefixes;
    struct mpl_log_memory memory;
    struct mpl_log_window window;
};

/** Messages that wait. */
struct mpl_log_events {
    struct memplan_log_event *data;
    size_t len, cap, taken;
};

/** Where the bytes of a window lie in the log, and which messages are its own. */
struct mpl_log_span {
    size_t from, to; /* messages that start in these bytes of the window */
    uint64_t offset; /* of its first byte in the log */
    uint64_t line;   /* that its first byte stands in */
    bool is_line_start;
};

enum memplan_status mpl_log_scanner_init(struct mpl_log_scanner *scanner,
                                         struct memplan_error *err);
void mpl_log_scanner_free(struct mpl_log_scanner *scanner);

/** Appends the messages of len bytes that start within the span, in their order. */
enum memplan_status mpl_log_scan(struct mpl_log_scanner *scanner, const char *bytes, size_t len,
                                 const struct mpl_log_span *span, struct mpl_log_events *events,
                                 struct memplan_error *err);

#endif
