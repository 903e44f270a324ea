/* SPDX-License-Identifier: MIT */
/* The field table as a list for people and as a JSON schema for editors. */
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "spec/config_class.h"
#include "spec/words.h"

bool mpl_spec_field(size_t i, struct memplan_field *field_out)
{
    const struct mpl_field *field;

    if (i >= mpl_field_count())
        return false;
    field = mpl_field_at(i);
    field_out->path = field->path;
    field_out->type = mpl_field_type_name(field);
    field_out->range = field->range ? field->range : "";
    field_out->fallback = field->fallback ? field->fallback : "null";
    field_out->help = field->help;
    return true;
}

/* The words that the lists are made of, beside the families. */
static const struct mpl_word *words_of(enum memplan_list list)
{
    switch (list) {
    case MEMPLAN_LIST_OPTIMIZERS:
        return mpl_optimizer_words;
    case MEMPLAN_LIST_ATTENTION:
        return mpl_attention_words;
    case MEMPLAN_LIST_LOSSES:
        return mpl_loss_words;
    case MEMPLAN_LIST_FAMILIES:
        break;
    }
    return NULL;
}

bool mpl_spec_entry(enum memplan_list list, size_t i, struct memplan_entry *entry_out)
{
    const struct mpl_config_class *config;

    if (list == MEMPLAN_LIST_FAMILIES) {
        config = mpl_config_class_at(i);
        if (config)
            *entry_out = (struct memplan_entry){config->model_type, config->help};
        return config != NULL;
    }
    for (const struct mpl_word *word = words_of(list); word && word->word; word++)
        if (!word->unsupported && !word->hint && i-- == 0) {
            *entry_out = (struct memplan_entry){word->word, word->help};
            return true;
        }
    return false;
}

/* The words that a field accepts, as a list. */
static json_t *word_list(const struct mpl_word *words)
{
    json_t *list = json_array();

    for (; list && words->word; words++)
        if (!words->unsupported && !words->hint)
            json_array_append_new(list, json_string(words->word));
    return list;
}

/* The model types that are known, as a list. */
static json_t *model_types(void)
{
    const struct mpl_config_class *config;
    json_t *list = json_array();

    for (size_t i = 0; list && (config = mpl_config_class_at(i)); i++)
        json_array_append_new(list, json_string(config->model_type));
    if (list)
        json_array_append_new(list, json_null());
    return list;
}

/* What each accepted word is, in the same order, for editors; NULL where the list says nothing. */
static json_t *word_descriptions(const struct mpl_word *words)
{
    json_t *list = json_array();

    for (; list && words->word; words++) {
        if (words->unsupported || words->hint)
            continue;
        if (!words->help) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_string(words->help));
    }
    return list;
}

/* {"enum": [..., null]}, and what the words are */
static json_t *word_schema(const struct mpl_word *words)
{
    json_t *list = word_list(words), *descriptions = word_descriptions(words), *schema;

    if (list)
        json_array_append_new(list, json_null());
    if (descriptions)
        json_array_append_new(descriptions, json_string("the default"));
    schema = json_pack("{s:o}", "enum", list);
    if (descriptions)
        json_object_set_new(schema, "enumDescriptions", descriptions);
    return schema;
}

/* The form of one value, null included: it means "the default". */
static json_t *value_schema(const struct mpl_field *field)
{
    json_t *bounds;

    switch (field->type) {
    case MPL_FIELD_INTEGER:
        bounds = json_pack("{s:[s,s], s:I, s:I}", "type", "integer", "null", "minimum",
                           (json_int_t)field->min, "maximum", (json_int_t)field->max);
        if (field->flags & MPL_FIELD_BOOL_NUMBER)
            json_array_append_new(json_object_get(bounds, "type"), json_string("boolean"));
        return bounds;
    case MPL_FIELD_BYTES:
        return json_pack("{s:[s,s,s], s:I, s:I}", "type", "integer", "string", "null", "minimum",
                         (json_int_t)field->min, "maximum", (json_int_t)field->max);
    case MPL_FIELD_NUMBER:
        bounds = json_pack("{s:[s,s], s:I, s:I}", "type", "number", "null", "minimum",
                           (json_int_t)field->min, "maximum", (json_int_t)field->max);
        if (field->flags & MPL_FIELD_TEXT_NUMBER)
            json_array_append_new(json_object_get(bounds, "type"), json_string("string"));
        if (field->flags & MPL_FIELD_BOOL_NUMBER)
            json_array_append_new(json_object_get(bounds, "type"), json_string("boolean"));
        return bounds;
    case MPL_FIELD_BOOLEAN:
    case MPL_FIELD_TRISTATE:
        return json_pack("{s:[s,s]}", "type", "boolean", "null");
    case MPL_FIELD_STRING:
    case MPL_FIELD_VERSION:
        return json_pack("{s:[s,s]}", "type", "string", "null");
    case MPL_FIELD_WORD:
    case MPL_FIELD_NAME:
        return word_schema(field->words);
    case MPL_FIELD_PATTERNS:
        return json_pack("{s:[s,s], s:{s:s}, s:i}", "type", "array", "null", "items", "type",
                         "string", "maxItems", MPL_MAX_FROZEN);
    case MPL_FIELD_NAMES:
        return json_pack("{s:[s,s,s], s:{s:s}, s:i}", "type", "array", "string", "null", "items",
                         "type", "string", "maxItems", MPL_MAX_NAMES);
    case MPL_FIELD_MODEL_TYPE:
        /* Another text is accepted beside model.assume: editors offer the list, and take it. */
        return field->offset == MPL_FIELD_NOWHERE ? json_pack("{s:o}", "enum", model_types())
                                                  : json_pack("{s:[{s:o}, {s:s}]}", "anyOf", "enum",
                                                              model_types(), "type", "string");
    case MPL_FIELD_LAYER_WORDS:
        return json_pack("{s:[s,s], s:{s:o}, s:i}", "type", "array", "null", "items", "enum",
                         word_list(field->words), "maxItems", MPL_MAX_LAYERS);
    case MPL_FIELD_LAYER_FLAGS:
    case MPL_FIELD_LAYER_SET:
        return json_pack("{s:[s,s], s:{s:s}, s:i}", "type", "array", "null", "items", "type",
                         "integer", "maxItems", MPL_MAX_LAYERS);
    case MPL_FIELD_LENGTHS:
        return json_pack("{s:[s,s], s:{s:s, s:I, s:I}, s:i}", "type", "array", "null", "items",
                         "type", "integer", "minimum", (json_int_t)field->min, "maximum",
                         (json_int_t)field->max, "maxItems", MPL_MAX_LENGTHS);
    case MPL_FIELD_LIST:
    case MPL_FIELD_ANY:
    case MPL_FIELD_REFUSED:
        break;
    }
    return json_object();
}

