/* SPDX-License-Identifier: MIT */
/* Stage "import": one value of a configuration as a value of a plan, as its row says. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "import/import.h"
#include "ingest/json.h"

const char *mpl_import_lower(const json_t *value, char *text, size_t size)
{
    const char *from = json_string_value(value);
    char number[48];
    size_t len;

    if (!from) {
        len = json_is_object(value) || json_is_array(value)
                  ? 0
                  : json_dumpb(value, number, sizeof(number) - 1,
                               JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        number[len < sizeof(number) ? len : 0] = '\0';
        from = number;
    }
    for (len = 0; from[len] && len + 1 < size; len++)
        text[len] = (char)tolower((unsigned char)from[len]);
    text[len] = '\0';
    return text;
}

bool mpl_import_is_off(const json_t *value, const char *off)
{
    static const char *const words[] = {"false", "0", "0.0", "none", "null", "no", "", "disabled"};
    char text[64];

    if (json_is_object(value))
        return json_object_size(value) == 0;
    if (json_is_array(value))
        return json_array_size(value) == 0;
    mpl_import_lower(value, text, sizeof(text));
    if (off && strcmp(text, off) == 0)
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

static enum memplan_status fail_type(const struct mpl_import_at *at, const json_t *value,
                                     const char *expected, struct memplan_error *err)
{
    char found[128];

    return mpl_import_fail(&at->place, MEMPLAN_ERR_VALUE, err, "found %s, expected %s",
                           mpl_json_describe(value, found, sizeof(found)), expected);
}

static enum memplan_status set_new(const struct mpl_import_at *at, json_t *json,
                                   struct memplan_error *err)
{
    enum memplan_status status =
        json ? mpl_import_set(at->import, &at->place, at->row->path, json, err)
             : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");

    json_decref(json);
    return status;
}

/* Text that is a number, as command lines and YAML hold it. New. */
static json_t *as_number(const json_t *value)
{
    const char *text = json_string_value(value);
    json_t *json;

    if (!text)
        return json_is_number(value) ? json_incref((json_t *)value) : NULL;
    json = mpl_import_scalar(text, strlen(text));
    if (json_is_number(json))
        return json;
    json_decref(json);
    return NULL;
}

/* 5e8 is a whole number, too: DeepSpeed's own configurations write it so. */
static json_t *as_whole(json_t *number)
{
    double value = json_real_value(number);

    if (!json_is_real(number))
        return number;
    if (!(value >= -9e15 && value <= 9e15) || value != (double)(json_int_t)value)
        return number;
    json_decref(number);
    return json_integer((json_int_t)value);
}

static enum memplan_status convert_number(const struct mpl_import_at *at, const json_t *value,
                                          struct memplan_error *err)
{
    const bool is_whole = at->row->kind == MPL_IMPORT_INTEGER;
    const char *text = json_string_value(value);
    json_t *number;

    if (text && strcmp(text, "auto") == 0)
        return at->row->takes_auto
                   ? mpl_import_set(at->import, &at->place, at->row->path, value, err)
                   : MEMPLAN_OK;
    number = as_number(value);
    if (number && is_whole)
        number = as_whole(number);
    if (!number || (is_whole && !json_is_integer(number))) {
        json_decref(number);
        return fail_type(at, value, is_whole ? "a whole number" : "a number", err);
    }
    return set_new(at, number, err);
}

static enum memplan_status convert_boolean(const struct mpl_import_at *at, const json_t *value,
                                           struct memplan_error *err)
{
    const char *text = json_string_value(value);
    json_t *json = text ? mpl_import_scalar(text, strlen(text)) : json_incref((json_t *)value);

    if (text && strcmp(text, "auto") == 0) {
        json_decref(json);
        return MEMPLAN_OK;
    }
    if (json_is_integer(json) && (json_integer_value(json) == 0 || json_integer_value(json) == 1)) {
        json_t *truth = json_boolean(json_integer_value(json));

        json_decref(json);
        json = truth;
    }
    if (!json_is_boolean(json)) {
        json_decref(json);
        return fail_type(at, value, "true or false", err);
    }
    return set_new(at, json, err);
}

