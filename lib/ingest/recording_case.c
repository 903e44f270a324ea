/* SPDX-License-Identifier: MIT */
/* A case: a card, settings and events, as docs/replay.md describes them. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "ingest/recording.h"
#include "replay/conf_tokens.h"

#define MIB      (UINT64_C(1) << 20)
#define MOST_MIB (UINT64_C(1) << 30)

/* TABLE: letters of events, and what stands behind each: i an id, n bytes, s a stream, p a pool. */
static const struct event_form {
    const char *letter;
    enum mpl_recorded_kind kind;
    const char *arguments;
    const char *shape; /* for messages */
} form_table[] = {
    {"a", MPL_RECORDED_REQUEST, "ins", "[\"a\", id, bytes, stream]"},
    {"f", MPL_RECORDED_RELEASE, "i", "[\"f\", id]"},
    {"r", MPL_RECORDED_RECORD_STREAM, "is", "[\"r\", id, stream]"},
    {"e", MPL_RECORDED_EMPTY_CACHE, "", "[\"e\"]"},
    {"s", MPL_RECORDED_WAIT, "", "[\"s\"]"},
    {"y", MPL_RECORDED_WAIT_STREAM, "s", "[\"y\", stream]"},
    {"z", MPL_RECORDED_RESET_PEAKS, "", "[\"z\"]"},
    {"p", MPL_RECORDED_ENTER_POOL, "p", "[\"p\", pool]"},
    {"q", MPL_RECORDED_LEAVE_POOL, "", "[\"q\"]"},
    {"m", MPL_RECORDED_MARK, "", "[\"m\"]"},
};

static const struct event_form *find_form(const json_t *event)
{
    const char *letter = json_string_value(json_array_get(event, 0));

    for (size_t i = 0; letter && i < sizeof(form_table) / sizeof(form_table[0]); i++)
        if (!strcmp(form_table[i].letter, letter))
            return &form_table[i];
    return NULL;
}

/* A request names a slot; others name one that was, or none. */
static enum memplan_status read_id(struct mpl_recording_reader *r, const json_t *json,
                                   struct mpl_recorded_event *e)
{
    if (!json_is_integer(json))
        return mpl_recording_expect(r, json, "a whole number");
    if (e->kind != MPL_RECORDED_REQUEST) {
        e->slot = mpl_slots_find(&r->slots, json_integer_value(json));
        return MEMPLAN_OK;
    }
    e->slot = mpl_slots_add(&r->slots, json_integer_value(json));
    return e->slot == MPL_NO_NUMBER
               ? mpl_fail(r->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading events")
               : MEMPLAN_OK;
}

static enum memplan_status read_pool(struct mpl_recording_reader *r, const json_t *json,
                                     struct mpl_recorded_event *e)
{
    uint32_t number;

