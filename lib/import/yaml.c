/* SPDX-License-Identifier: MIT */
/* Stage "import": YAML as a document, with the line of each key. Aliases are refused: a few of them
 * can stand for any number of values. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/fail.h"
#include "import/import.h"
#include "ingest/json.h"

#define MOST_PATH 256

struct level {
    json_t *container;
    char *key; /* of an object: that the next value belongs to; owned */
    size_t end;
};

struct parse {
    struct level levels[MPL_JSON_MOST_DEPTH + 1];
    size_t depth;
    uint32_t lists;
    char path[MOST_PATH];
    struct mpl_import_doc *doc;
    struct memplan_error *err;
};

static enum memplan_status fail_at(const struct parse *parse, const yaml_mark_t *mark,
                                   enum memplan_status status, const char *text)
{
    if (parse->err && parse->err->status == MEMPLAN_OK) {
        parse->err->line = (uint32_t)mark->line + 1;
        parse->err->column = (uint32_t)mark->column + 1;
    }
    return mpl_fail(parse->err, status, NULL, "%s", text);
}

/* ---- plain words ---- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* Digits with underscores between them, a point, an exponent. */
static bool looks_like_number(const char *text, bool *is_real)
{
    size_t digits = 0;
    const char *c = text + (*text == '-' || *text == '+');

    *is_real = false;
    for (; *c; c++) {
        if (*c >= '0' && *c <= '9')
            digits++;
        else if (*c == '.' && !*is_real)
            *is_real = true;
        else if ((*c == 'e' || *c == 'E') && digits && c[1])
            break;
        else if (*c != '_' || !digits)
            return false;
    }
    if (!*c)
        return digits > 0;
    *is_real = true;
    c += 1 + (c[1] == '-' || c[1] == '+');
    return *c && strspn(c, "0123456789") == strlen(c) && digits > 0;
}

static json_t *number_of(const char *text)
{
    char plain[64], *end;
    size_t len = 0;
    json_t *json;
    bool is_real;

    if (strlen(text) >= sizeof(plain) || !looks_like_number(text, &is_real))
        return NULL;
    for (const char *c = text + (*text == '+'); *c; c++)
        if (*c != '_')
            plain[len++] = *c;
    plain[len] = '\0';
    if (!is_real) {
        long long value = strtoll(plain, &end, 10);

        if (value != LLONG_MAX && value != LLONG_MIN)
            return json_integer(value);
        return json_string(text); /* too large: no field takes it, and the message shows it */
    }
    /* Through JSON's reader, which does not follow the locale. */
    if (plain[0] == '.' || (plain[0] == '-' && plain[1] == '.'))
        return json_string(text);
    if (plain[len - 1] == '.')
        plain[len++] = '0', plain[len] = '\0';
    json = json_loads(plain, JSON_DECODE_ANY, NULL);
    return json ? json : json_string(text);
}

json_t *mpl_import_scalar(const char *text, size_t len)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    json_t *json;

    if (strlen(text) != len)
        return NULL;
    if (is_one_of(text, nulls))
        return json_null();
    if (is_one_of(text, yes))
        return json_true();
    if (is_one_of(text, no))
        return json_false();
    json = number_of(text);
    return json ? json : json_stringn(text, len);
}

/* ---- events ---- */

static enum memplan_status take_key(struct parse *parse, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    struct level *level = &parse->levels[parse->depth - 1];
    size_t end = level->end;
    char message[160];

    if (strcmp(text, "<<") == 0)
        return fail_at(parse, &event->start_mark, MEMPLAN_ERR_UNSUPPORTED,
                       "YAML's merge key << is not read: write the values out");
    if (json_object_get(level->container, text)) {
        snprintf(message, sizeof(message), "the key %.*s stands there twice",
                 (int)mpl_json_cut(text, 80), text);
        return fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX, message);
    }
    level->key = mpl_import_copy(text, strlen(text));
    if (!level->key)
        return mpl_fail(parse->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    if (parse->lists || end + strlen(text) + 2 > MOST_PATH)
        return MEMPLAN_OK;
    snprintf(parse->path + end, sizeof(parse->path) - end, "%s%s", end ? "." : "", text);
    json_object_set_new(parse->doc->lines, parse->path,
                        json_integer((json_int_t)event->start_mark.line + 1));
    return MEMPLAN_OK;
}

static enum memplan_status attach(struct parse *parse, json_t *json, const yaml_event_t *event)
{
    struct level *level = parse->depth ? &parse->levels[parse->depth - 1] : NULL;
    int failed;

