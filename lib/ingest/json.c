/* SPDX-License-Identifier: MIT */
/* Untrusted bytes to a JSON value: size, nesting and duplicates checked, errors with a position. */
#include "ingest/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

/* Where the scan stands. */
struct scan {
    char *text;
    size_t len, at;
    uint32_t line, column, depth;
    bool in_string;
};

static enum memplan_status fail_at(struct memplan_error *err, enum memplan_status status,
                                   const struct scan *scan, const char *text)
{
    if (err && err->status == MEMPLAN_OK) {
        err->line = scan->line;
        err->column = scan->column;
        err->offset = scan->at;
    }
    return mpl_fail(err, status, NULL, "%s", text);
}

/* Replaces word at the scan's place by other, padded with spaces. */
static bool replace(struct scan *scan, const char *word, const char *other)
{
    size_t len = strlen(word);

    if (scan->len - scan->at < len || memcmp(scan->text + scan->at, word, len) != 0)
        return false;
    memset(scan->text + scan->at, ' ', len);
    memcpy(scan->text + scan->at, other, strlen(other));
    return true;
}

/* One pass before the parser: nesting, and the words that are not JSON. */
static enum memplan_status prepare(struct scan *scan, struct memplan_error *err)
{
    for (; scan->at < scan->len; scan->at++, scan->column++) {
        char c = scan->text[scan->at];

        if (c == '\n') {
            scan->line++;
            scan->column = 0;
        }
        if (scan->in_string) {
            if (c == '\\' && scan->at + 1 < scan->len && scan->text[scan->at + 1] != '\n')
                scan->at++, scan->column++;
            else if (c == '"')
                scan->in_string = false;
        } else if (c == '"') {
            scan->in_string = true;
        } else if (c == '[' || c == '{') {
            if (++scan->depth > MPL_JSON_MOST_DEPTH)
                return fail_at(err, MEMPLAN_ERR_LIMIT, scan,
                               "lists and objects are nested deeper than 64 levels");
        } else if ((c == ']' || c == '}') && scan->depth > 0) {
            scan->depth--;
        } else if (c == '-' || c == 'I' || c == 'N') {
            if (!replace(scan, "-Infinity", "null") && !replace(scan, "Infinity", "null"))
                replace(scan, "NaN", "[]");
        }
    }
    return MEMPLAN_OK;
}

/* A parser's message names bytes of the input: keep it one printable line. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static enum memplan_status fail_parse(const json_error_t *error, size_t skipped,
                                      struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_ERR_SYNTAX;
    char text[JSON_ERROR_TEXT_LENGTH];

    /* jansson says little when its own memory runs out. */
    if (!error->text[0] || json_error_code(error) == json_error_out_of_memory)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (json_error_code(error) == json_error_numeric_overflow)
        status = MEMPLAN_ERR_VALUE;
    snprintf(text, sizeof(text), "%s", error->text);
    make_printable(text);
    if (err && err->status == MEMPLAN_OK) {
        err->line = error->line > 0 ? (uint32_t)error->line : 0;
        err->column = error->column > 0 ? (uint32_t)error->column : 0;
        err->offset = skipped + (error->position > 0 ? (uint64_t)error->position : 0);
    }
    return mpl_fail(err, status, NULL, "not well-formed JSON: %s", text);
}

enum memplan_status mpl_json_read(const void *text, size_t len, json_t **json_out,
                                  struct memplan_error *err)
{
    return mpl_json_read_up_to(text, len, MPL_JSON_MOST_BYTES, json_out, err);
}

enum memplan_status mpl_json_read_up_to(const void *text, size_t len, uint64_t most_bytes,
                                        json_t **json_out, struct memplan_error *err)
{
    struct scan scan = {.len = len, .line = 1, .column = 1};
    enum memplan_status status;
    json_error_t error;
    json_t *json = NULL;

    if (len > most_bytes)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, NULL, "input of %zu bytes, more than %llu MiB", len,
                        (unsigned long long)(most_bytes >> 20));
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        scan.at = 3;
    scan.text = malloc(len + 1);
    if (!scan.text)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (len)
        memcpy(scan.text, text, len);
    size_t skipped = scan.at;

    status = prepare(&scan, err);
    if (!status) {
        json = json_loadb(scan.text + skipped, len - skipped,
                          JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
        if (json)
            *json_out = json;
        else
            status = fail_parse(&error, skipped, err);
    }
    free(scan.text);
    return status;
}

size_t mpl_json_cut(const char *text, size_t most)
{
    size_t len = strlen(text);

    if (len <= most)
        return len;
    while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

const char *mpl_json_describe(const json_t *json, char *text, size_t size)
{
    char literal[64];
    size_t shown;

    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT:
        snprintf(text, size, "an object");
        break;
    case JSON_ARRAY:
        snprintf(text, size, "a list");
        break;
    case JSON_STRING:
        shown = mpl_json_cut(json_string_value(json), 40);
        snprintf(text, size, "the text \"%.*s\"%s", (int)shown, json_string_value(json),
                 json_string_value(json)[shown] ? "..." : "");
        make_printable(text);
        break;
    default: /* through the writer, which does not follow the locale */
        shown =
            json_dumpb(json, literal, sizeof(literal), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        snprintf(text, size, "%s%.*s", json_is_number(json) ? "the number " : "", (int)shown,
                 literal);
        break;
    }
    return text;
}

const char *mpl_json_pointer(const char *path, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "/%s", path);

    for (size_t i = 1; i < used && i < size; i++)
        if (text[i] == '.')
            text[i] = '/';
    return text;
}

/* Copies the first name of a dotted path; its length, or 0 when it is too long or empty. */
static size_t first_name(const char *path, char *name, size_t size)
{
    size_t len = strcspn(path, ".");

    if (len >= size)
        return 0;
    memcpy(name, path, len);
    name[len] = '\0';
    return len;
}

json_t *mpl_json_get(const json_t *root, const char *path)
{
    const json_t *at = root;
    char name[64];

    while (at) {
        size_t len = first_name(path, name, sizeof(name));
        json_t *next = len ? json_object_get(at, name) : NULL;

        if (!path[len] || !next)
            return next;
        at = next;
        path += len + 1;
    }
    return NULL;
}

enum memplan_status mpl_json_put(json_t *root, const char *path, json_t *value)
{
    char name[64];

    for (;;) {
        size_t len = first_name(path, name, sizeof(name));

        if (!len)
            return MEMPLAN_ERR_VALUE;
        if (!path[len])
            return json_object_set(root, name, value) ? MEMPLAN_ERR_NOMEM : MEMPLAN_OK;
        json_t *next = json_object_get(root, name);

        if (!next || json_is_null(next)) {
            next = json_object();
            if (!next || json_object_set_new(root, name, next))
                return MEMPLAN_ERR_NOMEM;
        }
        if (!json_is_object(next))
            return MEMPLAN_ERR_VALUE;
        root = next;
        path += len + 1;
    }
}
