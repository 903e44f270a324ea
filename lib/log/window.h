/* SPDX-License-Identifier: MIT */
/* A piece of a log as lines of plain text, told apart by who wrote them. */
#ifndef MPL_LOG_WINDOW_H
#define MPL_LOG_WINDOW_H

#include "log/prefix.h"

#define MPL_LOG_WINDOW 26624 /* bytes of a log that are looked at together */
#define MPL_LOG_GROUPS 32    /* writers that are told apart in one of them */

/** Text without colours, control characters, and white space of more than one space; at is where
 * in the window each byte came from. */
struct mpl_log_text {
    char bytes[MPL_LOG_WINDOW + 1];
    uint32_t at[MPL_LOG_WINDOW + 1];
    size_t len;
};

struct mpl_log_line {
    uint32_t start, len; /* in text, behind the prefix */
    uint32_t number;     /* newlines in the window before it */
    uint32_t group;
    struct mpl_log_writer writer;
};

struct mpl_log_window {
    struct mpl_log_text text; /* of all lines */
    struct mpl_log_line lines[MPL_LOG_WINDOW / 2 + 1];
    size_t line_count;
    struct mpl_log_writer groups[MPL_LOG_GROUPS];
    size_t group_count;
    struct mpl_log_text joined; /* of one group, see mpl_log_window_join */
};

/** Reads len bytes, at most MPL_LOG_WINDOW. Where they do not start with a line, the rest of the
 * first one has no prefix. */
void mpl_log_window_read(struct mpl_log_window *window, const struct mpl_log_prefixes *prefixes,
                         const char *bytes, size_t len, bool is_line_start);

/** Joins the lines of one group into window->joined, a space between two. Lines without a prefix
 * belong to the group of the line before. */
void mpl_log_window_join(struct mpl_log_window *window, size_t group);

/** The line that holds a byte of the window. */
const struct mpl_log_line *mpl_log_window_line(const struct mpl_log_window *window, uint32_t at);

#endif
