/* SPDX-License-Identifier: MIT */
/*
 * Stage "import": the header of one .safetensors file. 8 bytes of length, little end first; JSON of
 * that many bytes, an object with the format, shape and place of each tensor; then the data, which
 * nobody reads here. All that is said is held against the size of the file.
 *
 * The JSON is taken one member at a time, so that memory grows with the tensors alone.
 * source: safetensors 0.8, src/tensor.rs: read_metadata, Metadata::validate
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "import/import.h"
#include "import/weights.h"
#include "ingest/json.h"

struct header {
    struct memplan_weights *weights;
    const char *file, *text;
    size_t len, at; /* of text */
    uint64_t data_bytes;
    size_t first; /* of its tensors in weights */
    bool has_metadata;
    struct memplan_error *err;
};

#define OFFSET 8 /* of the header in the file, for messages */

/* "FILE: NAME: byte N: text" */
#define FAIL(header_, status_, name_, at_, ...)                                                    \
    fail((header_), (status_), (name_), (at_), __VA_ARGS__)

static enum memplan_status fail(const struct header *header, enum memplan_status status,
                                const char *name, size_t at, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static enum memplan_status fail(const struct header *header, enum memplan_status status,
                                const char *name, size_t at, const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (header->err && header->err->status == MEMPLAN_OK)
        snprintf(header->err->source, sizeof(header->err->source), "%s", header->file);
    return mpl_fail(header->err, status, NULL, "byte %zu: %.*s%s%s", at + OFFSET,
                    (int)mpl_json_cut(name, 100), name, *name ? ": " : "", text);
}

static enum memplan_status fail_memory(const struct header *header)
{
    return mpl_fail(header->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

/* ---- JSON, one value after the other ---- */

static void skip_blank(struct header *header)
{
    while (header->at < header->len && strchr(" \t\r\n", header->text[header->at]))
        header->at++;
}

/* Takes a character that must come. */
static bool take(struct header *header, char c)
{
    skip_blank(header);
    if (header->at == header->len || header->text[header->at] != c)
        return false;
    header->at++;
    return true;
}

/* The next value, new; NULL after an error. */
static json_t *take_value(struct header *header, const char *name)
{
    json_error_t error;
    json_t *json;

    skip_blank(header);
    json = json_loadb(header->text + header->at, header->len - header->at,
                      JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (json)
        header->at += (size_t)error.position;
    else
        FAIL(header, MEMPLAN_ERR_SYNTAX, name, header->at, "not well-formed JSON: %.200s",
             error.text);
    return json;
}

/* ---- one tensor ---- */

static enum memplan_status take_shape(const struct header *header, struct mpl_weight *weight,
                                      const json_t *shape)
{
    const json_t *size;
    size_t i;

    if (!json_is_array(shape))
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "shape: expected a list of sizes");
    if (json_array_size(shape) > MPL_WEIGHTS_MOST_RANK)
        return FAIL(header, MEMPLAN_ERR_LIMIT, weight->name, weight->at,
                    "shape: found %zu sizes, expected at most %d", json_array_size(shape),
                    MPL_WEIGHTS_MOST_RANK);
    weight->numel = 1;
    weight->rank = (uint8_t)json_array_size(shape);
    json_array_foreach(shape, i, size)
    {
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                        "shape: expected whole numbers from 0 on");
        if (i < sizeof(weight->dims) / sizeof(weight->dims[0]))
            weight->dims[i] = (uint64_t)json_integer_value(size);
        weight->numel = mpl_mul(weight->numel, (uint64_t)json_integer_value(size));
    }
    return MEMPLAN_OK;
}

static enum memplan_status take_offsets(const struct header *header, struct mpl_weight *weight,
                                        const json_t *offsets)
{
    const json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    const json_int_t end = json_integer_value(json_array_get(offsets, 1));

    if (json_array_size(offsets) != 2 || !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)) || begin < 0 || end < begin)
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "data_offsets: expected two whole numbers, the second not below the first");
    weight->begin = (uint64_t)begin;
    weight->end = (uint64_t)end;
    if (weight->end > header->data_bytes)
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "data_offsets: ends at byte %" PRIu64 " of the data, the file has %" PRIu64,
                    weight->end, header->data_bytes);
    return MEMPLAN_OK;
}

/* shape: elements; unit: bits of one. What is not whole bytes is refused, as safetensors does. */
static enum memplan_status check_size(const struct header *header, const struct mpl_weight *weight)
{
    const uint64_t bits = mpl_mul(weight->numel, weight->dtype->bits);

