/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": what the weights say, against what config.json says. transformers loads in the
 * format that config.json names, whatever the files hold; where it names none, in theirs.
 * source: transformers 5.24, modeling_utils.py (_get_dtype); peft 0.21, utils/save_and_load.py,
 * tuners/tuners_utils.py (cast_adapter_dtype)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "import/settle.h"
#include "import/weights.h"
#include "table/dtype.h"

#define FACT "import.weights"

enum memplan_status mpl_import_take_weights(struct mpl_import *import,
                                            const struct mpl_import_doc *doc,
                                            struct memplan_error *err)
{
    const struct mpl_import_place place = {.file = doc->file, .key = "the weights"};

    return mpl_import_set(import, &place, FACT, json_object_get(doc->root, "safetensors"), err);
}

enum memplan_status mpl_import_take_index(struct mpl_import *import,
                                          const struct memplan_import_file *file,
                                          struct memplan_error *err)
{
    struct memplan_weights *weights = calloc(1, sizeof(*weights));
    struct mpl_import_doc doc = {0};
    enum memplan_status status;
    char *json = NULL;

    if (!weights)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    status = mpl_weights_add_index(weights, file->name, file->bytes, file->len, err);
    if (!status)
        status = mpl_weights_to_json(weights, &json, err);
    if (!status)
        status = mpl_import_read_json(file->name, json, strlen(json), &doc, err);
    if (!status)
        status = mpl_import_take_weights(import, &doc, err);
    mpl_import_doc_free(&doc);
    free(json);
    mpl_weights_free(weights);
    return status;
}

/* ---- facts ---- */

static const json_t *fact(const struct mpl_import *import, const char *key)
{
    return json_object_get(mpl_import_get(import, FACT), key);
}

static int64_t count(const struct mpl_import *import, const char *key)
{
    return json_integer_value(fact(import, key));
}

static struct mpl_import_place place_of(const struct mpl_import *import, const char *tensor)
{
    struct mpl_import_place place = mpl_import_place_of(import, FACT);

    if (tensor)
        snprintf(place.key, sizeof(place.key), "%.90s", tensor);
    return place;
}

/* ---- formats ---- */

/* The format that holds most of the parameters; NULL: none is known. */
static const char *main_format(const struct mpl_import *import, bool *is_mixed_out)
{
    const json_t *formats = fact(import, "dtypes"), *number;
    const char *name, *most = NULL;
    json_int_t held = 0;

    json_object_foreach((json_t *)formats, name, number)
    {
        if (json_integer_value(number) > held) {
            held = json_integer_value(number);
            most = name;
        }
    }
    *is_mixed_out = json_object_size(formats) > 1;
    return most;
}

/* "12 in float32, 34 in bfloat16" */
static void list_formats(const struct mpl_import *import, char *text, size_t size)
{
    const json_t *formats = fact(import, "dtypes"), *number;
    const char *name;
    size_t used = 0;

    *text = '\0';
    json_object_foreach((json_t *)formats, name, number)
    {
        if (used < size)
            used += (size_t)snprintf(text + used, size - used,
                                     "%s%" JSON_INTEGER_FORMAT " parameters in %s",
                                     used ? ", " : "", json_integer_value(number), name);
    }
}

static void settle_format(struct mpl_import *import)
{
    json_t *model = (json_t *)mpl_import_get(import, "model");
    const json_t *told = json_object_get(model, "dtype");
    const struct mpl_import_place place = place_of(import, NULL);
    const char *format, *name;
    char list[200];
    bool is_mixed;

    format = main_format(import, &is_mixed);
    told = told ? told : json_object_get(model, "torch_dtype");
    name = json_string_value(told);
    if (is_mixed) {
        list_formats(import, list, sizeof(list));
        mpl_import_note(import, &place, "%s; all are loaded in %s", list, name ? name : format);
    }
    if (!format || !model)
        return;
    if (!name)
        json_object_set_new(model, "dtype", json_string(format));
    else if (strcmp(name, format) != 0 && strcmp(name, "auto") != 0 && !is_mixed)
        mpl_import_note(import, &place, "in %s, and loaded in %s, as config.json says", format,
                        name);
}

/* ---- quantised weights ---- */

static enum memplan_status settle_four_bits(struct mpl_import *import, const char *kind,
                                            struct memplan_error *err)
{
    const struct mpl_import_place place = place_of(import, NULL);
    const json_t *config = json_object_get(mpl_import_get(import, "model"), "quantization_config");
    const char *type = json_string_value(json_object_get(config, "bnb_4bit_quant_type"));
    enum memplan_status status;
    char json[16];

