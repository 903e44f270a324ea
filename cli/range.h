/* SPDX-License-Identifier: MIT */
/* Values of a field as people list them: "1..1024*2", "4096..32768:4096", "sdpa,eager". */
#ifndef CLI_RANGE_H
#define CLI_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGE_MOST 1024 /* values */

/** How a value is read. */
enum range_kind {
    RANGE_INTEGER,
    RANGE_SIZE, /* bytes, with or without a unit */
    RANGE_TEXT, /* anything, so there are lists and no ranges */
};

struct range_value {
    char text[64]; /* as it is assigned */
    double number; /* NAN: none */
};

struct range {
    struct range_value *values; /* owned */
    size_t count;
    bool is_geometric; /* made by a factor */
};

/** One whole number or size. False: it is none. */
bool range_read_value(const char *text, enum range_kind kind, int64_t *value);

/** Reads a list, or a range. False: why says what was wrong, in one line. Free it either way. */
bool range_read(const char *text, enum range_kind kind, struct range *range, char *why,
                size_t size);

void range_free(struct range *range);

#endif
