/* SPDX-License-Identifier: MIT */
/* Tables of a report, drawn by libsmartcols: columns in the width that their text needs. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS 14

struct libscols_table;

struct table {
    struct libscols_table *scols;
    size_t columns;
    bool failed;
};

/** A table whose columns are named, NULL at the end; a name that starts with ">" is aligned to the
 * right. All names empty: no heading. */
void table_begin(struct table *table, const char *const *names);

/** A new row; its cells are set with table_cell. */
struct libscols_line *table_row(struct table *table);

/** Sets one cell of a row. Text is copied. */
void table_cell(struct table *table, struct libscols_line *row, size_t column, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/** Prints the table with two spaces before each line, and frees it. False: out of memory. */
bool table_end(struct table *table, FILE *out);

#endif
