/* SPDX-License-Identifier: MIT */
/* Stage "import": what was found so far, where, and what is to be said of it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/value.h"

#define MOST_VALUES 512

struct found {
    char path[64];
    json_t *value;
    struct mpl_import_place place;
};

struct mpl_import {
    struct found values[MOST_VALUES];
    size_t value_count;
    char *notes[MPL_IMPORT_MOST_NOTES];
    size_t note_count;
    struct mpl_import_given given;
};

char *mpl_import_copy(const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

struct mpl_import *mpl_import_new(const struct mpl_import_given *given)
{
    struct mpl_import *import = calloc(1, sizeof(*import));

    if (import)
        import->given = *given;
    return import;
}

struct mpl_import_given *mpl_import_given(struct mpl_import *import)
{
    return &import->given;
}

void mpl_import_free(struct mpl_import *import)
{
    if (!import)
        return;
    for (size_t i = 0; i < import->value_count; i++)
        json_decref(import->values[i].value);
    for (size_t i = 0; i < import->note_count; i++)
        free(import->notes[i]);
    free(import);
}

static void print_place(const struct mpl_import_place *place, char *text, size_t size)
{
    if (!place || !place->file)
        snprintf(text, size, "%s", place ? place->key : "");
    else if (place->line)
        snprintf(text, size, "%s:%u: %s", place->file, (unsigned)place->line, place->key);
    else
        snprintf(text, size, "%s: %s", place->file, place->key);
}

void mpl_import_note(struct mpl_import *import, const struct mpl_import_place *place,
                     const char *format, ...)
{
    char text[384], where[256];
    size_t used;
    va_list args;

    print_place(place, where, sizeof(where));
    used = (size_t)snprintf(text, sizeof(text), "%s%s", where, *where ? ": " : "");
    va_start(args, format);
    vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
    for (size_t i = 0; i < import->note_count; i++)
        if (strcmp(import->notes[i], text) == 0)
            return;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    text[mpl_json_cut(text, sizeof(text) - 8)] = '\0';
    if (import->note_count == MPL_IMPORT_MOST_NOTES - 1)
        snprintf(text, sizeof(text), "further notes are left out");
    if (import->note_count < MPL_IMPORT_MOST_NOTES &&
        (import->notes[import->note_count] = mpl_import_copy(text, strlen(text))))
        import->note_count++;
}

const char *mpl_import_note_at(const struct mpl_import *import, size_t i)
{
    return i < import->note_count ? import->notes[i] : NULL;
}

enum memplan_status mpl_import_fail(const struct mpl_import_place *place,
                                    enum memplan_status status, struct memplan_error *err,
                                    const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (err && err->status == MEMPLAN_OK && place->file) {
        snprintf(err->source, sizeof(err->source), "%s", place->file);
        err->line = place->line;
    }
    return mpl_fail(err, status, NULL, "%s%s%s", place->key, *place->key ? ": " : "", text);
}

static struct found *find(const struct mpl_import *import, const char *path)
{
    for (size_t i = 0; i < import->value_count; i++)
        if (strcmp(import->values[i].path, path) == 0)
            return (struct found *)&import->values[i];
    return NULL;
}

/* The field's own check, with the place in place of the path. */
static enum memplan_status check(const struct mpl_import_place *place, const char *path,
                                 const json_t *value, struct memplan_error *err)
{
    const struct mpl_field *field = mpl_field_find(path);
    struct memplan_error own = {0};
    const char *text = own.text;

    if (!field || (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0))
        return MEMPLAN_OK;
    if (!mpl_spec_check_value(field, value, &own))
        return MEMPLAN_OK;
    if (strncmp(text, path, strlen(path)) == 0 && text[strlen(path)] == ':')
        text += strlen(path) + 2;
    return mpl_import_fail(place, own.status, err, "%s", text);
}

/* The model section is as long as its config.json is. */
static const char *short_value(const json_t *value, char *text, size_t size)
{
    size_t len;

    if (json_is_object(value))
        return "another one";
    len = json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    text[len < size ? len : 0] = '\0';
    text[mpl_json_cut(text, 60)] = '\0';
    return text;
}

