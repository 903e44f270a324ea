/* SPDX-License-Identifier: MIT */
/* Stage "spec": one combination of a document to a validated plan, row by row of the table. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/preset.h"
#include "ingest/value.h"
#include "spec/check.h"
#include "spec/config_class.h"
#include "spec/text.h"
#include "spec/words.h"

#define NOT_WRITTEN "" /* pointer of a default, which cannot be wrong */

/* One binding under way. */
struct binding {
    const struct mpl_spec *spec;
    size_t combination;
    const json_t *override; /* path to value: how a reading differed; NULL: not at all */
    struct mpl_plan *plan;
    struct mpl_notes *notes;
    enum mpl_family family;
    const struct mpl_config_class *config;
    struct mpl_preset preset; /* asked before the table's defaults */
    bool is_given[MPL_FIELD_LIMIT];
};

/* The value that this combination has for a path, or NULL; null counts as not given. */
static const json_t *find_value(const struct binding *b, const char *path)
{
    const json_t *json = json_object_get(b->override, path);

    if (!json)
        json = mpl_json_get(b->spec->document, path);
    if (mpl_spec_is_open(json))
        for (size_t i = 0; i < b->spec->axis_count; i++)
            if (strcmp(b->spec->axes[i].field->path, path) == 0)
                json = json_array_get(b->spec->axes[i].choices,
                                      mpl_spec_choice(b->spec, b->combination, i));
    return json_is_null(json) ? NULL : json;
}

static enum memplan_status fail_missing(const struct mpl_field *field, struct memplan_error *err)
{
    char pointer[128];

    return mpl_fail(err, MEMPLAN_ERR_VALUE, mpl_json_pointer(field->path, pointer, sizeof(pointer)),
                    "%s: not given, expected %s", field->path, field->range);
}

/* Published weights have a format; training starts from it unless the plan says otherwise. */
static const json_t *inherited_dtype(const struct binding *b, const char **path_out)
{
    static const char *const paths[] = {"model.dtype", "model.torch_dtype"};

    for (size_t i = 0; i < 2; i++) {
        const json_t *json = find_value(b, paths[i]);

        *path_out = paths[i];
        if (json)
            return json;
    }
    return NULL;
}

static enum memplan_status bind_dtype(struct binding *b, const struct mpl_field *field,
                                      bool *is_bound, struct memplan_error *err)
{
    const char *path;
    const json_t *json = b->family == MPL_FAMILY_CAUSAL ? inherited_dtype(b, &path) : NULL;
    enum memplan_status status;
    char pointer[128];

    *is_bound = json != NULL;
    if (!json)
        return MEMPLAN_OK;
    struct mpl_value value = {field, json, mpl_json_pointer(path, pointer, sizeof(pointer))};

    status = mpl_value_store(&value, b->plan, err);
    if (!status)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, field->path, "%s is taken as %s, from %s",
                     field->path, mpl_dtype_name(b->plan->training.parameter_dtype), path);
    return status;
}

/* Text of a field, or its default's. */
static const char *text_of(const struct binding *b, const char *path)
{
    const json_t *json = find_value(b, path);
    const struct mpl_field *field = mpl_field_find(path);

    if (!json && field)
        json = b->spec->fallbacks[b->family][mpl_field_index(field)];
    return json_string_value(json);
}

/* What the figures do not follow the trainer in, and which releases were taken. */
static void note_framework(struct binding *b, const char *version)
{
    const char *note = mpl_framework_note(b->preset.framework);
    const char *newest = mpl_framework_newest(b->preset.framework);

    if (newest && !version)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, "framework.version",
                     "framework.version is not given, taken as %s", b->preset.version);
    if (note)
        mpl_note_add(b->notes, MPL_NOTE_OWN_CODE, "framework.name", "framework.name %s: %s",
                     b->preset.framework, note);
    if (b->preset.run.strategy == MPL_PRESET_ON_FSDP2 &&
        mpl_framework_uses_accelerate(b->preset.framework) &&
        strcmp(b->preset.framework, "accelerate") != 0 && !find_value(b, "software.accelerate"))
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, "software.accelerate",
                     "software.accelerate is not given, taken as %s: it makes the groups of FSDP2",
                     mpl_framework_newest("accelerate"));
}

