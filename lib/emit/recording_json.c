/* SPDX-License-Identifier: MIT */
/* The answer to a recording as JSON, in the words of torch.cuda.memory_stats. */
#include "emit/recording_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* A map of more blocks than this is left out. */
#define MOST_BLOCKS 400

static json_t *bytes(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static int put_counters(json_t *object, const struct mpl_counters *c)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"allocated", c->allocated},
        {"reserved", c->reserved},
        {"active", c->active},
        {"requested", c->requested},
        {"inactive_split", c->inactive_split},
        {"peak_allocated", c->peak_allocated},
        {"peak_reserved", c->peak_reserved},
        {"peak_active", c->peak_active},
        {"blocks", c->blocks},
        {"segments", c->segments},
        {"retries", c->retries},
        {"ooms", c->ooms},
        {"device_alloc", c->device_allocs},
        {"device_free", c->device_frees},
        {"syncs", c->syncs},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        failed |= json_object_set_new(object, rows[i].name, bytes(rows[i].value));
    if (c->rejections)
        failed |= json_object_set_new(object, "rejections", bytes(c->rejections));
    return failed;
}

static json_t *marks_of(const struct mpl_recording_result *result, int *failed)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->marks.len; i++) {
        json_t *mark = json_object();

        *failed |= json_object_set_new(mark, "event", bytes(result->marks.data[i].event));
        *failed |= put_counters(mark, &result->marks.data[i].counters);
        *failed |= json_array_append_new(list, mark);
    }
    return list;
}

static json_t *failures_of(const struct mpl_recording_result *result, int *failed)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->failures.len; i++)
        *failed |= json_array_append_new(
            list, json_pack("{s:I, s:s}", "event", (json_int_t)result->failures.data[i].event,
                            "message", result->failures.data[i].message));
    return list;
}

static json_t *changes_of(const struct mpl_recording_result *result, int *failed)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->changes.len; i++)
        *failed |= json_array_append_new(list, json_pack("[I, o]",
                                                         (json_int_t)result->changes.data[i].event,
                                                         bytes(result->changes.data[i].reserved)));
    return list;
}

static json_t *blocks_of(const struct mpl_recording_result *result,
                         const struct mpl_recording_segment *segment, int *failed)
{
    static const char *const states[] = {"i", "a", "p"};
    json_t *list = json_array();

    for (uint32_t i = 0; i < segment->count; i++) {
        const struct mpl_recording_block *block = &result->blocks.data[segment->first + i];

        *failed |= json_array_append_new(
            list, json_pack("[o, s]", bytes(block->bytes), states[block->state]));
    }
    return list;
}

/* [bytes, stream, "small" or "large", expandable, [[block bytes, state], ...]] */
static json_t *layout_of(const struct mpl_recording_result *result, const int64_t *streams,
                         int *failed)
{
    json_t *list = json_array();

    for (size_t i = 0; i < result->segments.len; i++) {
        const struct mpl_recording_segment *segment = &result->segments.data[i];

        *failed |= json_array_append_new(list, json_pack("[o, I, s, b, o]", bytes(segment->bytes),
                                                         (json_int_t)streams[segment->stream],
                                                         segment->is_small ? "small" : "large",
                                                         segment->is_expandable,
                                                         blocks_of(result, segment, failed)));
    }
    return list;
}

enum memplan_status mpl_recording_to_json(const struct mpl_recording_result *result,
                                          const int64_t *streams, char **json_out,
                                          struct memplan_error *err)
{
    json_t *root = json_object(), *end = json_object();
    int failed = put_counters(end, &result->end);
    char *text = NULL;

    failed |= json_object_set_new(root, "end", end);
    failed |= json_object_set_new(root, "marks", marks_of(result, &failed));
    failed |= json_object_set_new(root, "ooms", failures_of(result, &failed));
    failed |= json_object_set_new(root, "reserved_steps", changes_of(result, &failed));
    if (result->has_card)
        failed |= json_object_set_new(root, "free_on_card", bytes(result->free_on_card));
    if (result->blocks.len <= MOST_BLOCKS)
        failed |= json_object_set_new(root, "layout", layout_of(result, streams, &failed));
    if (!failed)
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while writing the result");
    *json_out = text;
    return MEMPLAN_OK;
}
