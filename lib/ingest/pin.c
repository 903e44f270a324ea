/* SPDX-License-Identifier: MIT */
/* A field that is to be varied: found by a part of its path, and held where readings were taken. */
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"

static size_t sections(const char *path)
{
    size_t count = 0;

    for (; *path; path++)
        count += *path == '.';
    return count;
}

/* True when the path's last names are these. */
static bool ends_in(const char *path, const char *name)
{
    const size_t len = strlen(path), name_len = strlen(name);

    return len > name_len && path[len - name_len - 1] == '.' &&
           strcmp(path + len - name_len, name) == 0;
}

static bool is_searched(const struct mpl_field *field)
{
    return !(field->flags & (MPL_FIELD_READING | MPL_FIELD_SAME_AS));
}

/* Of the fields that end in a name, one in the fewest sections; *rival_out is another such one. */
static const struct mpl_field *find_ending(const char *name, const struct mpl_field **rival_out)
{
    const struct mpl_field *found = NULL;

    *rival_out = NULL;
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);
        const size_t depth = sections(field->path);

        if (!is_searched(field) || !ends_in(field->path, name))
            continue;
        if (!found || depth < sections(found->path)) {
            found = field;
            *rival_out = NULL;
        } else if (depth == sections(found->path)) {
            *rival_out = field;
        }
    }
    return found;
}

enum memplan_status mpl_spec_find_field(const char *name, size_t *index_out,
                                        struct memplan_error *err)
{
    const struct mpl_field *field = mpl_field_find(name), *rival = NULL;

    if (field && field->same_as)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "%s is another name; expected %s",
                        field->path, field->same_as);
    if (field && (field->flags & MPL_FIELD_READING))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "%s is of an observation, not of the plan",
                        field->path);
    if (!field && *name)
        field = find_ending(name, &rival);
    if (rival)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "%.64s: expected one field, found %s and %s",
                        name, field->path, rival->path);
    if (!field)
        return mpl_spec_fail_name(name, NULL, err);
    *index_out = mpl_field_index(field);
    return MEMPLAN_OK;
}

static bool pin_one(json_t *observation, const char *path, json_t *value)
{
    json_t *set = json_object_get(observation, "set");

    if (!json_is_object(observation) || (set && !json_is_object(set) && !json_is_null(set)) ||
        json_object_get(set, path))
        return true; /* what is wrong with it is found when the plan is checked */
    if (!json_is_object(set)) {
        set = json_object();
        if (!set || json_object_set_new(observation, "set", set))
            return false;
    }
    return json_object_set_new(set, path, value ? json_deep_copy(value) : json_null()) == 0;
}

enum memplan_status mpl_spec_pin_readings(struct mpl_spec *spec, const char *path,
                                          struct memplan_error *err)
{
    const struct mpl_field *field = mpl_field_find(path);
    json_t *value = mpl_json_get(spec->document, path), *observation;
    size_t i;

    if (!field)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "%.96s is no field of a plan", path);
    if (!mpl_spec_can_open(field) || mpl_spec_is_open(value) || json_is_array(value) ||
        json_is_object(value) || strcmp(path, "training.sequence_length") == 0)
        return MEMPLAN_OK;
    json_array_foreach(json_object_get(spec->document, "observations"), i, observation)
    {
        if (!pin_one(observation, path, value))
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    }
    return MEMPLAN_OK;
}
