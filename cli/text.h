/* SPDX-License-Identifier: MIT */
/* Text for people: sizes, shares, wrapped sentences; free of locale. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_COLUMNS 100

#define TEXT_GIB 1073741824.0
#define TEXT_GB  1e9

/** printf into new memory; NULL when there is none. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Text as JSON, new; NULL when it is not UTF-8. */
char *text_quote(const char *text);

/** "97.4 %", never rounded to a certainty: "> 99.9 %", "< 0.1 %". */
const char *text_chance(double chance, char *text, size_t size);

/** "61.20 .. 61.94" GiB, or one figure when both are the same; 2 decimals. */
const char *text_band(uint64_t low, uint64_t high, char *text, size_t size);

/** A whole number with its thousands apart: "1 140 000". */
const char *text_count(uint64_t count, char *text, size_t size);

/** "1.14 billion" from a million on, else as text_count. */
const char *text_number(uint64_t count, char *text, size_t size);

/** The first whole words of a text that is too long, and " ...". */
const char *text_cut(const char *whole, char *text, size_t size);

/** Reads "80 GiB", "81090MiB", "1073741824": a number above 0 and its unit, bytes when it has none.
 * False for anything else. */
bool text_read_size(const char *text, uint64_t *bytes);

/** "1.50 GiB" from 1 GiB on, "3.0 MiB" below; whole bytes below 1 MiB. */
const char *text_size(uint64_t bytes, char *text, size_t size);

/** True when word was probably meant to be known: one begins with the other, or they are at most
 * two letters apart. */
bool text_is_near(const char *word, const char *known);

/** Prints text in lines of TEXT_COLUMNS; the first starts with lead, the others are indented as
 * far. Control characters become "?". */
void text_wrap(FILE *out, const char *lead, const char *text);

#endif
