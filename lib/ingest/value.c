/* SPDX-License-Identifier: MIT */
/* One JSON value against one row of the field table: type, range, words; then into the plan. */
#include "ingest/value.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/json.h"
#include "spec/config_class.h"
#include "spec/suggest.h"
#include "spec/text.h"

static enum memplan_status fail_type(const struct mpl_value *value, const char *expected,
                                     struct memplan_error *err)
{
    char found[128];

    return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer, "%s: found %s, expected %s",
                    value->field->path, mpl_json_describe(value->json, found, sizeof(found)),
                    expected);
}

static enum memplan_status fail_range(const struct mpl_value *value, struct memplan_error *err)
{
    char found[128];

    return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer, "%s: found %s, expected %s",
                    value->field->path, mpl_json_describe(value->json, found, sizeof(found)),
                    value->field->range);
}

enum memplan_status mpl_value_integer(const struct mpl_value *value, int64_t *out,
                                      struct memplan_error *err)
{
    const struct mpl_field *field = value->field;
    int64_t number;

    if (json_is_boolean(value->json) && (field->flags & MPL_FIELD_BOOL_NUMBER)) {
        *out = json_is_true(value->json) ? MPL_RESHARD_TRUE : MPL_RESHARD_FALSE;
        return MEMPLAN_OK;
    }
    if (json_is_integer(value->json)) {
        number = json_integer_value(value->json);
    } else if (json_is_real(value->json)) {
        double real = json_real_value(value->json);

        /* Both bounds are exact in a double; every range of the table lies inside them. */
        if (!(real >= -9007199254740992.0 && real <= 9007199254740992.0))
            return fail_range(value, err);
        if (real != floor(real))
            return fail_type(value, "an integer", err);
        number = (int64_t)real;
    } else {
        return fail_type(value, "an integer", err);
    }
    if (number < field->min || number > field->max)
        return fail_range(value, err);
    *out = number;
    return MEMPLAN_OK;
}

static enum memplan_status read_number(const struct mpl_value *value, double *out,
                                       struct memplan_error *err)
{
    const struct mpl_field *field = value->field;
    double number = 0;

    if (json_is_number(value->json))
        number = json_number_value(value->json);
    else if (json_is_boolean(value->json) && (field->flags & MPL_FIELD_BOOL_NUMBER))
        number = json_is_true(value->json) ? 1 : 0;
    else if (!json_is_string(value->json) || !(field->flags & MPL_FIELD_TEXT_NUMBER) ||
             !mpl_number_parse(json_string_value(value->json), &number))
        return fail_type(value, "a number", err);
    if (!(number >= (double)field->min && number <= (double)field->max))
        return fail_range(value, err);
    *out = number;
    return MEMPLAN_OK;
}

static enum memplan_status read_bytes(const struct mpl_value *value, int64_t *out,
                                      struct memplan_error *err)
{
    struct mpl_size size;

    if (!json_is_string(value->json))
        return mpl_value_integer(value, out, err);
    if (!mpl_size_parse(json_string_value(value->json), &size) || !size.unit)
        return fail_type(value, "bytes, or text with a unit: \"80 GB\" (1e9), \"75 GiB\" (2^30)",
                         err);
    if (!mpl_size_bytes(&size, out) || *out < value->field->min || *out > value->field->max)
        return fail_range(value, err);
    return MEMPLAN_OK;
}

static enum memplan_status read_text(const struct mpl_value *value, char *out,
                                     struct memplan_error *err)
{
    if (!json_is_string(value->json))
        return fail_type(value, "text", err);
    if (json_string_length(value->json) >= value->field->size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer,
                        "%s: found %zu bytes of text, expected at most %zu", value->field->path,
                        json_string_length(value->json), value->field->size - 1);
    memset(out, 0, value->field->size);
    memcpy(out, json_string_value(value->json), json_string_length(value->json));
    return MEMPLAN_OK;
}

static enum memplan_status fail_word(const struct mpl_value *value, const struct mpl_word *words,
                                     const char *near, struct memplan_error *err)
{
    char found[128], list[128];

    mpl_word_list(words, list, sizeof(list));
    mpl_json_describe(value->json, found, sizeof(found));
    if (near)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer,
                        "%s: found %s, did you mean \"%s\"? Expected one of: %s",
                        value->field->path, found, near, list);
    return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer, "%s: found %s, expected one of: %s",
                    value->field->path, found, list);
}

