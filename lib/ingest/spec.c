/* SPDX-License-Identifier: MIT */
/* Stage "spec": a plan as a document: read, changed, written. */
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/preset.h"
#include "ingest/value.h"
#include "spec/config_class.h"
#include "spec/words.h"

enum memplan_status mpl_spec_finish(const struct mpl_spec *spec, enum memplan_status status,
                                    struct memplan_error *err)
{
    static const char model[] = "/model/";

    if (!status || !err || err->status != status)
        return status;
    if (!err->source[0])
        snprintf(err->source, sizeof(err->source), "%s", spec->source);
    if (spec->is_bare && strncmp(err->path, model, strlen(model)) == 0)
        memmove(err->path, err->path + strlen(model) - 1, strlen(err->path) - strlen(model) + 2);
    return status;
}

static enum memplan_status fail_memory(struct memplan_error *err)
{
    return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

/* The defaults of the table as JSON values. */
static enum memplan_status parse_fallbacks(struct mpl_spec *spec, struct memplan_error *err)
{
    for (int family = 0; family < MPL_FAMILY_COUNT; family++)
        for (size_t i = 0; i < mpl_field_count(); i++) {
            const char *text = mpl_field_fallback(mpl_field_at(i), (enum mpl_family)family);

            if (!text || !*text)
                continue;
            spec->fallbacks[family][i] = json_loads(text, JSON_DECODE_ANY, NULL);
            if (!spec->fallbacks[family][i])
                return fail_memory(err);
        }
    return MEMPLAN_OK;
}

/* A config.json becomes the model section of a plan. Takes the reference of document. */
static json_t *wrap_config(json_t *document)
{
    json_t *plan = json_object();

    if (!plan)
        json_decref(document);
    else if (json_object_set_new(plan, "model", document)) {
        json_decref(plan);
        plan = NULL;
    }
    return plan;
}

static enum memplan_status read_document(struct mpl_spec *spec, const void *json, size_t len,
                                         struct memplan_error *err)
{
    enum memplan_status status = mpl_json_read(json, len, &spec->document, err);
    char found[128];

    if (status)
        return status;
    if (!json_is_object(spec->document))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "found %s, expected an object: a plan",
                        mpl_json_describe(spec->document, found, sizeof(found)));
    if (!json_object_get(spec->document, "model") &&
        json_object_get(spec->document, "model_type")) {
        spec->is_bare = true;
        spec->document = wrap_config(spec->document);
        if (!spec->document)
            return fail_memory(err);
    }
    status = mpl_spec_move_names(spec->document, err);
    if (!status)
        status = mpl_spec_find_axes(spec, err);
    spec->has_known_names = mpl_spec_check_names(spec->document, NULL) == MEMPLAN_OK;
    return status ? status : parse_fallbacks(spec, err);
}

enum memplan_status mpl_spec_load(const void *json, size_t len, const char *source,
                                  struct mpl_spec **spec_out, struct memplan_error *err)
{
    struct mpl_spec *spec;
    enum memplan_status status;

    if ((!json && len) || !spec_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "found NULL, expected JSON and a place for it");
    spec = calloc(1, sizeof(*spec));
    if (!spec)
        return fail_memory(err);
    snprintf(spec->source, sizeof(spec->source), "%s", source ? source : "");
    status = read_document(spec, json, len, err);
    if (status) {
        mpl_spec_finish(spec, status, err);
        mpl_spec_free(spec);
        return status;
    }
    *spec_out = spec;
    return MEMPLAN_OK;
}

void mpl_spec_free(struct mpl_spec *spec)
{
    if (!spec)
        return;
    for (int family = 0; family < MPL_FAMILY_COUNT; family++)
        for (size_t i = 0; i < MPL_FIELD_LIMIT; i++)
            json_decref(spec->fallbacks[family][i]);
    json_decref(spec->document);
    free(spec);
}

/* Fields that hold text take 2.10 and 12e5 as they are written. */
static bool wants_text(const struct mpl_field *field)
{
    return field && (field->type == MPL_FIELD_STRING || field->type == MPL_FIELD_NAME ||
                     field->type == MPL_FIELD_VERSION || field->type == MPL_FIELD_WORD);
}