    if (config) {
        if (type && strcmp(type, kind) != 0)
            mpl_import_note(import, &place, "in %s, and config.json says %s", kind, type);
        return MEMPLAN_OK;
    }
    snprintf(json, sizeof(json), "\"%s\"", kind);
    status = mpl_import_default(import, "import.load_in_4bit", "true", err);
    if (!status)
        status = mpl_import_set_text(import, &place, "training.quantization.type", json, err);
    if (!status)
        status = mpl_import_set_text(import, &place, "training.quantization.double",
                                     json_is_true(fact(import, "double")) ? "true" : "false", err);
    return status;
}

static enum memplan_status settle_quantization(struct mpl_import *import, struct memplan_error *err)
{
    static const char *const kinds[][2] = {
        {"int8", "bitsandbytes' 8 bits"},
        {"gptq", "GPTQ's form"},
        {"awq", "AWQ's form"},
        {"compressed-tensors", "compressed-tensors' packed form"},
        {"fp8", "8-bit floating point with scales"},
        {"mxfp4", "MXFP4"},
    };
    const char *kind = json_string_value(fact(import, "quantization"));
    const char *odd = json_string_value(fact(import, "odd"));
    const struct mpl_import_place place =
        place_of(import, kind ? json_string_value(fact(import, "example")) : odd);

    for (size_t i = 0; kind && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i][0], kind) == 0)
            return mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err,
                                   "weights in %s are not modelled, expected float32, bfloat16, "
                                   "float16 or bitsandbytes' 4 bits",
                                   kinds[i][1]);
    if (!kind && odd)
        return mpl_import_fail(&place, MEMPLAN_ERR_UNSUPPORTED, err,
                               "weights in %s are not modelled, expected float32, bfloat16, "
                               "float16 or bitsandbytes' 4 bits",
                               json_string_value(fact(import, "odd_dtype")));
    return kind ? settle_four_bits(import, kind, err) : MEMPLAN_OK;
}

/* ---- adapters ---- */

static enum memplan_status settle_ranks(struct mpl_import *import, const json_t *ranks,
                                        struct memplan_error *err)
{
    const struct mpl_import_place place = place_of(import, "rank of the adapters");
    const json_t *number;
    const char *rank, *most = NULL;
    json_int_t held = 0;

    json_object_foreach((json_t *)ranks, rank, number)
    {
        if (json_integer_value(number) > held) {
            held = json_integer_value(number);
            most = rank;
        }
    }
    if (!most)
        return MEMPLAN_OK;
    if (json_object_size(ranks) > 1)
        mpl_import_note(import, &place,
                        "not modelled: ranks that differ by layer; %s is taken, as %" PRId64
                        " adapters have it",
                        most, (int64_t)held);
    return mpl_import_set_text(import, &place, "training.lora.r", most, err);
}

static enum memplan_status settle_names(struct mpl_import *import, const json_t *adapters,
                                        const char *key, struct memplan_error *err)
{
    const struct mpl_import_place place = place_of(import, "the adapters");
    const json_t *names = json_object_get(adapters, key);
    char path[64];

    snprintf(path, sizeof(path), "training.lora.%s", key);
    if (mpl_settle_has(import, path) || !json_array_size(names))
        return MEMPLAN_OK;
    return mpl_import_set(import, &place, path, names, err);
}

static enum memplan_status settle_adapters(struct mpl_import *import, struct memplan_error *err)
{
    const json_t *adapters = fact(import, "adapters");
    const struct mpl_import_place place = place_of(import, "the adapters");
    const char *format = json_string_value(json_object_get(adapters, "dtype"));
    enum memplan_status status;

    if (!adapters)
        return MEMPLAN_OK;
    status = mpl_import_default(import, "import.adapter", "\"lora\"", err);
    if (!status)
        status = settle_ranks(import, json_object_get(adapters, "ranks"), err);
    if (!status)
        status = settle_names(import, adapters, "target_modules", err);
    if (!status)
        status = settle_names(import, adapters, "modules_to_save", err);
    if (!status && json_is_true(json_object_get(adapters, "use_dora")))
        status = mpl_import_set_text(import, &place, "training.lora.use_dora", "true", err);
    if (!status && format && strcmp(format, "float32") != 0)
        mpl_import_note(
            import, &place,
            "in %s, and trained in float32, as PEFT loads them (autocast_adapter_dtype)", format);
    return status;
}