/* Whether there are adapters: the plan says so, or the trainer does. */
static bool has_adapters(const struct binding *b)
{
    const json_t *r = find_value(b, "training.lora.r");

    return r ? json_integer_value(r) > 0 : mpl_preset_row(&b->preset, "training.lora.r") != NULL;
}

static bool is_accumulating(const struct binding *b)
{
    return json_integer_value(find_value(b, "training.gradient_accumulation_steps")) > 1;
}

/* As the plan says, or as the trainer does by itself. */
static bool is_checkpointing(const struct binding *b)
{
    static const char path[] = "training.activation_checkpointing";
    const char *kind = json_string_value(find_value(b, path));
    const struct mpl_framework_default *row = mpl_preset_row(&b->preset, path);

    if (kind)
        return strcmp(kind, "none") != 0;
    return row && strcmp(row->json, "\"none\"") != 0;
}

/* Which trainer runs the loop, and in which release: what it sets stands above the table's
 * defaults. The Trainer of transformers has the release of transformers. */
static void find_framework(struct binding *b)
{
    const bool is_drafter = b->family != MPL_FAMILY_CAUSAL; /* these always have a framework */
    const char *name = is_drafter ? text_of(b, "framework.name")
                                  : json_string_value(find_value(b, "framework.name"));
    const char *version = is_drafter ? text_of(b, "framework.version")
                                     : json_string_value(find_value(b, "framework.version"));
    const bool is_trainer = name && strcmp(name, "transformers-trainer") == 0;

    if (!name || (is_drafter && strcmp(name, "speculators") != 0))
        return;
    b->preset = mpl_preset_of(&(struct mpl_preset_facts){
        .name = name,
        .version = version,
        .transformers = version && is_trainer ? version : text_of(b, "software.transformers"),
        .accelerate = json_string_value(find_value(b, "software.accelerate")),
        .pytorch = text_of(b, "software.pytorch"),
        .strategy = json_string_value(find_value(b, "parallelism.strategy")),
    });
    b->preset.run.has_lora = has_adapters(b);
    b->preset.run.is_accumulating = is_accumulating(b);
    b->preset.run.is_checkpointing = is_checkpointing(b);
    b->preset.run.drafter = b->family == MPL_FAMILY_MTP ? "mtp" : NULL;
    note_framework(b, version);
}

/* A value of a table, as JSON text, in place of what the plan does not say. */
static enum memplan_status store_text(struct binding *b, const struct mpl_field *field,
                                      const char *text, struct memplan_error *err)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    const struct mpl_value value = {field, json, NOT_WRITTEN};
    enum memplan_status status = json ? mpl_value_store(&value, b->plan, err)
                                      : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");

    json_decref(json);
    return status;
}

/* What the trainer sets where it is not asked. */
static enum memplan_status bind_preset(struct binding *b, const struct mpl_field *field,
                                       const struct mpl_framework_default *preset,
                                       struct memplan_error *err)
{
    const enum memplan_status status = store_text(b, field, preset->json, err);

    if (!status)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, field->path,
                     "%s is not given, taken as %s: %s%s%s sets it (%s)", field->path, preset->json,
                     b->preset.framework, b->preset.version ? " " : "",
                     b->preset.version ? b->preset.version : "", preset->from_where);
    return status;
}

/* The trainer's default for a field; a plan that says null has asked for none. */
static const struct mpl_framework_default *find_preset(const struct binding *b, const char *path)
{
    const struct mpl_framework_default *preset = mpl_preset_row(&b->preset, path);

    if (!preset || json_is_null(mpl_json_get(b->spec->document, path)) ||
        (preset->unless && (find_value(b, preset->unless) ||
                            json_is_null(mpl_json_get(b->spec->document, preset->unless)))))
        return NULL;
    return preset;
}