/* The words that a row takes, for a message. */
static void list_words(const struct mpl_import_word *words, char *text, size_t size)
{
    size_t used = 0;

    *text = '\0';
    for (; words->text && used + 1 < size; words++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", words->text);
    text[mpl_json_cut(text, size - 1)] = '\0';
}

static enum memplan_status convert_word(const struct mpl_import_at *at, const json_t *value,
                                        struct memplan_error *err)
{
    const struct mpl_import_word *word;
    char text[96], list[200], found[128];

    if (json_is_object(value) || json_is_array(value))
        return fail_type(at, value, "a word", err);
    mpl_import_lower(value, text, sizeof(text));
    for (word = at->row->words; word->text; word++)
        if (strcmp(word->text, text) == 0)
            break;
    if (!word->text) {
        list_words(at->row->words, list, sizeof(list));
        return mpl_import_fail(&at->place, MEMPLAN_ERR_UNSUPPORTED, err,
                               "found %s, which is not modelled; expected one of %s",
                               mpl_json_describe(value, found, sizeof(found)), list);
    }
    if (word->note)
        mpl_import_note(at->import, &at->place, "%s", word->note);
    return word->json ? mpl_import_set_text(at->import, &at->place, at->row->path, word->json, err)
                      : MEMPLAN_OK;
}

/* "q_proj,v_proj" or "q_proj v_proj" as a list. New. */
static json_t *split_names(const char *text)
{
    json_t *list = json_array();

    while (list && *text) {
        size_t len = strcspn(text, ", ");

        if (len)
            json_array_append_new(list, json_stringn(text, len));
        text += len + (text[len] != '\0');
    }
    return list;
}

static enum memplan_status convert_names(const struct mpl_import_at *at, const json_t *value,
                                         struct memplan_error *err)
{
    const char *text = json_string_value(value);
    const json_t *name;
    json_t *list;
    size_t i;

    if (!text && !json_is_array(value))
        return fail_type(at, value, "a list of names", err);
    json_array_foreach(value, i, name)
    {
        if (!json_is_string(name))
            return fail_type(at, name, "a name", err);
    }
    if (text && (strcmp(text, "all-linear") == 0 || strcmp(text, "all") == 0))
        return mpl_import_set_text(at->import, &at->place, at->row->path, "\"all-linear\"", err);
    if (json_array_size(value) == 1 && json_is_string(json_array_get(value, 0)) &&
        strcmp(json_string_value(json_array_get(value, 0)), "all-linear") == 0)
        return mpl_import_set_text(at->import, &at->place, at->row->path, "\"all-linear\"", err);
    if (text && strpbrk(text, "*^$()|\\[]"))
        return mpl_import_fail(&at->place, MEMPLAN_ERR_UNSUPPORTED, err,
                               "found a regular expression, expected a list of names");
    if (text) {
        list = split_names(text);
        if (json_array_size(list))
            return set_new(at, list, err);
        json_decref(list);
        return MEMPLAN_OK;
    }
    if (strcmp(at->row->path, "training.lora.target_modules") == 0 &&
        mpl_import_names_layers(value)) /* told apart once the model is known */
        return mpl_import_set(at->import, &at->place, "import.layer_names", value, err);
    return json_array_size(value)
               ? mpl_import_set(at->import, &at->place, at->row->path, value, err)
               : MEMPLAN_OK;
}

enum memplan_status mpl_import_convert(const struct mpl_import_at *at, const json_t *value,
                                       struct memplan_error *err)
{
    const struct mpl_import_key *row = at->row;

    if (json_is_null(value))
        return MEMPLAN_OK;
    switch (row->kind) {
    case MPL_IMPORT_INTEGER:
    case MPL_IMPORT_NUMBER:
        return convert_number(at, value, err);
    case MPL_IMPORT_BOOLEAN:
        return convert_boolean(at, value, err);
    case MPL_IMPORT_WORD:
        return convert_word(at, value, err);
    case MPL_IMPORT_NAMES:
        return convert_names(at, value, err);
    case MPL_IMPORT_TEXT:
        return json_is_string(value) ? mpl_import_set(at->import, &at->place, row->path, value, err)
                                     : fail_type(at, value, "text", err);
    case MPL_IMPORT_UNLESS:
        if (!mpl_import_is_off(value, row->off))
            mpl_import_note(at->import, &at->place, "not modelled: %s", row->why);
        return MEMPLAN_OK;
    case MPL_IMPORT_CALL:
        return row->call(at, value, err);
    }
    return MEMPLAN_OK;
}
