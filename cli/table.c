/* SPDX-License-Identifier: MIT */
/* Tables of a report, drawn by libsmartcols: columns in the width that their text needs. */
#include "table.h"

#include <libsmartcols.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

void table_begin(struct table *table, const char *const *names)
{
    bool headings = false;

    *table = (struct table){.scols = scols_new_table()};
    if (!table->scols) {
        table->failed = true;
        return;
    }
    for (size_t i = 0; i < TABLE_COLUMNS && names[i]; i++) {
        bool right = names[i][0] == '>';
        const char *name = names[i] + right;

        headings = headings || *name;
        if (!scols_table_new_column(table->scols, name, 0, right ? SCOLS_FL_RIGHT : 0))
            table->failed = true;
        table->columns++;
    }
    scols_table_enable_noheadings(table->scols, !headings);
    /* Columns never shrink: texts are kept short where they are made. */
    scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_ALWAYS);
    scols_table_set_termwidth(table->scols, 10 * TEXT_COLUMNS);
    scols_table_set_column_separator(table->scols, "  ");
}

struct libscols_line *table_row(struct table *table)
{
    struct libscols_line *row = table->failed ? NULL : scols_table_new_line(table->scols, NULL);

    table->failed = table->failed || !row;
    return row;
}

void table_cell(struct table *table, struct libscols_line *row, size_t column, const char *format,
                ...)
{
    va_list args;
    char *text = NULL;

    if (!row || table->failed || column >= table->columns)
        return;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (!text || scols_line_refer_data(row, column, text)) {
        free(text);
        table->failed = true;
    }
}

/* Prints one line indented, without the spaces that fill its last column. */
static const char *print_line(const char *line, FILE *out)
{
    size_t len = strcspn(line, "\n"), used = len;

    while (used && line[used - 1] == ' ')
        used--;
    fprintf(out, "  %.*s\n", (int)used, line);
    return line + len + (line[len] == '\n');
}

bool table_end(struct table *table, FILE *out)
{
    char *text = NULL;
    bool good = !table->failed;

    if (good && scols_table_get_nlines(table->scols)) {
        good = scols_print_table_to_string(table->scols, &text) == 0 && text;
        for (const char *line = text; good && *line;)
            line = print_line(line, out);
    }
    free(text);
    scols_unref_table(table->scols);
    *table = (struct table){0};
    return good;
}
