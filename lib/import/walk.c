/* SPDX-License-Identifier: MIT */
/* Stage "import": every key of a configuration against the tables of its reader. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "ingest/json.h"

#define MOST_LEVELS 6 /* of names with dots in the tables */

/* One object of the configuration under way. */
struct level {
    const json_t *object;
    void *at;         /* jansson's place in it */
    char prefix[128]; /* of its keys: "" or "a.b." */
};

static const struct mpl_import_key *find_key(const struct mpl_import_reader *reader,
                                             const char *key)
{
    for (; reader; reader = reader->base)
        for (size_t i = 0; i < reader->key_count; i++)
            if (strcmp(reader->keys[i].key, key) == 0)
                return &reader->keys[i];
    return NULL;
}

static bool is_harmless(const struct mpl_import_reader *reader, const char *key)
{
    for (; reader; reader = reader->base)
        for (const char *const *name = reader->harmless; name && *name; name++) {
            size_t len = strlen(*name);

            if (strcmp(*name, key) == 0)
                return true;
            if (len > 2 && strcmp(*name + len - 2, ".*") == 0 &&
                strncmp(*name, key, len - 2) == 0 && (!key[len - 2] || key[len - 2] == '.'))
                return true;
        }
    return false;
}

/* True where the tables have names below this one. */
static bool is_section(const struct mpl_import_reader *reader, const char *key)
{
    size_t len = strlen(key);

    for (; reader; reader = reader->base) {
        for (size_t i = 0; i < reader->key_count; i++)
            if (strncmp(reader->keys[i].key, key, len) == 0 && reader->keys[i].key[len] == '.')
                return true;
        for (const char *const *name = reader->harmless; name && *name; name++)
            if (strncmp(*name, key, len) == 0 && (*name)[len] == '.')
                return true;
    }
    return false;
}

static bool is_remark(const char *name)
{
    return *name == '_' || *name == '#' || *name == '/' || strcmp(name, "comment") == 0;
}

/* What is in no table: said, unless it is switched off. */
static void note_unknown(struct mpl_import *import, const struct mpl_import_place *place,
                         const json_t *value, const struct mpl_import_reader *reader)
{
    char found[128];

    if (!mpl_import_is_off(value, NULL))
        mpl_import_note(import, place, "not a key that is known of a %s; %s was not read",
                        reader->name, mpl_json_describe(value, found, sizeof(found)));
}

/* One key; true in *goes_down when its value is a section of the tables. */
static enum memplan_status take(struct mpl_import_at *at, const struct mpl_import_reader *reader,
                                const char *key, const json_t *value, bool *goes_down,
                                struct memplan_error *err)
{
    *goes_down = false;
    at->row = find_key(reader, key);
    if (json_object_get(value, MPL_IMPORT_OPEN)) {
        if (at->row || !is_harmless(reader, key))
            mpl_import_note(at->import, &at->place,
                            "depends on what the script does not set, and was not read");
        return MEMPLAN_OK;
    }
    if (at->row)
        return mpl_import_convert(at, value, err);
    if (is_section(reader, key)) {
        *goes_down = json_is_object(value);
        if (*goes_down || mpl_import_is_off(value, "auto"))
            return MEMPLAN_OK;
    }
    if (!is_harmless(reader, key))
        note_unknown(at->import, &at->place, value, reader);
    return MEMPLAN_OK;
}

static void place_key(struct mpl_import_at *at, const char *prefix, const char *key)
{
    snprintf(at->place.key, sizeof(at->place.key), "%.20s%.*s", prefix,
             (int)mpl_json_cut(key, sizeof(at->place.key) - 21), key);
    at->place.line = mpl_import_line(at->doc, at->place.key);
    if (!at->place.line) /* flags have dashes before their names */
        at->place.line = mpl_import_line(at->doc, key);
}

enum memplan_status mpl_import_walk(struct mpl_import *import, const struct mpl_import_doc *doc,
                                    const json_t *object, const char *prefix,
                                    const struct mpl_import_reader *reader,
                                    struct memplan_error *err)
{
    struct level levels[MOST_LEVELS] = {{.object = object}};
    enum memplan_status status = MEMPLAN_OK;
    int depth = 0;

    levels[0].at = json_object_iter((json_t *)object);
    while (depth >= 0 && !status) {
        struct level *level = &levels[depth];
        struct mpl_import_at at = {import, doc, NULL, {.file = doc->file}};
        const json_t *value;
        const char *name;
        char key[192];
        bool goes_down;

        if (!level->at) {
            depth--;
            continue;
        }
        name = json_object_iter_key(level->at);
        value = json_object_iter_value(level->at);
        level->at = json_object_iter_next((json_t *)level->object, level->at);
        if (is_remark(name))
            continue;
        snprintf(key, sizeof(key), "%s%s", level->prefix, name);
        place_key(&at, prefix, key);
        status = take(&at, reader, key, value, &goes_down, err);
        if (goes_down && depth + 1 < MOST_LEVELS && strlen(key) + 2 < sizeof(level->prefix)) {
            levels[++depth] = (struct level){value, json_object_iter((json_t *)value), ""};
            snprintf(levels[depth].prefix, sizeof(levels[depth].prefix), "%.120s.", key);
        }
    }
    return status;
}
