/* SPDX-License-Identifier: MIT */
/* Lengths of samples, from text, JSON Lines, or a histogram. */
#ifndef CLI_LENGTHS_H
#define CLI_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Tokens of each sample, in the order of the file. */
struct lengths {
    uint32_t *of; /* owned */
    size_t count, room;
    bool is_histogram; /* says nothing of their order */
    char source[256];  /* name for messages */
};

/** Reads a file, "-" for standard input; the first line says what it holds. member: of objects,
 * NULL for the usual names. Returns 0, or an exit code after a message that names the line. Free
 * with lengths_free whatever comes back. */
int lengths_read(const char *path, const char *member, struct lengths *lengths);

void lengths_free(struct lengths *lengths);

#endif