    if (bits == MPL_BYTES_OVERFLOW)
        return FAIL(header, MEMPLAN_ERR_OVERFLOW, weight->name, weight->at,
                    "shape: more elements than a number of 64 bits can count in bits");
    if (bits % 8)
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "shape: %" PRIu64 " elements of %u bits are no whole bytes", weight->numel,
                    weight->dtype->bits);
    if (bits / 8 != weight->end - weight->begin)
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "data_offsets: %" PRIu64 " bytes, expected %" PRIu64 ": %" PRIu64
                    " elements of %s",
                    weight->end - weight->begin, bits / 8, weight->numel, weight->dtype->name);
    return MEMPLAN_OK;
}

static enum memplan_status take_tensor(const struct header *header, struct mpl_weight *weight,
                                       const json_t *json)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    enum memplan_status status;

    if (!json_is_object(json))
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "expected an object with dtype, shape and data_offsets");
    if (!dtype || !(weight->dtype = mpl_weights_dtype(dtype)))
        return FAIL(header, MEMPLAN_ERR_VALUE, weight->name, weight->at,
                    "dtype: found %.*s%s, expected a format of safetensors such as BF16",
                    dtype ? (int)mpl_json_cut(dtype, 40) : 7, dtype ? dtype : "nothing",
                    dtype && strlen(dtype) > 40 ? "..." : "");
    status = take_shape(header, weight, json_object_get(json, "shape"));
    if (!status)
        status = take_offsets(header, weight, json_object_get(json, "data_offsets"));
    return status ? status : check_size(header, weight);
}

static enum memplan_status add_tensor(struct header *header, const char *name, size_t at,
                                      const json_t *json)
{
    struct memplan_weights *weights = header->weights;
    struct mpl_weight weight = {.file = (uint32_t)weights->files.len, .at = (uint32_t)at};
    enum memplan_status status;

    if (strlen(name) > MPL_WEIGHTS_MOST_NAME || !*name)
        return FAIL(header, MEMPLAN_ERR_LIMIT, "", at, "a name of %zu bytes, expected 1 to %d",
                    strlen(name), MPL_WEIGHTS_MOST_NAME);
    if (weights->tensors.len == MPL_WEIGHTS_MOST_TENSORS)
        return FAIL(header, MEMPLAN_ERR_LIMIT, "", at, "more than %zu tensors",
                    MPL_WEIGHTS_MOST_TENSORS);
    weight.name = mpl_import_copy(name, strlen(name));
    if (!weight.name || mpl_vec_reserve(&weights->tensors)) {
        free(weight.name);
        return fail_memory(header);
    }
    status = take_tensor(header, &weight, json);
    if (status)
        free(weight.name);
    else
        weights->tensors.data[weights->tensors.len++] = weight;
    return status;
}

/* ---- the whole header ---- */

static enum memplan_status take_metadata(struct header *header, size_t at, const json_t *json)
{
    const json_t *value;
    const char *key;

    if (header->has_metadata)
        return FAIL(header, MEMPLAN_ERR_SYNTAX, "__metadata__", at, "stands there twice");
    header->has_metadata = true;
    if (!json_is_object(json))
        return FAIL(header, MEMPLAN_ERR_VALUE, "__metadata__", at, "expected an object");
    json_object_foreach((json_t *)json, key, value)
    {
        if (!json_is_string(value))
            return FAIL(header, MEMPLAN_ERR_VALUE, "__metadata__", at, "%.60s: expected text", key);
    }
    return MEMPLAN_OK;
}

static enum memplan_status take_member(struct header *header)
{
    json_t *key, *value = NULL;
    enum memplan_status status;
    const char *name;
    size_t at;

    skip_blank(header);
    at = header->at;
    key = take_value(header, "");
    name = json_string_value(key);
    if (key && !name)
        status = FAIL(header, MEMPLAN_ERR_SYNTAX, "", at, "expected the name of a tensor");
    else if (key && !take(header, ':'))
        status = FAIL(header, MEMPLAN_ERR_SYNTAX, name, header->at, "expected \":\"");
    else if (!key || !(value = take_value(header, name)))
        status = MEMPLAN_ERR_SYNTAX;
    else if (strcmp(name, "__metadata__") == 0)
        status = take_metadata(header, at, value);
    else
        status = add_tensor(header, name, at, value);
    json_decref(key);
    json_decref(value);
    return status;
}

static enum memplan_status take_members(struct header *header)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_done;

    if (!header->len || *header->text != '{')
        return FAIL(header, MEMPLAN_ERR_SYNTAX, "", 0, "expected the header to begin with \"{\"");
    header->at = 1;
    is_done = take(header, '}');
    while (!is_done && !status) {
        status = take_member(header);
        is_done = !status && take(header, '}');
        if (!status && !is_done && !take(header, ','))
            status = FAIL(header, MEMPLAN_ERR_SYNTAX, "", header->at, "expected \",\" or \"}\"");
    }
    skip_blank(header);
    if (!status && header->at != header->len)
        status = FAIL(header, MEMPLAN_ERR_SYNTAX, "", header->at, "found more behind the header");
    return status;
}