    if (!json)
        return fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX, "the text is not UTF-8");
    if (!level) {
        parse->doc->root = json;
        return MEMPLAN_OK;
    }
    if (json_is_array(level->container)) {
        failed = json_array_append_new(level->container, json);
    } else {
        failed = json_object_set_new(level->container, level->key, json);
        free(level->key);
        level->key = NULL;
    }
    return failed ? fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX, "the key is not UTF-8")
                  : MEMPLAN_OK;
}

static bool wants_key(const struct parse *parse)
{
    const struct level *level = parse->depth ? &parse->levels[parse->depth - 1] : NULL;

    return level && json_is_object(level->container) && !level->key;
}

static enum memplan_status open_level(struct parse *parse, const yaml_event_t *event)
{
    const bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
    json_t *container = is_list ? json_array() : json_object();
    enum memplan_status status;

    if (wants_key(parse) || parse->depth == MPL_JSON_MOST_DEPTH) {
        json_decref(container);
        return wants_key(parse) ? fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX,
                                          "a key that is a list or a mapping is not read")
                                : fail_at(parse, &event->start_mark, MEMPLAN_ERR_LIMIT,
                                          "lists and mappings are nested deeper than 64 levels");
    }
    status = attach(parse, container, event);
    if (status)
        return status;
    parse->lists += is_list;
    parse->levels[parse->depth++] =
        (struct level){.container = container, .end = strlen(parse->path)};
    return MEMPLAN_OK;
}

static void close_level(struct parse *parse)
{
    struct level *level = &parse->levels[--parse->depth];

    parse->lists -= json_is_array(level->container);
    parse->path[level->end] = '\0';
    free(level->key);
    level->key = NULL;
    if (parse->depth)
        parse->path[parse->levels[parse->depth - 1].end] = '\0';
}

static enum memplan_status take_scalar(struct parse *parse, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t len = event->data.scalar.length;

    if (strlen(text) != len)
        return fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX, "the text holds a zero byte");
    if (wants_key(parse))
        return take_key(parse, event);
    return attach(parse,
                  event->data.scalar.plain_implicit ? mpl_import_scalar(text, len)
                                                    : json_stringn(text, len),
                  event);
}

static enum memplan_status take(struct parse *parse, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return fail_at(parse, &event->start_mark, MEMPLAN_ERR_UNSUPPORTED,
                       "YAML's aliases are not read: write the value out");
    case YAML_SCALAR_EVENT:
        return take_scalar(parse, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return open_level(parse, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_level(parse);
        return MEMPLAN_OK;
    case YAML_DOCUMENT_START_EVENT:
        return parse->doc->root ? fail_at(parse, &event->start_mark, MEMPLAN_ERR_SYNTAX,
                                          "a second document begins, expected one")
                                : MEMPLAN_OK;
    default:
        return MEMPLAN_OK;
    }
}

static enum memplan_status fail_parser(const struct parse *parse, const yaml_parser_t *parser)
{
    char text[256];

    if (parser->error == YAML_MEMORY_ERROR)
        return mpl_fail(parse->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    snprintf(text, sizeof(text), "not well-formed YAML: %s",
             parser->problem ? parser->problem : "it cannot be read");
    return fail_at(parse, &parser->problem_mark, MEMPLAN_ERR_SYNTAX, text);
}

static enum memplan_status run(struct parse *parse, yaml_parser_t *parser)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_done = false;
    yaml_event_t event;

    while (!status && !is_done) {
        if (!yaml_parser_parse(parser, &event))
            return fail_parser(parse, parser);
        status = take(parse, &event);
        is_done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return status;
}

enum memplan_status mpl_import_read_yaml(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    struct parse parse = {.doc = doc, .err = err};
    enum memplan_status status;
    yaml_parser_t parser;
    char found[128];

    *doc = (struct mpl_import_doc){.file = file, .lines = json_object()};
    if (!doc->lines || !yaml_parser_initialize(&parser)) {
        mpl_import_doc_free(doc);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    status = run(&parse, &parser);
    yaml_parser_delete(&parser);
    while (parse.depth)
        free(parse.levels[--parse.depth].key);
    if (!status && !doc->root)
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "an empty file, expected a mapping");
    if (!status && !json_is_object(doc->root))
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "found %s, expected a mapping",
                          mpl_json_describe(doc->root, found, sizeof(found)));
    if (status && err && !err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", file);
    if (status)
        mpl_import_doc_free(doc);
    return status;
}