/* A value, or alternatives of it, with what people read. */
static json_t *field_schema(const struct mpl_field *field)
{
    json_t *value = value_schema(field), *schema = value, *fallback;
    bool is_reading_set = (field->flags & MPL_FIELD_READING) && field->type == MPL_FIELD_WORD &&
                          strstr(field->path, "outcome") == NULL;

    if (value && field->type != MPL_FIELD_REFUSED && (mpl_spec_can_open(field) || is_reading_set))
        schema = json_pack("{s:[o, {s:s, s:[s], s:{s:{s:s, s:O}, s:{s:s}}}]}", "anyOf", value,
                           "type", "object", "required", "any_of", "properties", "any_of", "type",
                           "array", "items", value, "why", "type", "string");
    if (!schema)
        return NULL;
    json_object_set_new(schema, "description", json_string(field->help));
    if (field->fallback && *field->fallback) {
        fallback = json_loads(field->fallback, JSON_DECODE_ANY, NULL);
        if (fallback)
            json_object_set_new(schema, "default", fallback);
    }
    return schema;
}

/* An object of a plan; the model section may hold more than is known. */
static json_t *section_schema(bool is_open)
{
    return json_pack("{s:[s,s], s:{s:{s:s}, s:{s:s}, s:{s:s}}, s:b}", "type", "object", "null",
                     "properties", "about", "type", "string", "source", "type", "string", "comment",
                     "type", "string", "additionalProperties", (int)is_open);
}

/* The properties of the section that holds a path, made on the way. NULL: out of memory. */
static json_t *properties_of(json_t *root, const char *path, const char **leaf_out)
{
    json_t *properties = json_object_get(root, "properties");
    char name[64];
    size_t len;

    while (properties && path[len = strcspn(path, ".")]) {
        json_t *section;

        memcpy(name, path, len);
        name[len] = '\0';
        section = json_object_get(properties, name);
        if (!section) {
            section = section_schema(strcmp(name, "model") == 0 ||
                                     strcmp(name, "quantization_config") == 0 ||
                                     strncmp(name, "rope", strlen("rope")) == 0);
            if (!section || json_object_set_new(properties, name, section))
                return NULL;
        }
        properties = json_object_get(section, "properties");
        path += len + 1;
    }
    *leaf_out = path;
    return properties;
}

/* Adds one field to the schema of a plan, or to that of its observations. */
static bool add_field(json_t *root, json_t *reading, const struct mpl_field *field)
{
    const char *leaf = strchr(field->path, '.');
    bool is_reading = (field->flags & MPL_FIELD_READING) != 0;
    json_t *properties, *schema = field_schema(field);

    if (is_reading && leaf) {
        properties = json_object_get(reading, "properties");
        leaf++;
    } else {
        properties = properties_of(root, field->path, &leaf);
    }
    if (schema && field->type == MPL_FIELD_LIST) {
        json_object_set_new(schema, "type", json_string("array"));
        json_object_set(schema, "items", reading);
        json_object_set_new(schema, "maxItems", json_integer(MPL_MAX_OBSERVATIONS));
    }
    return schema && properties && json_object_set_new(properties, leaf, schema) == 0;
}

enum memplan_status mpl_spec_schema(char **json_out, struct memplan_error *err)
{
    json_t *root = section_schema(false), *reading = section_schema(false);
    bool is_done = root && reading;
    char *text = NULL;

    if (is_done) {
        json_object_set_new(root, "$schema",
                            json_string("https://json-schema.org/draft/2020-12/schema"));
        json_object_set_new(root, "title", json_string("memplan plan"));
    }
    for (size_t i = 0; i < mpl_field_count() && is_done; i++)
        is_done = add_field(root, reading, mpl_field_at(i));
    if (is_done)
        text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    json_decref(reading);
    if (!text)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    *json_out = text;
    return MEMPLAN_OK;
}
