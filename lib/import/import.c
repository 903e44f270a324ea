/* SPDX-License-Identifier: MIT */
/* Stage "import": which format a file has, each read in order, and the plan that comes of them. */
#include "import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/json.h"

/* A format of JSON or YAML, and keys of which each is the format's own; tried in order. */
struct format {
    const struct mpl_import_reader *reader;
    const char *fact; /* set when a file of it was read */
    const char *keys[10];
};

static const struct format formats[] = {
    {&mpl_import_adapter, "import.read_adapter", {"peft_type"}},
    {&mpl_import_accelerate,
     "import.read_accelerate",
     {"compute_environment", "distributed_type", "main_training_function"}},
    {&mpl_import_deepspeed,
     "import.read_deepspeed",
     {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size",
      "zero_allow_untested_optimizer", "steps_per_print"}},
    {&mpl_import_axolotl, "import.read_axolotl", {"base_model"}},
    {&mpl_import_llamafactory,
     "import.read_llamafactory",
     {"finetuning_type", "cutoff_len", "stage"}},
    {&mpl_import_arguments,
     "import.read_arguments",
     {"per_device_train_batch_size", "model_name_or_path", "output_dir", "num_train_epochs",
      "learning_rate", "gradient_accumulation_steps", "fsdp_config"}},
    {&mpl_import_fsdp,
     "import.read_fsdp",
     {"fsdp_version", "fsdp_transformer_layer_cls_to_wrap", "transformer_layer_cls_to_wrap",
      "fsdp_sharding_strategy", "fsdp_auto_wrap_policy", "fsdp_backward_prefetch",
      "fsdp_state_dict_type", "backward_prefetch", "limit_all_gathers"}},
};

/* The one format of TOML, by its sections. */
static const struct format titan = {&mpl_import_torchtitan,
                                    "import.read_torchtitan",
                                    {"training", "parallelism", "activation_checkpoint", "model"}};

static const char model_name[] = "config.json of a model",
                  whole_name[] = "config.json of a model of text and more", plan_name[] = "plan",
                  job_name[] = "job script", toml_name[] = "TOML", weights_name[] = "weights",
                  index_name[] = "index of weights";

static bool is_of(const struct format *format, const json_t *root)
{
    for (size_t k = 0; k < 10 && format->keys[k]; k++)
        if (json_object_get(root, format->keys[k]))
            return true;
    return false;
}

static const struct format *find_format(const json_t *root)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (is_of(&formats[i], root))
            return &formats[i];
    return NULL;
}

static const char *skip_blank(const char *text, const char *end)
{
    if (end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (text < end && strchr(" \t\r\n", *text))
        text++;
    return text;
}

static bool is_json(const char *text, size_t len)
{
    const char *start = skip_blank(text, text + len);

    return start < text + len && *start == '{';
}

/* "model]" or "[experts]]": a letter, then what names and dots are made of. */
static bool is_table_name(const char *text, const char *end)
{
    text += text < end && *text == '[';
    if (text == end || !((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')))
        return false;
    while (text<end && * text> ' ' && *text != ']' && *text != ',' && *text != '"')
        text++;
    return text < end && *text == ']';
}

/* TOML's tables: a line that is a name between brackets. */
static bool is_toml(const char *text, size_t len)
{
    const char *end = text + len;

    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const char *start = line;

        stop = stop ? stop : end;
        while (start < stop && (*start == ' ' || *start == '\t'))
            start++;
        if (start < stop && *start == '[' && is_table_name(start + 1, stop))
            return true;
        if (start < stop && *start != '#' && *start != '\r')
            return false;
        line = stop + 1;
    }
    return false;
}

/* Text parts with a model_type of their own that are another family's model but for what is said.
 * source: transformers/models: qwen2_vl, qwen2_5_vl, qwen3_vl, release 5.24.0 */
static const struct {
    const char *type, *family;
} text_types[] = {
    {"qwen2_vl", "qwen2"},         {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},       {"qwen2_5_vl_text", "qwen2"},
    {"qwen3_vl", "qwen3"},         {"qwen3_vl_text", "qwen3"},
    {"qwen3_vl_moe", "qwen3_moe"}, {"qwen3_vl_moe_text", "qwen3_moe"},
};

static const char *family_of_text(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "model_type"));

    for (size_t i = 0; type && i < sizeof(text_types) / sizeof(text_types[0]); i++)
        if (strcmp(text_types[i].type, type) == 0)
            return text_types[i].family;
    return NULL;
}

/* A model of text and pictures: the part that is a causal language model, NULL where there is none.
 * Gemma 3's own files are known as they are. */
static const json_t *text_part(const json_t *root, const char **name_out)
{
    static const char *const names[] = {"text_config", "llm_config", "language_config"};
    const char *kind = json_string_value(json_object_get(root, "model_type"));

    if (json_object_get(root, "hidden_size") || (kind && strcmp(kind, "gemma3") == 0))
        return NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *part = json_object_get(root, names[i]);

        *name_out = names[i];
        if (json_is_object(part) && json_object_get(part, "model_type"))
            return part;
    }
    return NULL;
}