/* The value of an assignment: JSON, else text. */
static enum memplan_status read_value(const struct mpl_field *field, const char *text,
                                      json_t **json_out, struct memplan_error *err)
{
    json_t *json = NULL;
    enum memplan_status status = mpl_json_read(text, strlen(text), &json, NULL);

    if (status == MEMPLAN_ERR_NOMEM)
        return fail_memory(err);
    if (status && (*text == '{' || *text == '[' || *text == '"'))
        return mpl_json_read(text, strlen(text), &json, err);
    if (!status && wants_text(field) && (json_is_number(json) || json_is_boolean(json))) {
        json_decref(json);
        json = NULL;
    }
    if (!json)
        json = json_string(text);
    if (!json)
        return mpl_fail(err, MEMPLAN_ERR_SYNTAX, NULL, "the value is not UTF-8 text");
    *json_out = json;
    return MEMPLAN_OK;
}

/* Splits "path=value" and finds the field; *field_out is NULL for a whole section. */
static enum memplan_status split(const char *assignment, char *path, size_t size,
                                 const struct mpl_field **field_out, struct memplan_error *err)
{
    size_t len = strcspn(assignment, "=");
    const struct mpl_field *field;
    char pointer[128];

    if (!assignment[len] || !len)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "found \"%.*s\", expected FIELD=VALUE, as training.sequence_length=8192",
                        (int)mpl_json_cut(assignment, 80), assignment);
    if (len >= size)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "the field's name is too long");
    memcpy(path, assignment, len);
    path[len] = '\0';
    field = mpl_field_find(path);
    mpl_json_pointer(path, pointer, sizeof(pointer));
    if (field && (field->flags & MPL_FIELD_READING))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "observations are set as a whole: observations=[...]");
    if (!field && !mpl_field_is_section(path))
        return mpl_spec_fail_name(path, pointer, err);
    *field_out = field;
    return MEMPLAN_OK;
}

/* Makes *spec hold a changed document; on failure it keeps the old one. */
static enum memplan_status replace_document(struct mpl_spec *spec, json_t *document,
                                            struct memplan_error *err)
{
    json_t *old = spec->document;
    enum memplan_status status = mpl_spec_move_names(document, err);

    if (!status) {
        spec->document = document;
        status = mpl_spec_find_axes(spec, err);
    }
    if (status) {
        spec->document = old;
        mpl_spec_find_axes(spec, NULL); /* it succeeded before, and allocates nothing */
        json_decref(document);
        return status;
    }
    json_decref(old);
    spec->has_known_names = mpl_spec_check_names(spec->document, NULL) == MEMPLAN_OK;
    return MEMPLAN_OK;
}

/* True for a model_type that is to be read as another one: any text is accepted. */
static bool is_replaced(const json_t *document, const struct mpl_field *field)
{
    return field->type == MPL_FIELD_MODEL_TYPE && field->offset != MPL_FIELD_NOWHERE &&
           json_is_string(mpl_json_get(document, "model.assume"));
}

static enum memplan_status assign(struct mpl_spec *spec, const struct mpl_field *field,
                                  const char *path, json_t *value, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    char found[128];
    json_t *document;

    if (field && !is_replaced(spec->document, field) && !mpl_preset_is_auto(path, value))
        status = mpl_spec_check_value(field, value, err);
    else if (!field && !json_is_object(value) && !json_is_null(value))
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "%s: found %s, expected an object", path,
                          mpl_json_describe(value, found, sizeof(found)));
    if (status)
        return status;
    document = json_deep_copy(spec->document);
    if (!document)
        return fail_memory(err);
    status = mpl_json_put(document, path, value);
    if (status) {
        json_decref(document);
        return status == MEMPLAN_ERR_NOMEM
                   ? fail_memory(err)
                   : mpl_fail(err, status, NULL,
                              "%s: something that is not an object stands in the way", path);
    }
    return replace_document(spec, document, err);
}

