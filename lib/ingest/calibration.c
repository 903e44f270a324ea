/* SPDX-License-Identifier: MIT */
/* Calibration files: reading them, and whether a plan is the one that was calibrated. */
#include "ingest/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "ingest/document.h"
#include "ingest/json.h"
#include "timeline/timeline.h"

#define FORM 1 /* of the file: "memplan_calibration" */

/* ---- the plan's identity ----------------------------------------------------------------------
 */

/* Remarks say nothing of the run. Depth is bounded by the reader's limit. */
static void strip_remarks(json_t *json)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;

    json_array_foreach(json, i, value) strip_remarks(value);
    json_object_foreach_safe(json, next, key, value)
    {
        if (mpl_spec_is_remark(key) && json_is_string(value))
            json_object_del(json, key);
        else
            strip_remarks(value);
    }
}

static void delete_path(json_t *root, const char *path)
{
    char section[64];
    const char *dot = strrchr(path, '.');
    size_t len = dot ? (size_t)(dot - path) : 0;

    if (!dot) {
        json_object_del(root, path);
    } else if (len < sizeof(section)) {
        memcpy(section, path, len);
        section[len] = '\0';
        json_object_del(mpl_json_get(root, section), dot + 1);
    }
}

/* What a calibration does not depend on: names, readings, what lies outside of the allocator. */
static const char *const others[] = {
    "observations",
    "id",
    "name",
    "device.total_bytes",
    "device.context_bytes",
    "device.nccl_bytes",
    "device.other_bytes",
    "device.reserve_bytes",
};

static json_t *identity(const struct mpl_spec *spec, const struct mpl_calibration *c)
{
    json_t *copy = json_deep_copy(spec->document);

    for (size_t i = 0; copy && i < sizeof(others) / sizeof(*others); i++)
        delete_path(copy, others[i]);
    for (uint32_t i = 0; copy && i < c->field_count; i++)
        delete_path(copy, c->fields[i].path);
    if (copy)
        strip_remarks(copy);
    return copy;
}

enum memplan_status mpl_calibration_identify(const struct mpl_spec *spec, struct mpl_calibration *c,
                                             struct memplan_error *err)
{
    json_t *json = identity(spec, c);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    json_decref(json);
    if (!text)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while naming a plan");
    free(c->plan);
    c->plan = text;
    return MEMPLAN_OK;
}

/* The first member that two objects do not share, as a dotted path. */
static bool first_difference(const json_t *a, const json_t *b, char *path, size_t size)
{
    const size_t len = strlen(path);
    const char *key;
    json_t *value;

    for (int side = 0; side < 2; side++) {
        const json_t *other = side ? a : b;

        json_object_foreach((json_t *)(side ? b : a), key, value)
        {
            const json_t *match = json_object_get(other, key);

            if (json_equal(value, match))
                continue;
            snprintf(path + len, size - len, "%s%s", len ? "." : "", key);
            if (json_is_object(value) && json_is_object(match))
                first_difference(value, match, path, size);
            return true;
        }
    }
    return false;
}

enum memplan_status mpl_calibration_match(const struct mpl_spec *spec,
                                          const struct mpl_calibration *c,
                                          struct memplan_error *err)
{
    json_t *mine = identity(spec, c), *theirs = json_loads(c->plan, 0, NULL);
    enum memplan_status status = MEMPLAN_OK;
    char path[128] = "", found[64], expected[64];

    if (!mine || !theirs)
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing plans");
    else if (first_difference(mine, theirs, path, sizeof(path)))
        status = mpl_fail(
            err, MEMPLAN_ERR_VALUE, NULL,
            "the calibration is of another plan: %s is %s here, and was %s when it was made", path,
            mpl_json_describe(mpl_json_get(mine, path), found, sizeof(found)),
            mpl_json_describe(mpl_json_get(theirs, path), expected, sizeof(expected)));
    json_decref(mine);
    json_decref(theirs);
    return status;
}

/* ---- where readings were ----------------------------------------------------------------------
 */

