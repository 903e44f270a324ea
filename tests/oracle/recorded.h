/* SPDX-License-Identifier: MIT */
/* Reading what was recorded (data/README.md): files, and rows of a .jsonl. */
#ifndef ORACLE_RECORDED_H
#define ORACLE_RECORDED_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/** A file of the data folder: MPL_TEST_DATA, or oracle/data. Ends the program when it cannot be
 * opened. */
FILE *recorded_open(const char *name);

/** Members of a row; a missing or other one fails the test. */
const char *recorded_text(const json_t *row, const char *key);
int64_t recorded_whole(const json_t *row, const char *key);

/** Place of a name in a list; a name that is not in it fails the test. */
int recorded_index_of(const char *name, const char *const *names, int count);

#endif