/* The release that framework.version gives, where that is transformers' own. */
static const json_t *trainer_release(const struct binding *b, const struct mpl_field *field)
{
    if (field->offset != offsetof(struct mpl_plan, transformers) || !b->preset.framework ||
        strcmp(b->preset.framework, "transformers-trainer") != 0)
        return NULL;
    return find_value(b, "framework.version");
}

static enum memplan_status bind_fallback(struct binding *b, const struct mpl_field *field,
                                         struct memplan_error *err)
{
    const char *text = mpl_field_fallback(field, b->family);
    struct mpl_value value = {field, b->spec->fallbacks[b->family][mpl_field_index(field)],
                              NOT_WRITTEN};
    const struct mpl_framework_default *preset = find_preset(b, field->path);
    const json_t *release = trainer_release(b, field);
    enum memplan_status status;
    bool is_bound = false;

    if (preset)
        return bind_preset(b, field, preset, err);
    if (release)
        return mpl_value_store(&(struct mpl_value){field, release, "/framework/version"}, b->plan,
                               err);
    if (!mpl_field_is_of(field, b->family))
        return MEMPLAN_OK;
    if (text && !*text)
        return fail_missing(field, err);
    if (field->offset == offsetof(struct mpl_plan, training.parameter_dtype)) {
        status = bind_dtype(b, field, &is_bound, err);
        if (status || is_bound)
            return status;
    }
    if (!value.json)
        return MEMPLAN_OK;
    status = mpl_value_store(&value, b->plan, err);
    if (!status && (field->flags & MPL_FIELD_TOLD) && strcmp(text, "\"\"") != 0)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, field->path, "%s is not given, taken as %s",
                     field->path, text);
    return status;
}

/* What transformers takes for the family where nothing is asked for. */
static enum memplan_status bind_family_default(struct binding *b, const struct mpl_field *field,
                                               const char *text, struct memplan_error *err)
{
    const enum memplan_status status = store_text(b, field, text, err);

    if (!status)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, field->path,
                     "%s is not given, taken as %s: %s has no other by itself", field->path, text,
                     b->config->model_type);
    return status;
}

/* A field of the model under the name that its family's config.json has for it. */
static const json_t *find_family_name(const struct binding *b, const struct mpl_config_key *key,
                                      char *path, size_t size)
{
    if (!key || !key->name)
        return NULL;
    snprintf(path, size, "model.%s", key->name);
    return find_value(b, path);
}

/* The model_type to go on with: the plan's, or the family that it is to be read as. */
static const json_t *assume_family(struct binding *b, const struct mpl_field *field,
                                   const json_t *json)
{
    const json_t *family = find_value(b, "model.assume");
    const char *found = json ? json_string_value(json) : "(none)";
    const char *assumed = json_string_value(family);

    if (!assumed || !found)
        return json;
    if (mpl_config_class_find(found)) {
        mpl_note_add(b->notes, MPL_NOTE_IGNORED, "model.assume",
                     "model.assume has no effect: model_type %s is known", found);
        return json;
    }
    mpl_note_add(
        b->notes, MPL_NOTE_ASSUMED, field->path,
        "model.model_type \"%.*s\" is read as %s; fields that %s does not have are ignored",
        (int)mpl_json_cut(found, 48), found, assumed, assumed);
    return family;
}

/* A config.json that says null means none, not its class's default ("sliding_window": null). */
static bool is_null(const struct binding *b, const char *path, const struct mpl_config_key *key)
{
    char name[96];

    if (!key || !key->fallback)
        return false;
    if (json_is_null(mpl_json_get(b->spec->document, path)))
        return true;
    snprintf(name, sizeof(name), "model.%s", key->name ? key->name : key->field);
    return json_is_null(mpl_json_get(b->spec->document, name));
}