static void widen(struct mpl_calibration *c, const char *path, double value)
{
    struct mpl_calibration_field *field = c->fields;

    while (field < c->fields + c->field_count && strcmp(field->path, path) != 0)
        field++;
    if (field == c->fields + MPL_CALIBRATION_MOST_FIELDS || strlen(path) >= sizeof(field->path))
        return;
    if (field == c->fields + c->field_count) {
        c->field_count++;
        memcpy(field->path, path, strlen(path) + 1);
        field->low = field->high = value;
    }
    field->low = fmin(field->low, value);
    field->high = fmax(field->high, value);
}

/* A field that one reading sets has the plan's own value in those that do not. */
static void widen_by_sets(const struct mpl_spec *spec, const bool *is_used,
                          struct mpl_calibration *c)
{
    const json_t *list = json_object_get(spec->document, "observations"), *one, *other;
    size_t i, j;
    const char *path;
    json_t *value;

    json_array_foreach(list, i, one)
    {
        json_object_foreach(json_object_get(one, "set"), path, value)
        {
            if (!is_used[i] || !json_is_number(value))
                continue;
            json_array_foreach(list, j, other)
            {
                const json_t *own = json_object_get(json_object_get(other, "set"), path);

                if (!own)
                    own = mpl_json_get(spec->document, path);
                if (is_used[j] && json_is_number(own))
                    widen(c, path, json_number_value(own));
            }
        }
    }
}

void mpl_calibration_span(const struct mpl_spec *spec, const bool *is_used, double low_tokens,
                          double high_tokens, struct mpl_calibration *c)
{
    c->field_count = 0;
    widen(c, MPL_CALIBRATION_LENGTH, low_tokens);
    widen(c, MPL_CALIBRATION_LENGTH, high_tokens);
    widen_by_sets(spec, is_used, c);
}

bool mpl_calibration_is_outside(const struct mpl_spec *spec, const struct mpl_calibration *c)
{
    for (uint32_t i = 0; i < c->field_count; i++) {
        const struct mpl_calibration_field *field = &c->fields[i];
        const json_t *value = mpl_json_get(spec->document, field->path);

        if (strcmp(field->path, MPL_CALIBRATION_LENGTH) == 0)
            continue;
        if (!json_is_number(value) || json_number_value(value) < field->low ||
            json_number_value(value) > field->high)
            return true;
    }
    return false;
}

/* ---- files ------------------------------------------------------------------------------------
 */

static enum memplan_status fail_form(struct memplan_error *err, const char *pointer,
                                     const char *text)
{
    return mpl_fail(err, MEMPLAN_ERR_VALUE, pointer, "calibration: %s", text);
}

#define MOST_DEVIATIONS 1000.0
#define MOST_PRIOR      100.0
#define MOST_NUMBER     0x1p62 /* more than any card has of bytes */

static bool is_finite(const json_t *json)
{
    return json_is_number(json) && fabs(json_number_value(json)) <= MOST_NUMBER;
}

/* A number of an object; what is absent is 0. */
static bool read_number(const json_t *object, const char *key, double *out)
{
    const json_t *json = json_object_get(object, key);

    *out = json ? json_number_value(json) : 0;
    return !json || is_finite(json);
}

static bool read_term(const json_t *json, struct mpl_calibration_term *term)
{
    double kind, category, order;
    bool is_good = read_number(json, "kind", &kind) && read_number(json, "category", &category) &&
                   read_number(json, "order", &order) && read_number(json, "prior", &term->prior) &&
                   read_number(json, "bytes", &term->bytes) &&
                   read_number(json, "tokens", &term->tokens);

    if (!is_good || kind < 0 || kind >= MPL_TERM_KINDS || category < 0 ||
        category >= MPL_CATEGORY_COUNT || order < 0 || order >= MPL_ORDER_COUNT ||
        term->prior < 0 || term->prior > MOST_PRIOR || term->bytes < 0 || term->tokens < 0 ||
        (kind == MPL_TERM_TOKENS && !(term->tokens >= 1)))
        return false;
    term->kind = (enum mpl_term_kind)kind;
    term->category = (int)category;
    term->order = (int)order;
    return true;
}

static bool read_terms(const json_t *root, struct mpl_calibration *c)
{
    const json_t *list = json_object_get(root, "terms"), *one;
    size_t i;

    if (!json_array_size(list) || json_array_size(list) > MPL_CALIBRATION_MOST_TERMS)
        return false;
    c->term_count = (uint32_t)json_array_size(list);
    json_array_foreach(list, i, one) if (!read_term(one, &c->terms[i])) return false;
    return true;
}