enum memplan_status mpl_value_word_of(const struct mpl_value *value, const struct mpl_word *words,
                                      const struct mpl_word **out, struct memplan_error *err)
{
    const struct mpl_word *word;
    char list[128];

    if (!json_is_string(value->json))
        return fail_word(value, words, NULL, err);
    word = mpl_word_find(words, json_string_value(value->json));
    if (!word)
        return fail_word(value, words, mpl_suggest_word(words, json_string_value(value->json)),
                         err);
    if (word->hint)
        return fail_word(value, words, word->hint, err);
    if (word->unsupported) {
        mpl_word_list(words, list, sizeof(list));
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, value->pointer,
                        "%s: \"%s\" is not modelled; modelled: %s", value->field->path, word->word,
                        list);
    }
    *out = word;
    return MEMPLAN_OK;
}

enum memplan_status mpl_value_word(const struct mpl_value *value, const struct mpl_word **out,
                                   struct memplan_error *err)
{
    return mpl_value_word_of(value, value->field->words, out, err);
}

/* A model_type: one that has a configuration class; else near names, or what is known and not
 * modelled. */
static enum memplan_status read_model_type(const struct mpl_value *value, struct memplan_error *err)
{
    const char *text = json_string_value(value->json), *near;
    const bool is_assumed = value->field->offset == MPL_FIELD_NOWHERE; /* model.assume */
    const char *way = is_assumed ? "" : " (model.assume, --assume: read it as one of these)";
    char found[128], list[448];

    if (text && mpl_config_class_find(text))
        return MEMPLAN_OK;
    mpl_config_class_list(list, sizeof(list));
    if (text && mpl_word_find(value->field->words, text))
        return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, value->pointer,
                        "%s: \"%s\" is not modelled; modelled%s: %s", value->field->path, text, way,
                        list);
    mpl_json_describe(value->json, found, sizeof(found));
    near = text ? mpl_suggest_model_type(text) : NULL;
    if (near)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer,
                        "%s: found %s, did you mean \"%s\"? Expected one of%s: %s",
                        value->field->path, found, near, way, list);
    return mpl_fail(err, MEMPLAN_ERR_VALUE, value->pointer, "%s: found %s, expected one of%s: %s",
                    value->field->path, found, way, list);
}

static enum memplan_status read_version(const struct mpl_value *value, struct mpl_version *out,
                                        struct memplan_error *err)
{
    if (!json_is_string(value->json) || !mpl_version_parse(json_string_value(value->json), out))
        return fail_type(value, "a version as text, such as \"2.9.1\"", err);
    return MEMPLAN_OK;
}

/* A field that changes memory in a way that is not modelled: nothing in it, or its default. */
static enum memplan_status check_refused(const struct mpl_value *value, struct memplan_error *err)
{
    const json_t *json = value->json;
    const char *fallback = value->field->fallback ? value->field->fallback : "null";
    double number = 0;

    if (json_is_null(json) || json_is_false(json) ||
        (json_is_array(json) && json_array_size(json) == 0) ||
        (json_is_object(json) && json_object_size(json) == 0))
        return MEMPLAN_OK;
    if (json_is_number(json) && mpl_number_parse(fallback, &number) &&
        json_number_value(json) == number)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, value->pointer, "%s: %s", value->field->path,
                    value->field->help);
}

/* The types that are stored as text or as more than one number. */
static enum memplan_status store_text(const struct mpl_value *value, char *place,
                                      struct memplan_error *err)
{
    const struct mpl_word *word;
    struct mpl_version version;
    enum memplan_status status;
    char text[512] = "";

    if (value->field->type == MPL_FIELD_VERSION) {
        status = read_version(value, &version, err);
        if (!status && place)
            memcpy(place, &version, sizeof(version));
        return status;
    }
    if (value->field->type == MPL_FIELD_MODEL_TYPE && (status = read_model_type(value, err)))
        return status;
    if (value->field->type == MPL_FIELD_NAME && (status = mpl_value_word(value, &word, err)))
        return status;
    status = read_text(value, text, err);
    if (!status && place)
        memcpy(place, text, value->field->size);
    return status;
}