static int by_place(const void *a, const void *b)
{
    const struct mpl_weight *first = a, *second = b;

    if (first->begin != second->begin)
        return first->begin < second->begin ? -1 : 1;
    return first->end < second->end ? -1 : first->end > second->end;
}

/* Each tensor begins where the one before it ends, the last one ends with the file. */
static enum memplan_status check_places(const struct header *header)
{
    struct mpl_weight *of = header->weights->tensors.data + header->first;
    const size_t count = header->weights->tensors.len - header->first;
    uint64_t end = 0;

    if (count)
        qsort(of, count, sizeof(*of), by_place);
    for (size_t i = 0; i < count; i++) {
        if (of[i].begin != end)
            return FAIL(header, MEMPLAN_ERR_VALUE, of[i].name, of[i].at,
                        "data_offsets: begins at byte %" PRIu64 " of the data, %s %" PRIu64,
                        of[i].begin,
                        of[i].begin < end ? "inside of another tensor, which ends at"
                                          : "behind a gap that begins at",
                        end);
        end = of[i].end;
    }
    if (end != header->data_bytes)
        return FAIL(header, MEMPLAN_ERR_VALUE, "", 0,
                    "the tensors end at byte %" PRIu64 " of the data, the file has %" PRIu64, end,
                    header->data_bytes);
    return MEMPLAN_OK;
}

static uint64_t little_end_first(const unsigned char *bytes)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* The length that the file gives, against its size. */
static enum memplan_status check_length(const struct header *header, const void *bytes, size_t len,
                                        uint64_t file_bytes, uint64_t *length_out)
{
    struct mpl_import_place place = {.file = header->file, .key = "the header"};

    if (len < OFFSET || file_bytes < OFFSET)
        return mpl_import_fail(&place, MEMPLAN_ERR_SYNTAX, header->err,
                               "found a file of %" PRIu64 " bytes, expected 8 and a header",
                               file_bytes);
    *length_out = little_end_first(bytes);
    if (*length_out > file_bytes - OFFSET)
        return mpl_import_fail(&place, MEMPLAN_ERR_VALUE, header->err,
                               "its length is %" PRIu64 " bytes, the file has %" PRIu64,
                               *length_out, file_bytes);
    if (*length_out > MPL_WEIGHTS_MOST_HEADER)
        return mpl_import_fail(&place, MEMPLAN_ERR_LIMIT, header->err,
                               "its length is %" PRIu64 " bytes, expected at most %" PRIu64,
                               *length_out, MPL_WEIGHTS_MOST_HEADER);
    if (mpl_add(header->weights->header_bytes, *length_out) > 4 * MPL_WEIGHTS_MOST_HEADER)
        return mpl_import_fail(&place, MEMPLAN_ERR_LIMIT, header->err,
                               "the headers of all files are more than %" PRIu64 " bytes",
                               4 * MPL_WEIGHTS_MOST_HEADER);
    if (len - OFFSET < *length_out)
        return mpl_import_fail(&place, MEMPLAN_ERR_ARG, header->err,
                               "%zu bytes were given, expected %" PRIu64, len,
                               *length_out + OFFSET);
    return MEMPLAN_OK;
}

enum memplan_status mpl_weights_add(struct memplan_weights *weights, const char *name,
                                    const void *bytes, size_t len, uint64_t file_bytes,
                                    struct memplan_error *err)
{
    struct header header = {
        .weights = weights, .file = name, .first = weights->tensors.len, .err = err};
    uint64_t length = 0;
    enum memplan_status status = check_length(&header, bytes, len, file_bytes, &length);
    char *copy;

    if (status)
        return status;
    if (weights->files.len == MPL_WEIGHTS_MOST_FILES)
        return FAIL(&header, MEMPLAN_ERR_LIMIT, "", 0, "more than %d files",
                    MPL_WEIGHTS_MOST_FILES);
    header.text = (const char *)bytes + OFFSET;
    header.len = (size_t)length;
    header.data_bytes = file_bytes - OFFSET - length;
    status = take_members(&header);
    if (!status)
        status = check_places(&header);
    if (status)
        return status;
    copy = mpl_import_copy(name, strlen(name));
    if (!copy || mpl_vec_reserve(&weights->files)) {
        free(copy);
        return fail_memory(&header);
    }
    weights->files.data[weights->files.len++] = copy;
    weights->data_bytes = mpl_add(weights->data_bytes, header.data_bytes);
    weights->header_bytes += length;
    return MEMPLAN_OK;
}
