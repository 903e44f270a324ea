/* SPDX-License-Identifier: MIT */
/* Writing the report as JSON: setters, and the parts that stand around the step's figures. For
 * emit/report*.c only. */
#ifndef MPL_EMIT_REPORT_OUT_H
#define MPL_EMIT_REPORT_OUT_H

#include <jansson.h>

#include "base/utf8.h"
#include "pipeline.h"

/* jansson's setters accept a NULL value by failing; the document is checked once, at the end. */
struct out {
    bool has_failed;
};

static inline void put(struct out *out, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        out->has_failed = true;
}

static inline void push(struct out *out, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value))
        out->has_failed = true;
}

/* A byte count; a budget that no card has is left out by the callers. */
static inline json_t *bytes(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Text of a field that may have been too small for it. */
static inline json_t *text(const char *value)
{
    return json_stringn(value, mpl_utf8_whole(value));
}

/** What NCCL takes, one object for each kind of communicator. */
json_t *mpl_out_communicators(struct out *out, const struct mpl_communicators *list);

/** What the card can give. */
json_t *mpl_out_capacity(struct out *out, const struct mpl_capacity *capacity,
                         const struct mpl_plan *plan);

/** The highest allocated figure of each kind of moment. */
json_t *mpl_out_moments(struct out *out, const struct mpl_estimate *e);

/** Memory of one node's host. */
json_t *mpl_out_host(struct out *out, const struct memplan_report *report);

#endif