enum memplan_status mpl_spec_set(struct mpl_spec *spec, const char *assignment,
                                 struct memplan_error *err)
{
    const struct mpl_field *field = NULL;
    enum memplan_status status;
    json_t *value = NULL;
    char path[96];

    if (!spec || !assignment)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "found NULL, expected a plan and FIELD=VALUE");
    status = split(assignment, path, sizeof(path), &field, err);
    if (!status)
        status = read_value(field, assignment + strlen(path) + 1, &value, err);
    if (!status)
        status = assign(spec, field, path, value, err);
    json_decref(value);
    return mpl_spec_finish(spec, status, err);
}

/* The document with more observations; NULL: no memory. */
static json_t *with_readings(const json_t *document, const json_t *more)
{
    json_t *copy = json_deep_copy(document);
    json_t *list = json_object_get(copy, "observations");

    if (copy && !json_is_array(list)) {
        list = json_array();
        if (json_object_set_new(copy, "observations", list))
            list = NULL;
    }
    if (!list || json_array_extend(list, (json_t *)more)) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

enum memplan_status mpl_spec_add_readings(struct mpl_spec *spec, const void *json, size_t len,
                                          const char *source, struct memplan_error *err)
{
    json_t *read = NULL, *document;
    enum memplan_status status = mpl_json_read(json, len, &read, err);
    const json_t *more = json_is_object(read) ? json_object_get(read, "observations") : read;

    if (!status && !json_is_array(more))
        status = mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                          "found no list of observations, expected [{...}] or "
                          "{\"observations\": [{...}]}");
    if (!status) {
        document = with_readings(spec->document, more);
        status = document ? replace_document(spec, document, err) : fail_memory(err);
    }
    json_decref(read);
    if (status && err)
        snprintf(err->source, sizeof(err->source), "%s", source ? source : "");
    return status;
}

enum memplan_status mpl_spec_check(const struct mpl_spec *spec, struct memplan_error *err)
{
    enum memplan_status status = mpl_spec_check_names(spec->document, err);
    struct mpl_plan plan;

    for (size_t i = 0; i < mpl_field_count() && !status; i++) {
        const struct mpl_field *field = mpl_field_at(i);
        const json_t *json = mpl_json_get(spec->document, field->path);

        if (json && !(field->flags & MPL_FIELD_READING) && !is_replaced(spec->document, field) &&
            !mpl_preset_is_auto(field->path, json)) /* bound, or refused, where it is filled in */
            status = mpl_spec_check_value(field, json, err);
    }
    for (size_t i = 0; i < spec->combination_count && !status; i++)
        status = mpl_spec_bind(spec, i, &plan, NULL, err);
    return mpl_spec_finish(spec, status, err);
}

static enum memplan_status write_json(const json_t *json, char **json_out,
                                      struct memplan_error *err)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15));

    if (!text)
        return fail_memory(err);
    *json_out = text;
    return MEMPLAN_OK;
}

enum memplan_status mpl_spec_to_json(const struct mpl_spec *spec, char **json_out,
                                     struct memplan_error *err)
{
    return write_json(spec->document, json_out, err);
}

/* Puts a number that was worked out where the document has none. */
static bool put_integer(json_t *document, const char *path, int64_t number)
{
    const json_t *json = mpl_json_get(document, path);
    json_t *value;
    bool is_done;

    if (json && !json_is_null(json))
        return true;
    value = json_integer(number);
    is_done = value && mpl_json_put(document, path, value) == MEMPLAN_OK;
    json_decref(value);
    return is_done;
}

/* What the plan's trainer sets for a field that is absent, as a new value; NULL: nothing. */
static json_t *preset_value(const struct mpl_spec *spec, const struct mpl_preset *preset,
                            const char *path)
{
    const struct mpl_framework_default *row = mpl_preset_row(preset, path);

    if (!row || mpl_json_get(spec->document, path) ||
        (row->unless && mpl_json_get(spec->document, row->unless)))
        return NULL;
    return json_loads(row->json, JSON_DECODE_ANY, NULL);
}

/* What a family's configuration class has for a field comes before the table's default; under the
 * family's own name, or as null, the document has it already. True: there is nothing more to do. */