static void note_conflict(struct mpl_import *import, const struct found *old,
                          const struct mpl_import_place *place, const json_t *value)
{
    char before[96], now[96], where[256];

    print_place(&old->place, where, sizeof(where));
    mpl_import_note(import, place, "%s is taken, and not %s of %s",
                    short_value(value, now, sizeof(now)),
                    short_value(old->value, before, sizeof(before)), where);
}

static enum memplan_status keep(struct mpl_import *import, const struct mpl_import_place *place,
                                const char *path, const json_t *value, struct memplan_error *err)
{
    struct found *old = find(import, path);

    if (old && !json_equal(old->value, value))
        note_conflict(import, old, place, value);
    if (!old && import->value_count == MOST_VALUES)
        return mpl_import_fail(place, MEMPLAN_ERR_LIMIT, err, "more than %d values", MOST_VALUES);
    if (!old) {
        old = &import->values[import->value_count++];
        *old = (struct found){0};
        snprintf(old->path, sizeof(old->path), "%s", path);
    }
    json_decref(old->value);
    old->value = json_deep_copy(value);
    old->place = *place;
    return old->value ? MEMPLAN_OK : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

enum memplan_status mpl_import_set(struct mpl_import *import, const struct mpl_import_place *place,
                                   const char *path, const json_t *value, struct memplan_error *err)
{
    enum memplan_status status = check(place, path, value, err);

    return status ? status : keep(import, place, path, value, err);
}

enum memplan_status mpl_import_set_refused(struct mpl_import *import,
                                           const struct mpl_import_place *place, const char *path,
                                           const char *json, struct memplan_error *err)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    enum memplan_status status = value ? keep(import, place, path, value, err)
                                       : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");

    json_decref(value);
    return status;
}

enum memplan_status mpl_import_set_text(struct mpl_import *import,
                                        const struct mpl_import_place *place, const char *path,
                                        const char *json, struct memplan_error *err)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    enum memplan_status status = value ? mpl_import_set(import, place, path, value, err)
                                       : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");

    json_decref(value);
    return status;
}

enum memplan_status mpl_import_default(struct mpl_import *import, const char *path,
                                       const char *json, struct memplan_error *err)
{
    struct mpl_import_place place = {0};

    if (mpl_import_get(import, path))
        return MEMPLAN_OK;
    snprintf(place.key, sizeof(place.key), "%s", path);
    return mpl_import_set_text(import, &place, path, json, err);
}

const json_t *mpl_import_get(const struct mpl_import *import, const char *path)
{
    const struct found *found = find(import, path);

    return found ? found->value : NULL;
}

const char *mpl_import_get_text(const struct mpl_import *import, const char *path)
{
    return json_string_value(mpl_import_get(import, path));
}

int64_t mpl_import_get_integer(const struct mpl_import *import, const char *path, int64_t absent)
{
    const json_t *json = mpl_import_get(import, path);

    return json_is_integer(json) ? json_integer_value(json) : absent;
}

bool mpl_import_is_true(const struct mpl_import *import, const char *path)
{
    return json_is_true(mpl_import_get(import, path));
}

void mpl_import_drop(struct mpl_import *import, const char *path)
{
    struct found *found = find(import, path);

    if (!found)
        return;
    json_decref(found->value);
    memmove(found, found + 1,
            (import->value_count - (size_t)(found - import->values) - 1) * sizeof(*found));
    import->value_count--;
}

struct mpl_import_place mpl_import_place_of(const struct mpl_import *import, const char *path)
{
    const struct found *found = find(import, path);

    return found ? found->place : (struct mpl_import_place){0};
}

const char *mpl_import_path(const struct mpl_import *import, size_t i,
                            const struct mpl_import_place **place_out)
{
    if (i >= import->value_count)
        return NULL;
    if (place_out)
        *place_out = &import->values[i].place;
    return import->values[i].path;
}