/* What the keys of an object say. */
static const char *name_of(const json_t *root, const struct format **format_out)
{
    const json_t *model = json_object_get(root, "model");
    const char *part;

    *format_out = NULL;
    if (json_is_object(json_object_get(root, "safetensors")))
        return weights_name;
    if (json_is_object(json_object_get(root, "weight_map")))
        return index_name;
    if (json_is_object(model) ||
        (json_object_get(root, "training") && json_object_get(root, "parallelism")))
        return plan_name;
    *format_out = find_format(root);
    /* axolotl's files have a model_type, too. */
    if (json_object_get(root, "model_type") &&
        (!*format_out || json_object_get(root, "architectures"))) {
        *format_out = NULL;
        return text_part(root, &part) || family_of_text(root) ? whole_name : model_name;
    }
    return *format_out ? (*format_out)->reader->name : NULL;
}

enum memplan_status mpl_import_read_text(const char *file, const char *text, size_t len,
                                         struct mpl_import_doc *doc, struct memplan_error *err)
{
    if (is_json(text, len))
        return mpl_import_read_json(file, text, len, doc, err);
    return is_toml(text, len) ? mpl_import_read_toml(file, text, len, doc, err)
                              : mpl_import_read_yaml(file, text, len, doc, err);
}

static enum memplan_status read_toml(const char *file, const char *text, size_t len,
                                     struct mpl_import_doc *doc, const char **name_out,
                                     const struct format **format_out, struct memplan_error *err)
{
    enum memplan_status status = mpl_import_read_toml(file, text, len, doc, err);

    if (!status && is_of(&titan, doc->root)) {
        *format_out = &titan;
        *name_out = titan.reader->name;
    }
    return status;
}

/* Reads text as what it looks like. doc is empty for a job script. */
static enum memplan_status read_doc(const char *file, const char *text, size_t len,
                                    struct mpl_import_doc *doc, const char **name_out,
                                    const struct format **format_out, struct memplan_error *err)
{
    enum memplan_status status;

    *doc = (struct mpl_import_doc){0};
    *format_out = NULL;
    *name_out = NULL;
    if (!is_json(text, len) && mpl_import_is_job(text, len)) {
        *name_out = job_name;
        return MEMPLAN_OK;
    }
    if (!is_json(text, len) && is_toml(text, len))
        return read_toml(file, text, len, doc, name_out, format_out, err);
    status = mpl_import_read_text(file, text, len, doc, err);
    if (!status)
        *name_out = name_of(doc->root, format_out);
    return status;
}

const char *mpl_import_format(const char *text, size_t len)
{
    const struct format *format;
    struct mpl_import_doc doc;
    const char *name;

    if (len > MPL_IMPORT_MOST_BYTES)
        return NULL;
    if (read_doc("", text, len, &doc, &name, &format, NULL)) /* TOML is told, and then refused */
        return is_json(text, len) || !is_toml(text, len) ? NULL : toml_name;
    mpl_import_doc_free(&doc);
    return name;
}

const struct mpl_import_reader *mpl_import_reader_of(const char *text, size_t len)
{
    const struct format *format = NULL;
    struct mpl_import_doc doc;
    const char *name;

    if (len > MPL_IMPORT_MOST_BYTES || read_doc("", text, len, &doc, &name, &format, NULL))
        return NULL;
    mpl_import_doc_free(&doc);
    return format ? format->reader : NULL;
}

/* ---- models ---- */

static bool is_of_axes(const json_t *rope)
{
    return json_object_get(rope, "mrope_section") != NULL;
}

static enum memplan_status take_text(struct mpl_import *import,
                                     const struct mpl_import_place *place, const json_t *part,
                                     struct memplan_error *err)
{
    const char *family = family_of_text(part);
    json_t *model = json_copy((json_t *)part);
    enum memplan_status status;

    mpl_import_note(import, place,
                    "%s is read as %s: its rotary positions are of three axes, which are not "
                    "modelled",
                    json_string_value(json_object_get(part, "model_type")), family);
    json_object_del(model, "vision_config");
    /* the three axes, and no scaling */
    if (is_of_axes(json_object_get(model, "rope_scaling")))
        json_object_del(model, "rope_scaling");
    if (is_of_axes(json_object_get(model, "rope_parameters")))
        json_object_del(model, "rope_parameters");
    if (!model || json_object_set_new(model, "model_type", json_string(family)))
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    else
        status = mpl_import_set(import, place, "model", model, err);
    json_decref(model);
    return status;
}

static enum memplan_status take_model(struct mpl_import *import, const struct mpl_import_doc *doc,
                                      struct memplan_error *err)
{
    struct mpl_import_place place = {doc->file, mpl_import_line(doc, "model_type"), "model_type"};
    const char *kind = json_string_value(json_object_get(doc->root, "model_type")), *name;
    const json_t *part = text_part(doc->root, &name);

