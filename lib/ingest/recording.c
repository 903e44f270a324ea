/* SPDX-License-Identifier: MIT */
/* Recorded allocator events from JSON: which form it is, and what both readers need. */
#include "ingest/recording.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/strbuf.h"
#include "ingest/json.h"

enum memplan_status mpl_recording_expect(struct mpl_recording_reader *r, const json_t *found,
                                         const char *expected)
{
    char text[96];

    if (!found)
        return mpl_fail(r->err, MEMPLAN_ERR_VALUE, r->path, "found nothing, expected %s", expected);
    return mpl_fail(r->err, MEMPLAN_ERR_VALUE, r->path, "found %s, expected %s",
                    mpl_json_describe(found, text, sizeof(text)), expected);
}

enum memplan_status mpl_recording_whole(struct mpl_recording_reader *r, const json_t *json,
                                        uint64_t most, uint64_t *value)
{
    char expected[64];

    if (json_is_integer(json) && json_integer_value(json) >= 0 &&
        (uint64_t)json_integer_value(json) <= most) {
        *value = (uint64_t)json_integer_value(json);
        return MEMPLAN_OK;
    }
    snprintf(expected, sizeof(expected), "a whole number from 0 to %llu", (unsigned long long)most);
    return mpl_recording_expect(r, json, expected);
}

enum memplan_status mpl_recording_take_conf(struct mpl_recording_reader *r, const char *conf)
{
    struct mpl_strbuf copy = {0};

    mpl_strbuf_put(&copy, conf);
    r->recording->conf = mpl_strbuf_steal(&copy);
    return r->recording->conf ? MEMPLAN_OK
                              : mpl_fail(r->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

enum memplan_status mpl_recording_put(struct mpl_recording_reader *r,
                                      struct mpl_recorded_event event)
{
    struct mpl_recording *recording = r->recording;

    if (recording->events.len >= UINT32_MAX - 1)
        return mpl_fail(r->err, MEMPLAN_ERR_LIMIT, r->path, "found more than 4294967294 events");
    if (mpl_vec_reserve(&recording->events))
        return mpl_fail(r->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading events");
    recording->events.data[recording->events.len++] = event;
    return MEMPLAN_OK;
}

enum memplan_status mpl_recording_stream(struct mpl_recording_reader *r, int64_t name,
                                         uint8_t *stream)
{
    struct mpl_recording *recording = r->recording;
    uint32_t i = 0;

    while (i < recording->stream_count && recording->streams[i] != name)
        i++;
    if (i == MPL_ALLOCATOR_STREAMS)
        return mpl_fail(r->err, MEMPLAN_ERR_LIMIT, r->path,
                        "found a stream beyond the first %d, expected no more",
                        MPL_ALLOCATOR_STREAMS);
    if (i == recording->stream_count)
        recording->streams[recording->stream_count++] = name;
    *stream = (uint8_t)i;
    return MEMPLAN_OK;
}

static enum memplan_status read_root(struct mpl_recording_reader *r, const json_t *root)
{
    if (!json_is_object(root))
        return mpl_recording_expect(r, root, "an object");
    if (json_object_get(root, "device_traces"))
        return mpl_recording_from_snapshot(r, root);
    if (json_object_get(root, "events"))
        return mpl_recording_from_case(r, root);
    return mpl_fail(r->err, MEMPLAN_ERR_VALUE, NULL,
                    "found neither \"events\" nor \"device_traces\", expected a case or a memory "
                    "snapshot of PyTorch");
}

enum memplan_status mpl_recording_load(const void *json, size_t len, const char *source,
                                       struct mpl_recording *recording, struct memplan_error *err)
{
    struct mpl_recording_reader reader = {.recording = recording, .err = err};
    json_t *root = NULL;
    enum memplan_status status =
        mpl_json_read_up_to(json, len, MPL_RECORDING_MOST_BYTES, &root, err);

    if (!status)
        status = read_root(&reader, root);
    recording->slot_count = reader.slots.count;
    if (status && err)
        snprintf(err->source, sizeof(err->source), "%.*s",
                 (int)mpl_json_cut(source, sizeof(err->source) - 1), source);
    json_decref(root);
    mpl_slots_free(&reader.slots);
    mpl_slots_free(&reader.pools);
    return status;
}