static bool fill_class_default(const struct mpl_plan *plan, const struct mpl_field *field,
                               json_t *document, bool *is_done)
{
    const struct mpl_config_class *config = mpl_config_class_find(plan->model.model_type);
    const struct mpl_config_key *key = mpl_config_key_find(config, field->path);
    const char *text = mpl_config_default(config, field->path);
    char name[96];
    json_t *value;

    if (!text && !key)
        return false;
    if (!text) {
        snprintf(name, sizeof(name), "model.%s", key->name ? key->name : key->field);
        if (mpl_json_get(document, name) &&
            (key->fallback || !json_is_null(mpl_json_get(document, name))))
            return true;
        text = key->fallback;
    }
    if (!text)
        return false;
    value = json_loads(text, JSON_DECODE_ANY, NULL);
    *is_done &= value && (json_is_null(value) || !mpl_json_put(document, field->path, value));
    json_decref(value);
    return true;
}

/* Choices in place of alternatives, defaults in place of nothing. */
static bool fill_in(const struct mpl_spec *spec, size_t combination, const struct mpl_plan *plan,
                    json_t *document)
{
    const char *version = *plan->framework_version ? plan->framework_version : NULL;
    struct mpl_preset trainer = mpl_preset_of(&(struct mpl_preset_facts){
        .name = plan->framework_name,
        .version = version,
        .transformers = plan->transformers.text,
        .accelerate = json_string_value(mpl_json_get(document, "software.accelerate")),
        .pytorch = plan->pytorch.text,
        .strategy = mpl_word_of(mpl_strategy_words, (int)plan->parallelism.strategy),
    });
    enum mpl_family family = mpl_family_of(plan->model.model_type);
    bool is_done = true;

    trainer.run.has_lora = plan->training.lora.r > 0;
    trainer.run.is_accumulating = plan->training.gradient_accumulation_steps > 1;
    trainer.run.is_checkpointing =
        plan->training.activation_checkpointing != MPL_CHECKPOINTING_NONE;
    for (size_t i = 0; i < spec->axis_count; i++)
        is_done &= !mpl_json_put(
            document, spec->axes[i].field->path,
            json_array_get(spec->axes[i].choices, mpl_spec_choice(spec, combination, i)));
    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);
        const json_t *json = mpl_json_get(document, field->path);
        json_t *fallback = spec->fallbacks[family][i];
        json_t *preset = preset_value(spec, &trainer, field->path);

        if (preset) {
            is_done &= !mpl_json_put(document, field->path, preset);
            json_decref(preset);
            continue;
        }
        if ((!json || json_is_null(json)) && fill_class_default(plan, field, document, &is_done))
            continue;
        if ((json && !json_is_null(json)) || !fallback || json_is_null(fallback) ||
            field->offset == MPL_FIELD_NOWHERE || field->type == MPL_FIELD_REFUSED ||
            !mpl_field_is_of(field, family) ||
            !mpl_field_applies(field, plan->parallelism.strategy) ||
            json_string_length(fallback) + json_is_string(fallback) == 1)
            continue;
        is_done &= !mpl_json_put(document, field->path, fallback);
    }
    is_done &= put_integer(document, "model.num_key_value_heads", plan->model.num_key_value_heads);
    return is_done && put_integer(document, "model.head_dim", plan->model.head_dim);
}

enum memplan_status mpl_spec_to_full_json(const struct mpl_spec *spec, size_t combination,
                                          char **json_out, struct memplan_error *err)
{
    struct mpl_plan plan;
    enum memplan_status status = mpl_spec_bind(spec, combination, &plan, NULL, err);
    json_t *document;

    if (status)
        return status;
    document = json_deep_copy(spec->document);
    if (!document)
        return fail_memory(err);
    status = fill_in(spec, combination, &plan, document) ? write_json(document, json_out, err)
                                                         : fail_memory(err);
    json_decref(document);
    return status;
}

const char *mpl_spec_id(const struct mpl_spec *spec)
{
    return json_string_value(json_object_get(spec->document, "id"));
}
