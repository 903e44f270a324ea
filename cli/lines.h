/* SPDX-License-Identifier: MIT */
/* Lines of a file or of standard input, of any length up to a limit. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** The line at hand; its memory is used again for the next one. Zero-initialized to begin with. */
struct lines {
    char *text; /* without the newline, and without a zero at the end */
    size_t len, room;
    bool too_long; /* what is over the limit was skipped */
};

/** Reads up to the next newline, at most most bytes of it. Returns EOF at the end, a positive exit
 * code after a message, or 0. */
int lines_read(struct lines *lines, size_t most);

/** The same of an open file; source names it in messages. */
int lines_read_from(struct lines *lines, FILE *file, const char *source, size_t most);

/** Nothing but blanks. */
bool lines_is_blank(const struct lines *lines);

void lines_free(struct lines *lines);

#endif
