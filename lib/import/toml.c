/* SPDX-License-Identifier: MIT */
/* Stage "import": TOML as a document, with the line of each key. */
#include "import/toml.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "ingest/json.h"

/* toml++ makes a table for each name of a.b.c, and takes them apart by recursion. */
#define MOST_NAMES 32

/* The end of a text between quotes, which may run over lines between three of them. */
static size_t skip_quoted(const char *text, size_t len, size_t at)
{
    const char quote = text[at];
    const bool is_long = at + 2 < len && text[at + 1] == quote && text[at + 2] == quote;

    at += is_long ? 3 : 1;
    for (; at < len; at++) {
        if (text[at] == '\\' && quote == '"')
            at++;
        else if (text[at] == '\n' && !is_long)
            return at;
        else if (text[at] == quote && !is_long)
            return at + 1;
        else if (text[at] == quote && at + 2 < len && text[at + 1] == quote &&
                 text[at + 2] == quote)
            return at + 3;
    }
    return len;
}

/* The line on which a key has too many names with dots between them; 0: none has. */
static uint32_t find_long_key(const char *text, size_t len)
{
    uint32_t line = 1, dots = 0;

    for (size_t at = 0; at < len;) {
        const char c = text[at];

        if (c == '"' || c == '\'') {
            const size_t end = skip_quoted(text, len, at);

            for (; at < end && at < len; at++)
                line += text[at] == '\n';
            continue;
        }
        if (c == '#') {
            const char *stop = memchr(text + at, '\n', len - at);

            at = stop ? (size_t)(stop - text) : len;
            continue;
        }
        if (c == '\n' || c == ',' || c == '=' || c == '{' || c == '[')
            dots = 0;
        line += c == '\n';
        dots += c == '.';
        if (dots >= MOST_NAMES)
            return line;
        at++;
    }
    return 0;
}

static enum memplan_status fail_at(const struct mpl_toml_error *error, enum memplan_status status,
                                   struct memplan_error *err, const char *text)
{
    if (err && err->status == MEMPLAN_OK) {
        err->line = error->line;
        err->column = error->column;
    }
    return mpl_fail(err, status, NULL, "%s%.200s", text, error->text);
}

static enum memplan_status parse(const char *text, size_t len, struct mpl_import_doc *doc,
                                 struct memplan_error *err)
{
    struct mpl_toml_error error = {.line = find_long_key(text, len)};
    enum mpl_toml_status status;

    if (error.line) {
        snprintf(error.text, sizeof(error.text), "a key of more than %d names", MOST_NAMES);
        return fail_at(&error, MEMPLAN_ERR_LIMIT, err, "");
    }
    status = mpl_toml_parse(text, len, MPL_JSON_MOST_DEPTH, &doc->root, doc->lines, &error);
    if (status == MPL_TOML_OK)
        return MEMPLAN_OK;
    error.text[mpl_json_cut(error.text, sizeof(error.text) - 1)] = '\0';
    if (status == MPL_TOML_SYNTAX)
        return fail_at(&error, MEMPLAN_ERR_SYNTAX, err, "not well-formed TOML: ");
    if (status == MPL_TOML_DEPTH)
        return fail_at(&error, MEMPLAN_ERR_LIMIT, err,
                       "tables and lists are nested deeper than 64 levels");
    return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

enum memplan_status mpl_import_read_toml(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    enum memplan_status status;

    *doc = (struct mpl_import_doc){.file = file, .lines = json_object()};
    status = doc->lines ? parse(text, len, doc, err)
                        : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (status && err && !err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", file);
    if (status)
        mpl_import_doc_free(doc);
    return status;
}