static enum memplan_status store_word(const struct mpl_value *value, char *place,
                                      struct memplan_error *err)
{
    const struct mpl_word *word;
    enum memplan_status status = mpl_value_word(value, &word, err);

    if (!status && place)
        memcpy(place, &word->value, sizeof(word->value));
    return status;
}

static enum memplan_status store_boolean(const struct mpl_value *value, char *place,
                                         struct memplan_error *err)
{
    bool is_true = json_is_true(value->json);
    enum mpl_tristate state = is_true ? MPL_TRUE : MPL_FALSE;

    if (!json_is_boolean(value->json))
        return fail_type(value, "true or false", err);
    if (place && value->field->type == MPL_FIELD_BOOLEAN)
        memcpy(place, &is_true, sizeof(is_true));
    else if (place)
        memcpy(place, &state, sizeof(state));
    return MEMPLAN_OK;
}

static enum memplan_status store_number(const struct mpl_value *value, char *place,
                                        struct memplan_error *err)
{
    enum memplan_status status;
    int64_t integer = 0;
    double number = 0;

    if (value->field->type == MPL_FIELD_NUMBER) {
        status = read_number(value, &number, err);
        if (!status && place)
            memcpy(place, &number, sizeof(number));
        return status;
    }
    status = value->field->type == MPL_FIELD_BYTES ? read_bytes(value, &integer, err)
                                                   : mpl_value_integer(value, &integer, err);
    if (!status && place)
        memcpy(place, &integer, sizeof(integer));
    return status;
}

static enum memplan_status store_patterns(const struct mpl_value *value, struct mpl_plan *plan,
                                          struct memplan_error *err)
{
    const size_t count = json_array_size(value->json);

    if (!json_is_array(value->json) || count > MPL_MAX_FROZEN)
        return fail_type(value, value->field->range, err);
    for (size_t i = 0; i < count; i++) {
        const char *pattern = json_string_value(json_array_get(value->json, i));

        if (!pattern || strlen(pattern) >= sizeof(plan->training.frozen[0]))
            return fail_type(value, "patterns of less than 96 bytes each", err);
        if (plan)
            strcpy(plan->training.frozen[i], pattern);
    }
    if (plan)
        plan->training.frozen_count = (uint32_t)count;
    return MEMPLAN_OK;
}

/* A list of names, or a word that stands for one: kept as a list of that word. */
static enum memplan_status store_names(const struct mpl_value *value, struct mpl_names *names,
                                       struct memplan_error *err)
{
    const bool is_list = json_is_array(value->json);
    const size_t count = is_list ? json_array_size(value->json) : 1;
    const struct mpl_word *word;
    enum memplan_status status;

    if (!is_list && (!json_is_string(value->json) || !value->field->words))
        return fail_type(value, value->field->range, err);
    if (!is_list && (status = mpl_value_word(value, &word, err)))
        return status;
    if (count > MPL_MAX_NAMES)
        return fail_type(value, value->field->range, err);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = is_list ? json_array_get(value->json, i) : value->json;
        const char *name = json_string_value(entry);

        if (!name || !*name || strlen(name) >= sizeof(names->of[0]))
            return fail_type(value, "names of less than 64 bytes each", err);
        if (names)
            strcpy(names->of[i], name);
    }
    if (names)
        names->count = (uint32_t)count;
    return MEMPLAN_OK;
}

/* One word for each layer. */
static enum memplan_status store_layer_words(const struct mpl_value *value,
                                             struct mpl_layer_list *list, struct memplan_error *err)
{
    const size_t count = json_array_size(value->json);

    if (!json_is_array(value->json) || count > MPL_MAX_LAYERS)
        return fail_type(value, value->field->range, err);
    for (size_t i = 0; i < count; i++) {
        const struct mpl_value entry = {value->field, json_array_get(value->json, i),
                                        value->pointer};
        const struct mpl_word *word;
        enum memplan_status status = mpl_value_word(&entry, &word, err);

        if (status)
            return status;
        if (list)
            list->of[i] = (uint8_t)word->value;
    }
    if (list)
        list->count = (uint32_t)count;
    return MEMPLAN_OK;
}

