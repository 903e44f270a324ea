/* SPDX-License-Identifier: MIT */
/* Readings of real runs in a plan: a number with what may be its unit and its metric, or an
 * outcome. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "ingest/value.h"
#include "spec/text.h"

#define PREFIX "observations[]."

/* One reading under way. */
struct reading {
    const json_t *json;
    size_t index;
    char pointer[64];
    struct mpl_observation *out;
};

static enum memplan_status fail_reading(const struct reading *reading, const char *name,
                                        const char *text, struct memplan_error *err)
{
    char pointer[128];

    snprintf(pointer, sizeof(pointer), "%s%s%s", reading->pointer, *name ? "/" : "", name);
    return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "observations: %s", text);
}

/* A member as a value of its row of the table. */
static struct mpl_value member(const struct reading *reading, const char *name, char *pointer,
                               size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), PREFIX "%s", name);
    snprintf(pointer, size, "%s/%s", reading->pointer, name);
    return (struct mpl_value){mpl_field_find(path), json_object_get(reading->json, name), pointer};
}

/* A word, or {"any_of": [words]}, as bits 1 << value; 0 when absent. */
static enum memplan_status read_words(const struct reading *reading, const char *name,
                                      uint32_t *bits_out, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    const struct mpl_word *word = NULL;
    char pointer[128];
    struct mpl_value value = member(reading, name, pointer, sizeof(pointer));
    const json_t *choices = json_object_get(value.json, "any_of");

    *bits_out = 0;
    if (!value.json || json_is_null(value.json))
        return MEMPLAN_OK;
    if (choices && json_array_size(choices) == 0)
        return fail_reading(reading, name, "any_of holds no words, expected a list of them", err);
    for (size_t i = 0; i < (choices ? json_array_size(choices) : 1) && !status; i++) {
        if (choices)
            value.json = json_array_get(choices, i);
        status = mpl_value_word(&value, &word, err);
        if (!status)
            *bits_out |= UINT32_C(1) << word->value;
    }
    return status;
}

/* The only bit of a set, or several. */
static bool only_bit(uint32_t bits, int *bit_out)
{
    for (int bit = 0; bit < 32; bit++)
        if (bits == UINT32_C(1) << bit) {
            *bit_out = bit;
            return true;
        }
    return false;
}

/* A number whose unit stands with it: bytes, or text. */
static void take_unit(const struct mpl_size *size, struct mpl_observation *out)
{
    double base = size->unit_is_power ? 1073741824.0 : 1e9;
    double scale = (double)size->unit / base;

    out->unit = size->unit == 1 ? MPL_UNIT_BYTES : size->unit_is_power ? MPL_UNIT_GIB : MPL_UNIT_GB;
    out->units = UINT32_C(1) << out->unit;
    if (out->unit != MPL_UNIT_BYTES) {
        out->value *= scale;
        out->resolution *= scale;
    }
}

/* The text of a number: an integer or a real of the document, or what is written. */
static enum memplan_status read_size(const struct reading *reading, const json_t *json,
                                     struct mpl_size *size_out, struct memplan_error *err)
{
    char literal[64];

    if (json_is_number(json)) {
        size_t len = json_dumpb(json, literal, sizeof(literal) - 1,
                                JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

        literal[len < sizeof(literal) ? len : 0] = '\0';
    } else if (json_is_string(json) && json_string_length(json) < sizeof(literal)) {
        memcpy(literal, json_string_value(json), json_string_length(json) + 1);
    } else {
        return fail_reading(reading, "bytes", "bytes holds no number", err);
    }
    if (!mpl_size_parse(literal, size_out))
        return fail_reading(reading, "bytes",
                            "bytes is no size, expected an integer, or text such as \"28.5 GB\"",
                            err);
    return MEMPLAN_OK;
}

/* Bytes of the largest reading that makes sense, as a double holds it exactly. */
#define MOST_BYTES 1125899906842624.0

static enum memplan_status read_number(const struct reading *reading, struct memplan_error *err)
{
    struct mpl_observation *out = reading->out;
    const json_t *json = json_object_get(reading->json, "bytes");
    struct mpl_size size;
    enum memplan_status status = read_size(reading, json, &size, err);
    uint32_t units = 0;
    int unit = MPL_UNIT_UNKNOWN;

