/* SPDX-License-Identifier: MIT */
/* Names of a plan's document against the field table. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/value.h"
#include "spec/suggest.h"

bool mpl_spec_is_remark(const char *name)
{
    return strcmp(name, "about") == 0 || strcmp(name, "source") == 0 ||
           strcmp(name, "comment") == 0 || strcmp(name, "why") == 0;
}

enum memplan_status mpl_spec_fail_name(const char *path, const char *pointer,
                                       struct memplan_error *err)
{
    const char *near = mpl_suggest_field(path);

    if (near)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "%.*s: no such field, did you mean %s?",
                        (int)mpl_json_cut(path, 80), path, near);
    return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "%.*s: no such field",
                    (int)mpl_json_cut(path, 80), path);
}

/* "/a/b" and a key, escaped as RFC 6901 says, into text. */
static void append_pointer(const char *pointer, const char *key, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s/", pointer);

    for (; *key && used + 3 < size; key++) {
        if (*key == '~' || *key == '/') {
            text[used++] = '~';
            text[used++] = *key == '~' ? '0' : '1';
        } else {
            text[used++] = (unsigned char)*key < 0x20 ? '?' : *key;
        }
    }
    if (used < size)
        text[used] = '\0';
}

static enum memplan_status check_object(const json_t *object, const char *prefix,
                                        const char *pointer, struct memplan_error *err);

static enum memplan_status check_member(const char *key, const json_t *value, const char *prefix,
                                        const char *pointer, struct memplan_error *err)
{
    char path[128], here[128], found[128];

    append_pointer(pointer, key, here, sizeof(here));
    if (mpl_spec_is_remark(key)) {
        if (json_is_string(value))
            return MEMPLAN_OK;
        return mpl_fail(err, MEMPLAN_ERR_VALUE, here, "%s: found %s, expected text", key,
                        mpl_json_describe(value, found, sizeof(found)));
    }
    snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
    if (strlen(key) > 64 || strpbrk(key, ".["))
        return mpl_spec_fail_name(path, here, err);
    if (mpl_field_find(path) || strcmp(path, "model") == 0)
        return MEMPLAN_OK;
    if (!mpl_field_is_section(path))
        return mpl_spec_fail_name(path, here, err);
    if (json_is_null(value))
        return MEMPLAN_OK;
    if (!json_is_object(value))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, here, "%s: found %s, expected an object", path,
                        mpl_json_describe(value, found, sizeof(found)));
    return check_object(value, path, here, err);
}

/* Calls itself once for each level of the field table, not of the input: three at most. */
static enum memplan_status check_object(const json_t *object, const char *prefix,
                                        const char *pointer, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const char *key;
    json_t *value;

    /* The iterator takes a mutable object and does not change it. */
    json_object_foreach((json_t *)object, key, value)
    {
        status = check_member(key, value, prefix, pointer, err);
        if (status)
            break;
    }
    return status;
}

enum memplan_status mpl_spec_check_names(const json_t *document, struct memplan_error *err)
{
    const json_t *model = json_object_get(document, "model");
    char found[128];

    if (model && !json_is_object(model))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/model", "model: found %s, expected an object",
                        mpl_json_describe(model, found, sizeof(found)));
    return check_object(document, "", "", err);
}

/* The section that holds a path, and the name in it. */
static json_t *section_of(json_t *document, const char *path, const char **name_out)
{
    const char *end = strrchr(path, '.');
    char section[128];

    snprintf(section, sizeof(section), "%.*s", (int)(end - path), path);
    *name_out = end + 1;
    return mpl_json_get(document, section);
}

/* One field under another name: its value times what one unit is worth there. */
static enum memplan_status move_one(json_t *document, const struct mpl_field *field,
                                    struct memplan_error *err)
{
    const char *name;
    json_t *section = section_of(document, field->path, &name);
    json_t *json = json_object_get(section, name), *moved;
    enum memplan_status status;
    char pointer[128];
    int64_t number;

    mpl_json_pointer(field->path, pointer, sizeof(pointer));
    if (!json)
        return MEMPLAN_OK;
    if (mpl_json_get(document, field->same_as))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "%s and %s say the same, expected one",
                        field->path, field->same_as);
    moved = json_incref(json);
    if (field->scale) {
        struct mpl_value value = {field, json, pointer};

        json_decref(moved);
        status = mpl_value_integer(&value, &number, err);
        if (status)
            return status;
        moved = json_integer(number * field->scale);
    }
    status = moved ? mpl_json_put(document, field->same_as, moved) : MEMPLAN_ERR_NOMEM;
    json_decref(moved);
    if (status == MEMPLAN_ERR_NOMEM)
        return mpl_fail(err, status, NULL, "out of memory");
    if (status) {
        const char *end = strchr(field->same_as, '.');

        snprintf(pointer, sizeof(pointer), "/%.*s", (int)(end - field->same_as), field->same_as);
        return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "%s: expected an object, to hold %s",
                        pointer + 1, field->same_as);
    }
    json_object_del(section, name);
    return MEMPLAN_OK;
}

#define QUANTIZATION "model.quantization_config"

/* Older configs of bitsandbytes do not say whose they are. */
static enum memplan_status name_quantization(json_t *document, struct memplan_error *err)
{
    json_t *config = mpl_json_get(document, QUANTIZATION);
    const char *method = json_string_value(json_object_get(config, "quant_method"));

    if (!json_is_object(config) || !json_object_size(config))
        return MEMPLAN_OK;
    if (json_is_true(json_object_get(config, "load_in_8bit")))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/quantization_config/load_in_8bit",
                        "model.quantization_config.load_in_8bit: weights in 8 bits are not "
                        "modelled; modelled: 4");
    if (method && strcmp(method, "bitsandbytes") != 0)
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/quantization_config",
                        QUANTIZATION ": quant_method \"%.*s\" is not modelled; modelled: "
                                     "bitsandbytes",
                        (int)mpl_json_cut(method, 40), method);
    if (method)
        return MEMPLAN_OK;
    if (!json_is_true(json_object_get(config, "load_in_4bit")))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/model/quantization_config",
                        QUANTIZATION ": found no quant_method; modelled: bitsandbytes");
    if (json_object_set_new(config, "quant_method", json_string("bitsandbytes")))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    return MEMPLAN_OK;
}

enum memplan_status mpl_spec_move_names(json_t *document, struct memplan_error *err)
{
    enum memplan_status named = name_quantization(document, err);

    if (named)
        return named;
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);

        if (field->flags & MPL_FIELD_SAME_AS) {
            enum memplan_status status = move_one(document, field, err);

            if (status)
                return status;
        }
    }
    if (json_object_size(json_object_get(document, "card")) == 0 &&
        json_is_object(json_object_get(document, "card")))
        json_object_del(document, "card");
    if (json_is_object(mpl_json_get(document, QUANTIZATION))) /* the rest says how it was made */
        json_object_del(json_object_get(document, "model"), "quantization_config");
    return MEMPLAN_OK;
}
