/* SPDX-License-Identifier: MIT */
/* Stage "import": JSON as a document, with the line of each key. */
#include "ingest/json.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"

#define MOST_PATH 256

/* A second pass over text that the parser has accepted. Each open list or object ends the path at
 * its depth; keys inside lists have no path of their own. */
struct pass {
    const char *text;
    size_t len, at;
    uint32_t line;
    char path[MOST_PATH];
    size_t ends[MPL_JSON_MOST_DEPTH + 2]; /* of the path outside of each level */
    bool is_list[MPL_JSON_MOST_DEPTH + 2];
    uint32_t depth, lists;
    json_t *lines;
};

/* The text between quotes, escapes left as they are; the scan stands behind it afterwards. */
static size_t skip_string(struct pass *pass)
{
    size_t start = ++pass->at;

    while (pass->at < pass->len && pass->text[pass->at] != '"')
        pass->at += pass->text[pass->at] == '\\' ? 2 : 1;
    pass->at++;
    return start;
}

static bool is_key(const struct pass *pass)
{
    size_t at = pass->at;

    while (at < pass->len && strchr(" \t\r\n", pass->text[at]))
        at++;
    return at < pass->len && pass->text[at] == ':';
}

static bool take_key(struct pass *pass, size_t start)
{
    size_t end = pass->ends[pass->depth], len = pass->at - 1 - start;

    if (pass->lists || end + len + 2 > MOST_PATH)
        return true;
    if (end)
        pass->path[end++] = '.';
    memcpy(pass->path + end, pass->text + start, len);
    pass->path[end + len] = '\0';
    return json_object_set_new(pass->lines, pass->path, json_integer(pass->line)) == 0;
}

static void open_level(struct pass *pass, bool is_list)
{
    pass->depth++;
    pass->is_list[pass->depth] = is_list;
    pass->lists += is_list;
    pass->ends[pass->depth] = strlen(pass->path);
}

static void close_level(struct pass *pass)
{
    if (!pass->depth)
        return;
    pass->lists -= pass->is_list[pass->depth];
    pass->path[pass->ends[pass->depth]] = '\0';
    pass->depth--;
}

static bool find_lines(struct pass *pass)
{
    bool is_done = true;

    while (pass->at < pass->len && is_done) {
        char c = pass->text[pass->at];

        if (c == '"') {
            size_t start = skip_string(pass);

            if (is_key(pass))
                is_done = take_key(pass, start);
            continue;
        }
        pass->line += c == '\n';
        if (c == '{' || c == '[')
            open_level(pass, c == '[');
        else if (c == '}' || c == ']')
            close_level(pass);
        pass->at++;
    }
    return is_done;
}

enum memplan_status mpl_import_read_json(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    struct pass pass = {.text = text, .len = len, .line = 1, .lines = json_object()};
    enum memplan_status status;
    char found[128];

    *doc = (struct mpl_import_doc){.file = file, .lines = pass.lines};
    status = mpl_json_read_up_to(text, len, MPL_IMPORT_MOST_BYTES, &doc->root, err);
    if (!status && !json_is_object(doc->root))
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "found %s, expected an object",
                          mpl_json_describe(doc->root, found, sizeof(found)));
    if (!status && (!pass.lines || !find_lines(&pass)))
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (status && err && !err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", file);
    if (status)
        mpl_import_doc_free(doc);
    return status;
}

void mpl_import_doc_free(struct mpl_import_doc *doc)
{
    json_decref(doc->root);
    json_decref(doc->lines);
    *doc = (struct mpl_import_doc){0};
}

uint32_t mpl_import_line(const struct mpl_import_doc *doc, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(doc->lines, key));
}