/* 0 or 1, or false or true, for each layer. */
static enum memplan_status store_layer_flags(const struct mpl_value *value,
                                             struct mpl_layer_list *list, struct memplan_error *err)
{
    const size_t count = json_array_size(value->json);

    if (!json_is_array(value->json) || count > MPL_MAX_LAYERS)
        return fail_type(value, value->field->range, err);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(value->json, i);
        const json_int_t flag = json_is_true(entry) ? 1 : json_integer_value(entry);

        if ((!json_is_integer(entry) && !json_is_boolean(entry)) || flag < 0 || flag > 1)
            return fail_type(value, value->field->range, err);
        if (list)
            list->of[i] = (uint8_t)flag;
    }
    if (list)
        list->count = (uint32_t)count;
    return MEMPLAN_OK;
}

/* The numbers of the layers that are set. */
static enum memplan_status store_layer_set(const struct mpl_value *value,
                                           struct mpl_layer_list *list, struct memplan_error *err)
{
    const size_t count = json_array_size(value->json);

    if (!json_is_array(value->json))
        return fail_type(value, "a list of layer numbers", err);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(value->json, i);
        const json_int_t layer = json_integer_value(entry);

        if (!json_is_integer(entry) || layer < 0 || layer >= MPL_MAX_LAYERS)
            return fail_type(value, "a list of layer numbers", err);
        if (list)
            list->of[layer] = 1;
    }
    if (list)
        list->count = (uint32_t)count;
    return MEMPLAN_OK;
}

/* Tokens of batches in turn. */
static enum memplan_status store_lengths(const struct mpl_value *value,
                                         struct mpl_length_list *list, struct memplan_error *err)
{
    const struct mpl_field *field = value->field;
    const size_t count = json_array_size(value->json);

    if (!json_is_array(value->json) || count > MPL_MAX_LENGTHS)
        return fail_type(value, field->range, err);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(value->json, i);
        const json_int_t length = json_integer_value(entry);

        if (!json_is_integer(entry) || length < field->min || length > field->max)
            return fail_type(value, field->range, err);
        if (list)
            list->of[i] = (int32_t)length;
    }
    if (list)
        list->count = (uint32_t)count;
    return MEMPLAN_OK;
}

enum memplan_status mpl_value_store(const struct mpl_value *value, struct mpl_plan *plan,
                                    struct memplan_error *err)
{
    const struct mpl_field *field = value->field;
    char *place = plan && field->offset != MPL_FIELD_NOWHERE ? (char *)plan + field->offset : NULL;

    if (json_is_null(value->json))
        return MEMPLAN_OK;
    switch (field->type) {
    case MPL_FIELD_INTEGER:
    case MPL_FIELD_NUMBER:
    case MPL_FIELD_BYTES:
        return store_number(value, place, err);
    case MPL_FIELD_STRING:
    case MPL_FIELD_NAME:
    case MPL_FIELD_MODEL_TYPE:
    case MPL_FIELD_VERSION:
        return store_text(value, place, err);
    case MPL_FIELD_BOOLEAN:
    case MPL_FIELD_TRISTATE:
        return store_boolean(value, place, err);
    case MPL_FIELD_WORD:
        return store_word(value, place, err);
    case MPL_FIELD_REFUSED:
        return check_refused(value, err);
    case MPL_FIELD_LIST:
        if (!json_is_array(value->json))
            return fail_type(value, "a list", err);
        return MEMPLAN_OK;
    case MPL_FIELD_PATTERNS:
        return store_patterns(value, plan, err);
    case MPL_FIELD_NAMES:
        return store_names(value, (struct mpl_names *)(void *)place, err);
    case MPL_FIELD_LAYER_WORDS:
        return store_layer_words(value, (struct mpl_layer_list *)(void *)place, err);
    case MPL_FIELD_LAYER_FLAGS:
        return store_layer_flags(value, (struct mpl_layer_list *)(void *)place, err);
    case MPL_FIELD_LAYER_SET:
        return store_layer_set(value, (struct mpl_layer_list *)(void *)place, err);
    case MPL_FIELD_LENGTHS:
        return store_lengths(value, (struct mpl_length_list *)(void *)place, err);
    case MPL_FIELD_ANY:
        break;
    }
    return MEMPLAN_OK;
}