    if (!status)
        status = read_words(reading, "unit", &units, err);
    if (status)
        return status;
    out->resolution = pow(10.0, -(double)size.decimals);
    out->value = (double)size.whole + (double)size.fraction * out->resolution;
    if (size.unit && units)
        return fail_reading(reading, "unit", "bytes has a unit already, expected one of the two",
                            err);
    if (!size.unit && !units && json_is_integer(json))
        size.unit = 1;
    if (size.unit) {
        take_unit(&size, out);
    } else {
        out->units = units ? units : UINT32_C(1) << MPL_UNIT_GB | UINT32_C(1) << MPL_UNIT_GIB;
        out->unit = only_bit(out->units, &unit) ? (enum mpl_unit)unit : MPL_UNIT_UNKNOWN;
    }
    if (!(out->value > 0) || out->value * (out->units & ~UINT32_C(1) ? 1e9 : 1.0) > MOST_BYTES)
        return fail_reading(reading, "bytes",
                            "bytes is out of range, expected above 0, up to 1 PiB", err);
    return MEMPLAN_OK;
}

static enum memplan_status read_metric(const struct reading *reading, struct memplan_error *err)
{
    struct mpl_observation *out = reading->out;
    int metric = MPL_METRIC_UNKNOWN;
    enum memplan_status status = read_words(reading, "metric", &out->metrics, err);

    if (status)
        return status;
    if (!out->metrics)
        out->metrics = UINT32_C(1) << MPL_METRIC_ALLOCATED | UINT32_C(1) << MPL_METRIC_RESERVED |
                       UINT32_C(1) << MPL_METRIC_DEVICE;
    out->metric = only_bit(out->metrics, &metric) ? (enum mpl_metric)metric : MPL_METRIC_UNKNOWN;
    return MEMPLAN_OK;
}

/* {"path": value}: fields of the table with one value each. */
static enum memplan_status check_set(const struct reading *reading, struct memplan_error *err)
{
    const json_t *set = json_object_get(reading->json, "set");
    enum memplan_status status = MEMPLAN_OK;
    const char *path;
    char pointer[128];
    json_t *json;

    if (!set || json_is_null(set))
        return MEMPLAN_OK;
    if (!json_is_object(set))
        return fail_reading(reading, "set", "set is no object of paths and values", err);
    json_object_foreach((json_t *)set, path, json)
    {
        const struct mpl_field *field = mpl_field_find(path);
        struct mpl_value value = {field, json, pointer};

        snprintf(pointer, sizeof(pointer), "%s/set/%s", reading->pointer, path);
        if (!field)
            return mpl_spec_fail_name(path, pointer, err);
        if (!mpl_spec_can_open(field) || json_is_object(json) || json_is_array(json) ||
            strcmp(path, "training.sequence_length") == 0)
            return fail_reading(reading, "set",
                                "set holds what is not a scalar field other than the length", err);
        status = mpl_value_store(&value, NULL, err);
        if (status)
            break;
        reading->out->has_set = true;
    }
    return status;
}

static enum memplan_status check_members(const struct reading *reading, struct memplan_error *err)
{
    const char *key;
    char path[128], pointer[128];
    json_t *value;