/* Stores a field that says "auto"; is_bound: it did, and was stored. */
static enum memplan_status bind_auto(struct binding *b, const struct mpl_value *value,
                                     bool *is_bound, struct memplan_error *err)
{
    const char *text = json_string_value(value->json);
    struct mpl_value filled = *value;
    enum memplan_status status;
    json_t *json = text && strcmp(text, "auto") == 0
                       ? mpl_preset_auto(&b->preset, value->field->path, b->plan->model.hidden_size)
                       : NULL;

    *is_bound = json != NULL;
    if (!json)
        return MEMPLAN_OK;
    filled.json = json;
    status = mpl_value_store(&filled, b->plan, err);
    if (!status)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, value->field->path,
                     "%s is auto, taken as %lld: from model.hidden_size", value->field->path,
                     (long long)json_integer_value(json));
    json_decref(json);
    return status;
}

static enum memplan_status bind_field(struct binding *b, const struct mpl_field *field,
                                      struct memplan_error *err)
{
    const struct mpl_config_key *key = mpl_config_key_find(b->config, field->path);
    const json_t *json = find_value(b, field->path);
    struct mpl_value value = {field, json, NULL};
    const char *path = field->path;
    enum memplan_status status;
    char pointer[128], name[96];
    bool is_bound;

    if (!json && (value.json = json = find_family_name(b, key, name, sizeof(name))))
        path = name;
    if (field->type == MPL_FIELD_MODEL_TYPE && field->offset != MPL_FIELD_NOWHERE)
        value.json = json = assume_family(b, field, json);
    if (!json && mpl_config_default(b->config, field->path))
        return bind_family_default(b, field, mpl_config_default(b->config, field->path), err);
    if (!json && is_null(b, field->path, key))
        return MEMPLAN_OK;
    if (!json && key && key->fallback)
        return store_text(b, field, key->fallback, err); /* of the configuration class */
    if (!json)
        return bind_fallback(b, field, err);
    value.pointer = mpl_json_pointer(path, pointer, sizeof(pointer));
    if (!mpl_field_is_of(field, b->family)) {
        /* A config.json may hold anything; a section that is ours may not. */
        if (strncmp(field->path, "model.", strlen("model.")) == 0)
            return MEMPLAN_OK;
        return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer,
                        "%s: belongs to model_type %s, found with %s", field->path,
                        field->flags & MPL_FIELD_ONLY_EAGLE3   ? "eagle3"
                        : field->flags & MPL_FIELD_ONLY_DFLASH ? "dflash"
                                                               : "mtp",
                        b->plan->model.model_type);
    }
    b->is_given[mpl_field_index(field)] = true;
    status = bind_auto(b, &value, &is_bound, err);
    return status || is_bound ? status : mpl_value_store(&value, b->plan, err);
}

/* Fields of a strategy that is not the plan's: noted when it has none, else refused. */
static enum memplan_status check_strategy(const struct binding *b, struct memplan_error *err)
{
    const enum mpl_strategy strategy = b->plan->parallelism.strategy;
    char pointer[128];

    for (size_t i = 0; i < mpl_field_count(); i++) {
        const struct mpl_field *field = mpl_field_at(i);

        if (!b->is_given[i] || mpl_field_applies(field, strategy))
            continue;
        if (strategy != MPL_STRATEGY_NONE)
            return mpl_fail(err, MEMPLAN_ERR_VALUE,
                            mpl_json_pointer(field->path, pointer, sizeof(pointer)),
                            "%s: found with parallelism.strategy %s, which has no such setting",
                            field->path, mpl_word_of(mpl_strategy_words, (int)strategy));
        mpl_note_add(b->notes, MPL_NOTE_IGNORED, field->path,
                     "%s has no effect with parallelism.strategy none", field->path);
    }
    return MEMPLAN_OK;
}

/* What memplan import could not turn into fields. */
static enum memplan_status bind_imported(const struct binding *b, struct memplan_error *err)
{
    const json_t *list = json_object_get(b->spec->document, "imported"), *item;
    char found[128];
    size_t i;

