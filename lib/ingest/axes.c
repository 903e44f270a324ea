/* SPDX-License-Identifier: MIT */
/* What a plan leaves open: {"any_of": [...]} in place of a scalar, and their combinations. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/value.h"

bool mpl_spec_is_open(const json_t *json)
{
    return json_object_get(json, "any_of") != NULL;
}

bool mpl_spec_can_open(const struct mpl_field *field)
{
    return field->type != MPL_FIELD_ANY && field->type != MPL_FIELD_LIST &&
           !(field->flags & (MPL_FIELD_READING | MPL_FIELD_SAME_AS));
}

static enum memplan_status check_members(const struct mpl_field *field, const json_t *json,
                                         const char *pointer, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)json, key, value)
    {
        if (strcmp(key, "any_of") == 0 || (mpl_spec_is_remark(key) && json_is_string(value)))
            continue;
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, pointer,
                          "%s: beside any_of only text is expected, in why, about, source or "
                          "comment",
                          field->path);
        break;
    }
    return status;
}

/* A list of 1 to 64 different scalars. */
static enum memplan_status check_choices(const struct mpl_field *field, const json_t *choices,
                                         const char *pointer, struct memplan_error *err)
{
    size_t count = json_array_size(choices);

    if (!json_is_array(choices) || count == 0)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer,
                        "%s: any_of is no list of values, expected at least one", field->path);
    if (count > MPL_SPEC_MOST_CHOICES)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, pointer,
                        "%s: any_of holds %zu values, expected at most %d", field->path, count,
                        MPL_SPEC_MOST_CHOICES);
    for (size_t i = 0; i < count; i++) {
        const json_t *choice = json_array_get(choices, i);

        if (json_is_object(choice) || json_is_array(choice))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer,
                            "%s: any_of holds a list or an object, expected scalars", field->path);
        for (size_t j = 0; j < i; j++)
            if (json_equal(choice, json_array_get(choices, j)))
                return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer,
                                "%s: any_of holds the same value twice", field->path);
    }
    return MEMPLAN_OK;
}

static enum memplan_status add_axis(struct mpl_spec *spec, const struct mpl_field *field,
                                    const json_t *json, struct memplan_error *err)
{
    const json_t *choices = json_object_get(json, "any_of");
    enum memplan_status status;
    char pointer[128];

    mpl_json_pointer(field->path, pointer, sizeof(pointer));
    status = check_members(field, json, pointer, err);
    if (!status)
        status = check_choices(field, choices, pointer, err);
    if (status)
        return status;
    /* Both factors are small: at most 4096 and 64. */
    spec->combination_count *= json_array_size(choices);
    if (spec->combination_count > MPL_SPEC_MOST_COMBINATIONS)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, pointer,
                        "the plan leaves more than %d combinations open",
                        MPL_SPEC_MOST_COMBINATIONS);
    spec->axes[spec->axis_count++] = (struct mpl_axis){
        .field = field,
        .choices = choices,
        .why = json_string_value(json_object_get(json, "why")),
    };
    return MEMPLAN_OK;
}

enum memplan_status mpl_spec_find_axes(struct mpl_spec *spec, struct memplan_error *err)
{
    spec->axis_count = 0;
    spec->combination_count = 1;
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);
        const json_t *json =
            mpl_spec_can_open(field) ? mpl_json_get(spec->document, field->path) : NULL;
        enum memplan_status status = MEMPLAN_OK;

        if (mpl_spec_is_open(json))
            status = add_axis(spec, field, json, err);
        if (status)
            return status;
    }
    return MEMPLAN_OK;
}

enum memplan_status mpl_spec_check_value(const struct mpl_field *field, const json_t *json,
                                         struct memplan_error *err)
{
    const json_t *choices = mpl_spec_can_open(field) ? json_object_get(json, "any_of") : NULL;
    size_t count = choices ? json_array_size(choices) : 1;
    enum memplan_status status = MEMPLAN_OK;
    char pointer[160];

    for (size_t i = 0; i < count && !status; i++) {
        struct mpl_value value = {field, choices ? json_array_get(choices, i) : json, pointer};

        mpl_json_pointer(field->path, pointer, 128);
        if (choices)
            snprintf(pointer + strlen(pointer), sizeof(pointer) - strlen(pointer), "/any_of/%zu",
                     i);
        status = mpl_value_store(&value, NULL, err);
    }
    return status;
}

size_t mpl_spec_axis_count(const struct mpl_spec *spec)
{
    return spec->axis_count;
}

const char *mpl_spec_axis_path(const struct mpl_spec *spec, size_t axis)
{
    return spec->axes[axis].field->path;
}

const char *mpl_spec_axis_why(const struct mpl_spec *spec, size_t axis)
{
    return spec->axes[axis].why;
}

size_t mpl_spec_axis_choices(const struct mpl_spec *spec, size_t axis)
{
    return json_array_size(spec->axes[axis].choices);
}

size_t mpl_spec_combination_count(const struct mpl_spec *spec)
{
    return spec->combination_count;
}

size_t mpl_spec_choice(const struct mpl_spec *spec, size_t combination, size_t axis)
{
    for (size_t i = spec->axis_count; i-- > axis + 1;)
        combination /= mpl_spec_axis_choices(spec, i);
    return combination % mpl_spec_axis_choices(spec, axis);
}

char *mpl_spec_choice_json(const struct mpl_spec *spec, size_t axis, size_t choice)
{
    return json_dumps(json_array_get(spec->axes[axis].choices, choice),
                      JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

void mpl_spec_describe(const struct mpl_spec *spec, size_t combination, char *text, size_t size)
{
    size_t used = 0;

    if (size)
        text[0] = '\0';
    for (size_t i = 0; i < spec->axis_count && used < size; i++) {
        const json_t *json =
            json_array_get(spec->axes[i].choices, mpl_spec_choice(spec, combination, i));
        char literal[64];
        size_t len =
            json_dumpb(json, literal, sizeof(literal), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        const char *shown = json_is_string(json) ? json_string_value(json) : literal;

        if (json_is_string(json))
            len = mpl_json_cut(shown, 128);
        used += (size_t)snprintf(text + used, size - used, "%s%s = %.*s", used ? ", " : "",
                                 spec->axes[i].field->path, (int)len, shown);
    }
}