    json_object_foreach((json_t *)reading->json, key, value)
    {
        if (mpl_spec_is_remark(key) && json_is_string(value))
            continue;
        snprintf(path, sizeof(path), PREFIX "%s", key);
        if (!mpl_field_find(path)) {
            snprintf(pointer, sizeof(pointer), "%s/%s", reading->pointer, key);
            return mpl_spec_fail_name(path, pointer, err);
        }
    }
    return MEMPLAN_OK;
}

/* What a reading says: its number, or its outcome. */
static enum memplan_status read_result(const struct reading *reading, struct memplan_error *err)
{
    const json_t *bytes = json_object_get(reading->json, "bytes");
    const struct mpl_word *word = NULL;
    char pointer[128];
    struct mpl_value outcome = member(reading, "outcome", pointer, sizeof(pointer));
    enum memplan_status status = MEMPLAN_OK;
    bool has_number = bytes && !json_is_null(bytes);

    if (outcome.json && !json_is_null(outcome.json))
        status = mpl_value_word(&outcome, &word, err);
    if (status)
        return status;
    if (!has_number && !word)
        return fail_reading(reading, "", "a reading says nothing, expected bytes or outcome", err);
    if (has_number && word && word->value == MPL_OUTCOME_OOM)
        return fail_reading(reading, "bytes",
                            "a run that ran out of memory has no peak, expected bytes or oom", err);
    if (!has_number) {
        reading->out->outcome = (enum mpl_outcome)word->value;
        return MEMPLAN_OK;
    }
    reading->out->outcome = MPL_OUTCOME_NUMBER;
    status = read_number(reading, err);
    return status ? status : read_metric(reading, err);
}

static enum memplan_status read_one(const struct reading *reading, struct memplan_error *err)
{
    struct mpl_observation *out = reading->out;
    const char *source = json_string_value(json_object_get(reading->json, "source"));
    enum memplan_status status;
    char pointer[128];

    if (!json_is_object(reading->json))
        return fail_reading(reading, "", "a reading is no object", err);
    struct mpl_value length = member(reading, "sequence_length", pointer, sizeof(pointer));

    status = check_members(reading, err);
    if (!status && !length.json)
        status = fail_reading(reading, "sequence_length", "sequence_length is not given", err);
    if (!status)
        status = mpl_value_integer(&length, &out->sequence_length, err);
    if (!status)
        status = read_result(reading, err);
    if (!status)
        status = check_set(reading, err);
    if (!status && source)
        memcpy(out->source, source, mpl_json_cut(source, sizeof(out->source) - 1));
    return status;
}

enum memplan_status mpl_spec_read_observations(const struct mpl_spec *spec, struct mpl_plan *plan,
                                               struct memplan_error *err)
{
    const json_t *list = json_object_get(spec->document, "observations");
    enum memplan_status status = MEMPLAN_OK;
    size_t count = json_array_size(list);

    if (count > MPL_MAX_OBSERVATIONS)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, "/observations",
                        "observations: found %zu, expected at most %d", count,
                        MPL_MAX_OBSERVATIONS);
    for (size_t i = 0; i < count && !status; i++) {
        struct reading reading = {json_array_get(list, i), i, "", &plan->observations[i]};

        snprintf(reading.pointer, sizeof(reading.pointer), "/observations/%zu", i);
        status = read_one(&reading, err);
    }
    plan->observation_count = (uint32_t)count;
    return status;
}

uint32_t mpl_spec_same_reading(const struct mpl_spec *spec, const struct mpl_plan *plan, uint32_t i)
{
    const json_t *list = json_object_get(spec->document, "observations");
    const json_t *own = json_object_get(json_array_get(list, i), "set");
    const struct mpl_observation *b = &plan->observations[i];

    for (uint32_t earlier = 0; earlier < i; earlier++) {
        const struct mpl_observation *a = &plan->observations[earlier];
        const json_t *set = json_object_get(json_array_get(list, earlier), "set");

        if (a->sequence_length == b->sequence_length && a->outcome == b->outcome &&
            !(a->value < b->value) && !(a->value > b->value) &&
            (a->outcome != MPL_OUTCOME_NUMBER ||
             (a->units & b->units && a->metrics & b->metrics)) &&
            ((!set && !own) || json_equal(set, own)))
            return earlier;
    }
    return i;
}