    if (!list || json_is_null(list))
        return MEMPLAN_OK;
    if (!json_is_array(list) || json_array_size(list) > 64)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/imported",
                        "imported: found %s, expected a list of at most 64 sentences",
                        json_is_array(list) ? "a longer list"
                                            : mpl_json_describe(list, found, sizeof(found)));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, "/imported",
                            "imported: found %s, expected a sentence",
                            mpl_json_describe(item, found, sizeof(found)));
        mpl_note_add(b->notes, MPL_NOTE_IMPORT, "imported", "%.*s",
                     (int)mpl_json_cut(json_string_value(item), 380), json_string_value(item));
    }
    return MEMPLAN_OK;
}

static enum memplan_status bind(struct binding *b, struct memplan_error *err)
{
    enum memplan_status status =
        b->spec->has_known_names ? MEMPLAN_OK : mpl_spec_check_names(b->spec->document, err);

    memset(b->plan, 0, sizeof(*b->plan));
    if (b->notes)
        b->notes->count = 0;
    b->plan->device.context_bytes = b->plan->device.nccl_bytes = -1;
    b->plan->parallelism.rank = -1;
    b->plan->training.optimizer.weight_decay = -1;
    b->plan->model.pad_token_id = -1;
    for (size_t i = 0; i < mpl_field_count() && !status; i++) {
        const struct mpl_field *field = mpl_field_at(i);

        if (field->flags & (MPL_FIELD_READING | MPL_FIELD_SAME_AS))
            continue;
        status = bind_field(b, field, err);
        if (i == 0) /* model_type: the defaults of the others hang on it */
        {
            b->family = mpl_family_of(b->plan->model.model_type);
            b->config = mpl_config_class_find(b->plan->model.model_type);
            find_framework(b);
        }
    }
    if (!status)
        status = mpl_spec_read_observations(b->spec, b->plan, err);
    if (!status)
        status = check_strategy(b, err);
    if (!status)
        status = bind_imported(b, err);
    if (status)
        return status;
    if (b->config && b->config->note)
        mpl_note_add(b->notes, MPL_NOTE_DEFAULT, "model.model_type", "%s", b->config->note);
    mpl_plan_derive(b->plan);
    mpl_plan_note_versions(b->plan, b->notes);
    return mpl_plan_check(b->plan, err);
}

enum memplan_status mpl_spec_bind(const struct mpl_spec *spec, size_t combination,
                                  struct mpl_plan *plan, struct mpl_notes *notes,
                                  struct memplan_error *err)
{
    struct binding b = {.spec = spec, .combination = combination, .plan = plan, .notes = notes};

    if (combination >= spec->combination_count)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "combination %zu, expected less than %zu",
                        combination, spec->combination_count);
    return mpl_spec_finish(spec, bind(&b, err), err);
}

/* The fields in which a reading differs from the plan: path to value. NULL: out of memory. */
static json_t *reading_override(const json_t *reading)
{
    json_t *override = json_object();
    const json_t *set = json_object_get(reading, "set");

    if (!override || (json_is_object(set) && json_object_update(override, (json_t *)set)) ||
        json_object_set(override, "training.sequence_length",
                        json_object_get(reading, "sequence_length"))) {
        json_decref(override);
        return NULL;
    }
    return override;
}

enum memplan_status mpl_spec_bind_reading(const struct mpl_spec *spec, size_t combination,
                                          size_t observation, struct mpl_plan *plan,
                                          struct memplan_error *err)
{
    const json_t *list = json_object_get(spec->document, "observations");
    struct binding b = {.spec = spec, .combination = combination, .plan = plan};
    enum memplan_status status;
    json_t *override;

    if (combination >= spec->combination_count || observation >= json_array_size(list))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL,
                        "combination %zu or observation %zu does not exist", combination,
                        observation);
    if (!json_object_get(json_array_get(list, observation), "sequence_length"))
        return mpl_spec_bind(spec, combination, plan, NULL, err); /* fails: it is needed */
    override = reading_override(json_array_get(list, observation));
    if (!override)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    b.override = override;
    status = bind(&b, err);
    json_decref(override);
    return mpl_spec_finish(spec, status, err);
}