enum memplan_status mpl_settle_weights(struct mpl_import *import, struct memplan_error *err)
{
    const struct mpl_import_place place = place_of(import, NULL);
    const char *unlisted = json_string_value(fact(import, "unlisted"));
    enum memplan_status status;

    if (!mpl_settle_has(import, FACT))
        return MEMPLAN_OK;
    status = settle_quantization(import, err);
    if (!status)
        status = settle_adapters(import, err);
    if (status)
        return status;
    settle_format(import);
    if (unlisted)
        mpl_import_note(import, &place, "hold %.100s, which the index does not name", unlisted);
    if (count(import, "unread"))
        mpl_import_note(import, &place,
                        "%" PRId64 " of %" PRId64
                        " tensors are known by name alone: their files are not there, or not given",
                        count(import, "unread"), count(import, "tensors"));
    else if (count(import, "total_size") && count(import, "total_size") != count(import, "bytes") &&
             !fact(import, "adapters"))
        mpl_import_note(import, &place,
                        "hold %" PRId64 " bytes, the index says %" PRId64 " (metadata.total_size)",
                        count(import, "bytes"), count(import, "total_size"));
    if (count(import, "beside"))
        mpl_import_note(import, &place, "not counted: %" PRId64 " parameters of %s and its like",
                        count(import, "beside"), json_string_value(fact(import, "beside_name")));
    return MEMPLAN_OK;
}

/* ---- the number of parameters ---- */

char *mpl_import_counted_plan(const struct mpl_import *import)
{
    json_t *model, *root;
    char *json;

    if (!mpl_settle_has(import, FACT) || !mpl_settle_has(import, "model") ||
        !count(import, "tensors") || (count(import, "unread") && !count(import, "total_size")))
        return NULL;
    model = json_copy((json_t *)mpl_import_get(import, "model"));
    json_object_del(model, "quantization_config");
    root = json_pack("{s:o, s:{s:i}}", "model", model, "training", "sequence_length", 8);
    json = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return json;
}

/* Parameters of an output head that is not the embedding. */
static uint64_t head_of(const struct mpl_import *import)
{
    const json_t *model = mpl_import_get(import, "model");

    return mpl_mul((uint64_t)json_integer_value(json_object_get(model, "vocab_size")),
                   (uint64_t)json_integer_value(json_object_get(model, "hidden_size")));
}

/* Where headers are missing: metadata.total_size against the format of config.json. */
static void compare_total(struct mpl_import *import, uint64_t parameters)
{
    const json_t *model = mpl_import_get(import, "model"), *told = json_object_get(model, "dtype");
    const char *name = json_string_value(told ? told : json_object_get(model, "torch_dtype"));
    const enum mpl_dtype dtype = name ? mpl_dtype_from_name(name) : MPL_DTYPE_NONE;
    const uint64_t found = (uint64_t)count(import, "total_size");
    const uint64_t head = mpl_dtype_bytes(dtype, head_of(import));
    const uint64_t expected = mpl_dtype_bytes(dtype, parameters);
    const struct mpl_import_place place = place_of(import, "metadata.total_size");

    if (dtype == MPL_DTYPE_NONE || fact(import, "quantization") || found == expected ||
        (fact(import, "head") && found == mpl_add(expected, head)) ||
        (!fact(import, "head") && mpl_add(found, head) == expected))
        return;
    mpl_import_note(import, &place,
                    "found %" PRIu64 " bytes, the model that config.json describes has %" PRIu64
                    " in %s",
                    found, expected, name);
}

void mpl_import_compare(struct mpl_import *import, uint64_t parameters)
{
    const uint64_t found = (uint64_t)count(import, "parameters"), head = head_of(import);
    const char *name = json_string_value(fact(import, "head"));
    struct mpl_import_place place = place_of(import, name);

    if (count(import, "unread")) {
        compare_total(import, parameters);
        return;
    }
    if (found == parameters)
        return;
    if (!name && mpl_add(found, head) == parameters) {
        mpl_import_note(import, &place,
                        "hold no output head (lm_head.weight), and config.json does not tie it to "
                        "the embedding: a new one of %" PRIu64 " parameters is counted",
                        head);
    } else if (name && found == mpl_add(parameters, head)) {
        mpl_import_note(import, &place,
                        "is there, and config.json ties the head to the embedding "
                        "(tie_word_embeddings): it is not counted");
    } else {
        place = place_of(import, NULL);
        mpl_import_note(import, &place,
                        "hold %" PRIu64
                        " parameters, the model that config.json describes has %" PRIu64,
                        found, parameters);
    }
}
