/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": what the tensors of a set are for: parameters, buffers, adapters, the companions
 * of quantised weights. Told by their names, as the libraries that write them give them.
 * source: bitsandbytes 0.50, functional.py (QuantState.as_dict), nn/modules.py (Int8Params);
 * transformers 5.24, integrations/{bitsandbytes,finegrained_fp8,mxfp4,awq}.py; gptqmodel and
 * compressed-tensors, their linear layers; peft 0.21, tuners/lora/layer.py
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "import/import.h"
#include "import/weights.h"
#include "import/weights_tell.h"
#include "ingest/json.h"

static bool ends_with(const char *name, const char *ending)
{
    const size_t len = strlen(name), end = strlen(ending);

    return len >= end && strcmp(name + len - end, ending) == 0;
}

/* ---- quantised weights ---- */

/* A tensor that only a form of quantisation has; the first row that fits is taken. */
static const struct {
    const char *ending, *kind;
} marks[] = {
    {".quant_state.bitsandbytes__nf4", "nf4"},
    {".quant_state.bitsandbytes__fp4", "fp4"},
    {".SCB", "int8"},
    {".g_idx", "gptq"},
    {".qweight", "awq"}, /* GPTQ's have a g_idx */
    {".weight_packed", "compressed-tensors"},
    {".weight_scale_inv", "fp8"},
    {".weight_scale", "fp8"},
    {"_blocks", "mxfp4"},
};

/* What else comes with them. */
static const char *const companions[] = {
    ".absmax",        ".quant_map",    ".nested_absmax", ".nested_quant_map",
    ".weight_format", ".qzeros",       ".scales",        ".input_scale",
    ".weight_shape",  ".weight_g_idx", "_scales",        ".weight_zero_point",
    ".k_scale",       ".v_scale",
};

static const char *mark_of(const char *name)
{
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (ends_with(name, marks[i].ending))
            return marks[i].kind;
    return NULL;
}

static bool is_companion(const char *name)
{
    for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++)
        if (ends_with(name, companions[i]))
            return true;
    return mark_of(name) != NULL;
}

static bool has(const struct memplan_weights *weights, const char *name, const char *ending)
{
    char whole[MPL_WEIGHTS_MOST_NAME + 64];

    snprintf(whole, sizeof(whole), "%s%s", name, ending);
    return mpl_weights_find(weights, whole) != NULL;
}

/* ---- the others ---- */

/* Tables that older releases saved with the weights: no parameters. */
static bool is_buffer(const struct mpl_weight *weight)
{
    static const char *const endings[] = {".inv_freq", ".masked_bias", ".position_ids",
                                          ".cos_cached", ".sin_cached"};

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (ends_with(weight->name, endings[i]))
            return true;
    return weight->rank == 4 && ends_with(weight->name, ".bias"); /* GPT-2's mask */
}

static bool is_adapter(const char *name)
{
    return strstr(name, ".lora_") || strncmp(name, "base_model.model.", 17) == 0;
}

/* A part of a model of text and more that is no part of its language model; NULL: none. */
static const char *other_part(const char *name)
{
    static const char *const parts[] = {
        "vision_tower",          "vision_model", "visual",      "vision_encoder",
        "multi_modal_projector", "audio_tower",  "audio_model", "embed_audio",
        "embed_vision",          "mm_projector", "connector",   "aligner",
        "vision_embed_tokens",
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *at = strstr(name, parts[i]);

        if (at && (at == name || at[-1] == '.') && at[strlen(parts[i])] == '.')
            return parts[i];
    }
    return NULL;
}

static bool is_head(const char *name)
{
    return ends_with(name, "lm_head.weight") || ends_with(name, "embed_out.weight");
}

/* ---- totals ---- */

static void count_format(struct mpl_weights_told *told, const struct mpl_weights_dtype *dtype,
                         uint64_t numel)
{
    const json_t *old = json_object_get(told->dtypes, dtype->json);

    json_object_set_new(told->dtypes, dtype->json,
                        json_integer(json_integer_value(old) + (json_int_t)numel));
}

/* shape: elements; unit: bytes of the packed tensor, two elements each.
 * source: bitsandbytes 0.50, functional.py (quantize_4bit) */
static uint64_t packed_elements(const struct mpl_weight *weight)
{
    return mpl_mul(weight->end - weight->begin, 2);
}

static void take_parameter(const struct memplan_weights *weights, const struct mpl_weight *weight,
                           struct mpl_weights_told *told)
{
    const bool is_packed = has(weights, weight->name, ".quant_state.bitsandbytes__nf4") ||
                           has(weights, weight->name, ".quant_state.bitsandbytes__fp4");
    const uint64_t numel = is_packed ? packed_elements(weight) : weight->numel;
    const char *part = other_part(weight->name);

    if (!is_packed && !weight->dtype->is_floating && !ends_with(weight->name, "weight"))
        return; /* a counter or a mask */
    if (part) {
        told->beside = mpl_add(told->beside, numel);
        told->beside_name = part;
        return;
    }
    if (is_packed)
        told->is_double |= has(weights, weight->name, ".nested_absmax");
    else if (weight->dtype->is_floating)
        count_format(told, weight->dtype, numel);
    else if (!told->odd) {
        told->odd = weight->name;
        told->odd_dtype = weight->dtype;
    }
    told->parameters = mpl_add(told->parameters, numel);
}