    if (!kind)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err, "expected the name of a family");
    if (part)
        mpl_import_note(import, &place, "not counted: what %s has beside %s", kind, name);
    else if (json_object_get(doc->root, "vision_config"))
        mpl_import_note(import, &place, "not counted: what %s has beside its text part", kind);
    if (!part)
        part = doc->root;
    if (family_of_text(part))
        return take_text(import, &place, part, err);
    return mpl_import_set(import, &place, "model", part, err);
}

/* ---- files ---- */

static bool has_auto(const json_t *root)
{
    const json_t *zero = json_object_get(root, "zero_optimization"), *value;
    const char *key;

    json_object_foreach((json_t *)zero, key, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0)
            return true;
    }
    json_object_foreach((json_t *)root, key, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0)
            return true;
    }
    return false;
}

enum memplan_status mpl_import_take_doc(struct mpl_import *import, const struct mpl_import_doc *doc,
                                        const struct mpl_import_reader *reader,
                                        struct memplan_error *err)
{
    struct mpl_import_place place = {.file = doc->file};
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (formats[i].reader == reader)
            status = mpl_import_set_text(import, &place, formats[i].fact, "true", err);
    if (!status && titan.reader == reader)
        status = mpl_import_set_text(import, &place, titan.fact, "true", err);
    if (!status && reader == &mpl_import_deepspeed && has_auto(doc->root))
        status = mpl_import_set_text(import, &place, "import.auto", "true", err);
    return status ? status : mpl_import_walk(import, doc, doc->root, "", reader, err);
}

static enum memplan_status take_file(struct mpl_import *import,
                                     const struct memplan_import_file *file,
                                     struct memplan_error *err)
{
    const struct mpl_import_place place = {.file = file->name, .key = "the file"};
    const struct format *format;
    struct mpl_import_doc doc;
    enum memplan_status status;
    const char *name;

    if (file->len > MPL_IMPORT_MOST_BYTES)
        return mpl_import_fail(&place, MEMPLAN_ERR_LIMIT, err, "larger than 1 MiB");
    status = read_doc(file->name, file->bytes, file->len, &doc, &name, &format, err);
    if (status)
        return status;
    if (name == job_name)
        status = mpl_import_read_job(import, file->name, file->bytes, file->len, err);
    else if (name == model_name || name == whole_name)
        status = take_model(import, &doc, err);
    else if (name == weights_name)
        status = mpl_import_take_weights(import, &doc, err);
    else if (name == index_name)
        status = mpl_import_take_index(import, file, err);
    else if (format)
        status = mpl_import_take_doc(import, &doc, format->reader, err);
    else if (name == plan_name)
        status = mpl_import_fail(&place, MEMPLAN_ERR_VALUE, err,
                                 "a plan, expected a configuration of a trainer");
    else
        status = mpl_import_fail(
            &place, MEMPLAN_ERR_VALUE, err,
            "not a configuration that is known; expected a config.json, adapter_config.json, "
            "TrainingArguments, DeepSpeed, accelerate, FSDP, axolotl, LLaMA-Factory, torchtitan or "
            "a job script");
    mpl_import_doc_free(&doc);
    return status;
}

enum memplan_status mpl_import_read(const struct mpl_import_given *given,
                                    struct mpl_import **import_out, struct memplan_error *err)
{
    const struct memplan_import_options *options = &given->options;
    struct mpl_import *import = mpl_import_new(given);
    enum memplan_status status = MEMPLAN_OK;

    if (!import)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    for (size_t i = 0; i < given->file_count && !status; i++)
        status = take_file(import, &given->files[i], err);
    if (!status && options->word_count)
        status = mpl_import_read_words(import, options->words, options->word_count, err);
    if (!status) {
        status = mpl_import_settle(import, err);
        /* What no single file is to blame for. */
        if (status && err && !err->source[0])
            snprintf(err->source, sizeof(err->source), "%s",
                     given->file_count == 1 ? given->files[0].name
                     : given->file_count    ? "the files together"
                                            : "the command");
    }
    if (status)
        mpl_import_free(import);
    else
        *import_out = import;
    return status;
}

static json_t *list_notes(const struct mpl_import *import)
{
    json_t *list = json_array();
    const char *note;

    for (size_t i = 0; list && (note = mpl_import_note_at(import, i)); i++)
        json_array_append_new(list, json_string(note));
    return list;
}

enum memplan_status mpl_import_to_json(const struct mpl_import *import, char **json_out,
                                       struct memplan_error *err)
{
    static const char *const sections[] = {"model",       "software",   "framework", "training",
                                           "parallelism", "checkpoint", "device",    "host"};
    json_t *plan = json_object(), *notes = list_notes(import);
    const char *path;
    bool is_done = plan && notes;

    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++)
        for (size_t i = 0; is_done && (path = mpl_import_path(import, i, NULL)); i++)
            if (strncmp(path, sections[s], strlen(sections[s])) == 0)
                is_done = !mpl_json_put(plan, path, (json_t *)mpl_import_get(import, path));
    if (is_done && json_array_size(notes))
        is_done = json_object_set(plan, "imported", notes) == 0;
    *json_out = is_done ? json_dumps(plan, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(plan);
    json_decref(notes);
    return *json_out ? MEMPLAN_OK : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}