    if (!json_is_integer(json))
        return mpl_recording_expect(r, json, "a whole number");
    number = mpl_slots_add(&r->pools, json_integer_value(json));
    if (number >= MPL_ALLOCATOR_MOST_PRIVATE)
        return mpl_fail(r->err, MEMPLAN_ERR_LIMIT, r->path, "found more than %d private pools",
                        MPL_ALLOCATOR_MOST_PRIVATE);
    e->pool = (uint8_t)(number + 1);
    return MEMPLAN_OK;
}

static enum memplan_status read_argument(struct mpl_recording_reader *r, char kind,
                                         const json_t *json, struct mpl_recorded_event *e)
{
    uint64_t stream;
    enum memplan_status status;

    switch (kind) {
    case 'i':
        return read_id(r, json, e);
    case 'p':
        return read_pool(r, json, e);
    case 'n':
        return mpl_recording_whole(r, json, INT64_MAX, &e->bytes);
    default:
        status = mpl_recording_whole(r, json, INT32_MAX, &stream);
        return status ? status : mpl_recording_stream(r, (int64_t)stream, &e->stream);
    }
}

static enum memplan_status read_event(struct mpl_recording_reader *r, const json_t *event,
                                      size_t index)
{
    const struct event_form *form;
    struct mpl_recorded_event e = {.slot = MPL_NO_SLOT};
    enum memplan_status status;

    snprintf(r->path, sizeof(r->path), "/events/%zu", index);
    if (!json_is_array(event) || !(form = find_form(event)))
        return mpl_recording_expect(r, event, "a list that begins with one of a f r e s y z p q m");
    if (json_array_size(event) != 1 + strlen(form->arguments))
        return mpl_fail(r->err, MEMPLAN_ERR_VALUE, r->path, "found %zu items, expected %s",
                        json_array_size(event), form->shape);
    e.kind = (uint8_t)form->kind;
    for (size_t i = 0; form->arguments[i]; i++) {
        snprintf(r->path, sizeof(r->path), "/events/%zu/%zu", index, i + 1);
        if ((status = read_argument(r, form->arguments[i], json_array_get(event, i + 1), &e)))
            return status;
    }
    return mpl_recording_put(r, e);
}

static enum memplan_status read_mib(struct mpl_recording_reader *r, const json_t *root,
                                    const char *key, uint64_t *bytes)
{
    const json_t *json = json_object_get(root, key);
    uint64_t mib = 0;
    enum memplan_status status;

    snprintf(r->path, sizeof(r->path), "/%s", key);
    if (json && (status = mpl_recording_whole(r, json, MOST_MIB, &mib)))
        return status;
    *bytes = mib * MIB;
    return MEMPLAN_OK;
}

static enum memplan_status read_conf(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *json = json_object_get(root, "conf");

    snprintf(r->path, sizeof(r->path), "/conf");
    if (!json || json_is_null(json))
        return MEMPLAN_OK;
    if (!json_is_string(json) || json_string_length(json) > MPL_CONF_MOST_BYTES)
        return mpl_recording_expect(r, json, "allocator settings as text");
    return mpl_recording_take_conf(r, json_string_value(json));
}

static enum memplan_status read_fraction(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *json = json_object_get(root, "fraction");
    const double value = json_number_value(json);

    snprintf(r->path, sizeof(r->path), "/fraction");
    if (!json || json_is_null(json))
        return MEMPLAN_OK;
    if (!json_is_number(json) || !(value >= 0 && value <= 1))
        return mpl_recording_expect(r, json, "a number from 0 to 1");
    r->recording->fraction = value;
    return MEMPLAN_OK;
}

static enum memplan_status read_gpu(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *json = json_object_get(root, "gpu");
    const char *word = json ? json_string_value(json) : "done";

    snprintf(r->path, sizeof(r->path), "/gpu");
    if (!word || (strcmp(word, "done") && strcmp(word, "lazy")))
        return mpl_recording_expect(r, json, "\"done\" or \"lazy\"");
    r->recording->is_lazy = !strcmp(word, "lazy");
    return MEMPLAN_OK;
}

enum memplan_status mpl_recording_from_case(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *events = json_object_get(root, "events"), *event;
    struct mpl_recording *recording = r->recording;
    enum memplan_status status;
    size_t i;

    /* Stream 0 is the default one, whether or not anything is asked for on it. */
    recording->stream_count = 1;
    if ((status = read_mib(r, root, "total_mib", &recording->total_bytes)) ||
        (status = read_mib(r, root, "context_mib", &recording->context_bytes)) ||
        (status = read_conf(r, root)) || (status = read_fraction(r, root)) ||
        (status = read_gpu(r, root)))
        return status;
    snprintf(r->path, sizeof(r->path), "/events");
    if (!json_is_array(events))
        return mpl_recording_expect(r, events, "a list of events");
    json_array_foreach(events, i, event)
    {
        if ((status = read_event(r, event, i)))
            return status;
    }
    return MEMPLAN_OK;
}