static void take_tensor(const struct memplan_weights *weights, const struct mpl_weight *weight,
                        struct mpl_weights_told *told)
{
    const char *kind = mark_of(weight->name);

    if (kind && (!told->kind || strcmp(kind, "gptq") == 0) &&
        (strcmp(kind, "mxfp4") != 0 || !weight->dtype || strcmp(weight->dtype->name, "U8") == 0)) {
        told->kind = kind;
        told->example = weight->name;
    }
    if (is_adapter(weight->name)) {
        mpl_weights_tell_adapter(weight, told);
        return;
    }
    if (is_head(weight->name))
        told->head = weight->name;
    if (!weight->dtype) /* known by name alone */
        told->unread++;
    else if (!is_companion(weight->name) && !is_buffer(weight))
        take_parameter(weights, weight, told);
    told->base_tensors++;
}

/* ---- the set ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mpl_weight *)a)->name, ((const struct mpl_weight *)b)->name);
}

const struct mpl_weight *mpl_weights_find(const struct memplan_weights *weights, const char *name)
{
    const struct mpl_weight key = {.name = (char *)name};

    return weights->tensors.len
               ? bsearch(&key, weights->tensors.data, weights->tensors.len, sizeof(key), by_name)
               : NULL;
}

static void sort(struct memplan_weights *weights)
{
    if (weights->tensors.len)
        qsort(weights->tensors.data, weights->tensors.len, sizeof(struct mpl_weight), by_name);
}

static enum memplan_status check_names(const struct memplan_weights *weights,
                                       struct memplan_error *err)
{
    const struct mpl_weight *of = weights->tensors.data;

    for (size_t i = 1; i < weights->tensors.len; i++) {
        if (strcmp(of[i - 1].name, of[i].name) != 0)
            continue;
        if (err && err->status == MEMPLAN_OK)
            snprintf(err->source, sizeof(err->source), "%s", weights->files.data[of[i].file]);
        if (of[i - 1].file == of[i].file)
            return mpl_fail(err, MEMPLAN_ERR_SYNTAX, NULL, "byte %u: %.*s: stands there twice",
                            of[i].at + 8, (int)mpl_json_cut(of[i].name, 100), of[i].name);
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "byte %u: %.*s: stands in %.100s, too",
                        of[i].at + 8, (int)mpl_json_cut(of[i].name, 100), of[i].name,
                        weights->files.data[of[i - 1].file]);
    }
    return MEMPLAN_OK;
}

/* Tensors that only the index knows, and such as it does not. */
static enum memplan_status add_unread(struct memplan_weights *weights,
                                      struct mpl_weights_told *told, struct memplan_error *err)
{
    const json_t *file;
    const char *name;

    if (weights->map)
        for (size_t i = 0; i < weights->tensors.len; i++)
            if (!is_adapter(weights->tensors.data[i].name) &&
                !json_object_get(weights->map, weights->tensors.data[i].name))
                told->unlisted = weights->tensors.data[i].name;
    json_object_foreach(weights->map, name, file)
    {
        struct mpl_weight weight = {0};

        if (mpl_weights_find(weights, name))
            continue;
        weight.name = mpl_import_copy(name, strlen(name));
        if (!weight.name || mpl_vec_reserve(&told->names)) {
            free(weight.name);
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        }
        told->names.data[told->names.len++] = weight;
    }
    for (size_t i = 0; i < told->names.len; i++) {
        if (mpl_vec_reserve(&weights->tensors))
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
        weights->tensors.data[weights->tensors.len++] = told->names.data[i];
        told->names.data[i].name = NULL;
    }
    sort(weights);
    return MEMPLAN_OK;
}

enum memplan_status mpl_weights_to_json(struct memplan_weights *weights, char **json_out,
                                        struct memplan_error *err)
{
    struct mpl_weights_told told = {.dtypes = json_object(),
                                    .ranks = json_object(),
                                    .targets = json_object(),
                                    .saved = json_object()};
    enum memplan_status status;

    sort(weights);
    status = check_names(weights, err);
    if (!status)
        status = add_unread(weights, &told, err);
    for (size_t i = 0; !status && i < weights->tensors.len; i++)
        take_tensor(weights, &weights->tensors.data[i], &told);
    if (!status)
        status = mpl_weights_print(weights, &told, json_out, err);
    for (size_t i = 0; i < told.names.len; i++)
        free(told.names.data[i].name);
    mpl_vec_free(&told.names);
    json_decref(told.dtypes);
    json_decref(told.ranks);
    json_decref(told.targets);
    json_decref(told.saved);
    return status;
}

void mpl_weights_free(struct memplan_weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->tensors.len; i++)
        free(weights->tensors.data[i].name);
    for (size_t i = 0; i < weights->files.len; i++)
        free(weights->files.data[i]);
    for (size_t i = 0; i < weights->shards.len; i++)
        free(weights->shards.data[i]);
    mpl_vec_free(&weights->tensors);
    mpl_vec_free(&weights->files);
    mpl_vec_free(&weights->shards);
    json_decref(weights->map);
    free(weights->index_name);
    free(weights);
}