static bool read_row(const json_t *list, uint32_t count, double *out)
{
    if (json_array_size(list) != count)
        return false;
    for (uint32_t k = 0; k < count; k++) {
        const json_t *one = json_array_get(list, k);

        /* In deviations of the prior: what is far beyond was not written by memplan. */
        if (!is_finite(one) || fabs(json_number_value(one)) > MOST_DEVIATIONS)
            return false;
        out[k] = json_number_value(one);
    }
    return true;
}

static bool read_alternative(const json_t *json, uint32_t terms,
                             struct mpl_calibration_alternative *a)
{
    const char *text = json_string_value(json_object_get(json, "text"));
    const json_t *rows = json_object_get(json, "covariance");

    if (!text || !read_number(json, "weight", &a->weight) || !(a->weight >= 0) ||
        !read_row(json_object_get(json, "value"), terms, a->value) ||
        json_array_size(rows) != terms)
        return false;
    for (uint32_t k = 0; k < terms; k++)
        if (!read_row(json_array_get(rows, k), terms, a->covariance[k]))
            return false;
    a->set = malloc(strlen(text) + 1);
    if (a->set)
        strcpy(a->set, text);
    return a->set != NULL;
}

static bool read_alternatives(const json_t *root, struct mpl_calibration *c)
{
    const json_t *list = json_object_get(root, "alternatives"), *one;
    size_t i, count = json_array_size(list);

    if (!count || count > MPL_CALIBRATION_MOST_ALTERNATIVES)
        return false;
    c->alternatives = calloc(count, sizeof(*c->alternatives));
    if (!c->alternatives)
        return false;
    c->alternative_count = (uint32_t)count;
    json_array_foreach(
        list, i, one) if (!read_alternative(one, c->term_count, &c->alternatives[i])) return false;
    return true;
}

static bool read_fields(const json_t *root, struct mpl_calibration *c)
{
    const char *path;
    json_t *span;

    json_object_foreach(json_object_get(root, "valid"), path, span)
    {
        if (!is_finite(json_array_get(span, 0)) || !is_finite(json_array_get(span, 1)))
            return false;
        widen(c, path, json_number_value(json_array_get(span, 0)));
        widen(c, path, json_number_value(json_array_get(span, 1)));
    }
    return true;
}

static enum memplan_status fill(const json_t *root, struct mpl_calibration *c,
                                struct memplan_error *err)
{
    const json_t *plan = json_object_get(root, "plan");

    if (json_integer_value(json_object_get(root, "memplan_calibration")) != FORM)
        return fail_form(
            err, "/memplan_calibration",
            "found no calibration of form 1, expected what memplan calibrate -o wrote");
    if (!json_is_object(plan))
        return fail_form(err, "/plan", "the plan is missing");
    if (!read_terms(root, c) || !read_number(root, "reserved_noise", &c->reserved_noise))
        return fail_form(err, "/terms", "the terms are not as memplan writes them");
    if (!read_alternatives(root, c))
        return fail_form(err, "/alternatives", "the alternatives are not as memplan writes them");
    if (!read_fields(root, c))
        return fail_form(err, "/valid", "a field has no span of two numbers");
    c->plan = json_dumps(plan, JSON_COMPACT | JSON_SORT_KEYS);
    c->json = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    return c->plan && c->json ? MEMPLAN_OK
                              : mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL,
                                         "out of memory while reading a calibration");
}

enum memplan_status mpl_calibration_load(const void *json, size_t len, const char *source,
                                         struct mpl_calibration **out, struct memplan_error *err)
{
    struct mpl_calibration *c = calloc(1, sizeof(*c));
    json_t *root = NULL;
    enum memplan_status status;

    if (!c)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading a calibration");
    status = mpl_json_read(json, len, &root, err);
    if (!status)
        status = fill(root, c, err);
    json_decref(root);
    if (status) {
        if (err)
            snprintf(err->source, sizeof(err->source), "%s", source ? source : "");
        mpl_calibration_free(c);
        return status;
    }
    *out = c;
    return MEMPLAN_OK;
}

void mpl_calibration_free(struct mpl_calibration *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->alternative_count; i++)
        free(c->alternatives[i].set);
    free(c->alternatives);
    free(c->json);
    free(c->plan);
    free(c);
}
