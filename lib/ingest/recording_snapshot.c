/* SPDX-License-Identifier: MIT */
/*
 * A memory snapshot of PyTorch (torch.cuda.memory._snapshot(), as JSON): the history of one card,
 * and its segments at the end. What was held before the history began is put in front of it, in
 * order of address.
 *
 * source  torch/csrc/cuda/memory_snapshot.cpp; releases 2.1 to 2.14
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "ingest/recording.h"

/* Something that was held before the history began. */
struct initial {
    int64_t address;
    uint64_t bytes;
    int64_t stream, pool;
};

struct history {
    struct mpl_recording_reader *reader;
    const json_t *entries, *segments;
    size_t device;
    struct mpl_slots known; /* addresses that were explained */
    MPL_VEC(struct initial) initial;
    uint32_t pool; /* that requests go to: a private one, or 0 */
    int64_t reserved;
};

static enum memplan_status no_memory(struct history *h)
{
    return mpl_fail(h->reader->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading events");
}

/* ---- members of an entry ----------------------------------------------------------------------
 */

static const char *action_of(const json_t *entry)
{
    const char *action = json_string_value(json_object_get(entry, "action"));

    return action ? action : "";
}

static bool is_action(const json_t *entry, const char *action)
{
    return !strcmp(action_of(entry), action);
}

static int64_t whole(const json_t *entry, const char *key)
{
    return json_integer_value(json_object_get(entry, key));
}

/* A size for a sum, from 0 up; sums stop at the largest number that there is. */
static int64_t size_of(const json_t *entry, const char *key)
{
    const int64_t size = whole(entry, key);

    return size > 0 ? size : 0;
}

static int64_t plus(int64_t sum, int64_t more)
{
    int64_t result;

    if (__builtin_add_overflow(sum, more, &result))
        return more > 0 ? INT64_MAX : INT64_MIN;
    return result;
}

/* A private pool has an id that is not (0, 0); 0: the main one. Older releases write none. */
static int64_t pool_of(const json_t *entry, const char *key)
{
    const json_t *id = json_object_get(entry, key);
    const int64_t high = json_integer_value(json_array_get(id, 0));
    const int64_t low = json_integer_value(json_array_get(id, 1));

    return (int64_t)((uint64_t)high << 32 ^ (uint64_t)low);
}

static enum memplan_status bytes_of(struct history *h, const json_t *entry, uint64_t *bytes)
{
    return mpl_recording_whole(h->reader, json_object_get(entry, "size"), INT64_MAX, bytes);
}

/* ---- what was there before --------------------------------------------------------------------
 */

static enum memplan_status add_initial(struct history *h, const struct initial *initial)
{
    if (mpl_slots_find(&h->known, initial->address) != MPL_NO_NUMBER)
        return MEMPLAN_OK;
    if (mpl_slots_add(&h->known, initial->address) == MPL_NO_NUMBER || mpl_vec_reserve(&h->initial))
        return no_memory(h);
    h->initial.data[h->initial.len++] = *initial;
    return MEMPLAN_OK;
}

static enum memplan_status find_in_history(struct history *h)
{
    enum memplan_status status = MEMPLAN_OK;
    const json_t *entry;
    size_t i;

    json_array_foreach(h->entries, i, entry)
    {
        struct initial initial = {whole(entry, "addr"), 0, whole(entry, "stream"),
                                  pool_of(entry, "pool_id")};

        snprintf(h->reader->path, sizeof(h->reader->path), "/device_traces/%zu/%zu/size", h->device,
                 i);
        if (is_action(entry, "alloc")) {
            if (mpl_slots_add(&h->known, initial.address) == MPL_NO_NUMBER)
                return no_memory(h);
        } else if (is_action(entry, "free_requested") || is_action(entry, "free_completed")) {
            if ((status = bytes_of(h, entry, &initial.bytes)) ||
                (status = add_initial(h, &initial)))
                return status;
        }
    }
    return MEMPLAN_OK;
}

static enum memplan_status find_in_segment(struct history *h, const json_t *segment)
{
    const json_t *blocks = json_object_get(segment, "blocks"), *block;
    uint64_t address = (uint64_t)whole(segment, "address");
    enum memplan_status status;
    size_t i;

    json_array_foreach(blocks, i, block)
    {
        const char *state = json_string_value(json_object_get(block, "state"));
        const json_t *wanted = json_object_get(block, "requested_size");
        struct initial initial = {(int64_t)address, 0, whole(segment, "stream"),
                                  pool_of(segment, "segment_pool_id")};

        if ((status = bytes_of(h, block, &initial.bytes)))
            return status;
        address += initial.bytes;
        if (json_integer_value(wanted) > 0)
            initial.bytes = (uint64_t)json_integer_value(wanted);
        if (state && !strncmp(state, "active", strlen("active")) &&
            (status = add_initial(h, &initial)))
            return status;
    }
    return MEMPLAN_OK;
}

static enum memplan_status find_in_segments(struct history *h)
{
    enum memplan_status status;
    const json_t *segment;
    size_t i;

    json_array_foreach(h->segments, i, segment)
    {
        if (whole(segment, "device") != (int64_t)h->device)
            continue;
        snprintf(h->reader->path, sizeof(h->reader->path), "/segments/%zu/blocks", i);
        h->reserved = plus(h->reserved, size_of(segment, "total_size"));
        if ((status = find_in_segment(h, segment)))
            return status;
    }
    return MEMPLAN_OK;
}

static int by_address(const void *left, const void *right)
{
    const struct initial *a = left, *b = right;

    return (a->address > b->address) - (a->address < b->address);
}

/* ---- events -----------------------------------------------------------------------------------
 */

/* Requests between two changes of pool: an event for each change. */
static enum memplan_status enter_pool(struct history *h, int64_t pool)
{
    uint32_t number = 0;

    if (pool && (number = mpl_slots_add(&h->reader->pools, pool)) != MPL_NO_NUMBER)
        number++;
    if (number > MPL_ALLOCATOR_MOST_PRIVATE)
        return mpl_fail(h->reader->err, MEMPLAN_ERR_LIMIT, h->reader->path,
                        "found more than %d private pools", MPL_ALLOCATOR_MOST_PRIVATE);
    if (number == h->pool)
        return MEMPLAN_OK;
    h->pool = number;
    return mpl_recording_put(h->reader,
                             (struct mpl_recorded_event){.slot = MPL_NO_SLOT,
                                                         .kind = number ? MPL_RECORDED_ENTER_POOL
                                                                        : MPL_RECORDED_LEAVE_POOL,
                                                         .pool = (uint8_t)number});
}

static enum memplan_status put_request(struct history *h, const struct initial *what)
{
    struct mpl_recorded_event event = {.bytes = what->bytes, .kind = MPL_RECORDED_REQUEST};
    enum memplan_status status;

    event.slot = mpl_slots_add(&h->reader->slots, what->address);
    if (event.slot == MPL_NO_NUMBER)
        return no_memory(h);
    if ((status = mpl_recording_stream(h->reader, what->stream, &event.stream)) ||
        (status = enter_pool(h, what->pool)))
        return status;
    return mpl_recording_put(h->reader, event);
}

static enum memplan_status put_release(struct history *h, const json_t *entry,
                                       enum mpl_recorded_kind kind)
{
    return mpl_recording_put(
        h->reader,
        (struct mpl_recorded_event){.slot = mpl_slots_find(&h->reader->slots, whole(entry, "addr")),
                                    .kind = (uint8_t)kind});
}

/* A request that failed: asked for again, and given back should it succeed now. */
static enum memplan_status put_failure(struct history *h, const json_t *entry, size_t i)
{
    /* Addresses are not negative: a name of its own. */
    struct initial what = {-1 - (int64_t)i, 0, whole(entry, "stream"), pool_of(entry, "pool_id")};
    enum memplan_status status = bytes_of(h, entry, &what.bytes);

    h->reader->recording->failures++;
    if (status || (status = put_request(h, &what)))
        return status;
    return mpl_recording_put(h->reader, (struct mpl_recorded_event){
                                            .slot = mpl_slots_find(&h->reader->slots, what.address),
                                            .kind = MPL_RECORDED_RELEASE});
}

static bool gives_back(const json_t *entry)
{
    return is_action(entry, "segment_free") || is_action(entry, "segment_unmap");
}

static bool takes(const json_t *entry)
{
    return is_action(entry, "segment_alloc") || is_action(entry, "segment_map");
}

/* Segments that go back to the card at the end of a row of them: empty_cache(), unless the
 * allocator did it to make room, and the next thing is a new segment or a failure. */
static enum memplan_status put_flush(struct history *h, size_t i)
{
    const json_t *next = json_array_get(h->entries, i + 1);

    if (gives_back(next) || takes(next) || is_action(next, "oom"))
        return MEMPLAN_OK;
    return mpl_recording_put(h->reader, (struct mpl_recorded_event){
                                            .slot = MPL_NO_SLOT, .kind = MPL_RECORDED_EMPTY_CACHE});
}

static enum memplan_status put_entry(struct history *h, const json_t *entry, size_t i)
{
    struct initial what = {whole(entry, "addr"), 0, whole(entry, "stream"),
                           pool_of(entry, "pool_id")};
    enum memplan_status status;

    snprintf(h->reader->path, sizeof(h->reader->path), "/device_traces/%zu/%zu", h->device, i);
    if (is_action(entry, "alloc")) {
        status = bytes_of(h, entry, &what.bytes);
        return status ? status : put_request(h, &what);
    }
    if (is_action(entry, "free_requested"))
        return put_release(h, entry, MPL_RECORDED_RELEASE_BEGIN);
    if (is_action(entry, "free_completed"))
        return put_release(h, entry, MPL_RECORDED_RELEASE_END);
    if (is_action(entry, "oom"))
        return put_failure(h, entry, i);
    return gives_back(entry) ? put_flush(h, i) : MEMPLAN_OK;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* From what is reserved at the end back to the beginning, then forward again for the peak. What was
 * free when a request failed, and what was reserved then, is all that the card could give. */
static void find_reserved_peak(struct history *h)
{
    int64_t reserved = h->reserved, peak;
    const json_t *entry;
    size_t i;

    json_array_foreach(h->entries, i, entry)
    {
        reserved = plus(reserved, gives_back(entry) ? size_of(entry, "size") : 0);
        reserved = plus(reserved, takes(entry) ? -size_of(entry, "size") : 0);
    }
    peak = reserved;
    json_array_foreach(h->entries, i, entry)
    {
        reserved = plus(reserved, takes(entry) ? size_of(entry, "size") : 0);
        reserved = plus(reserved, gives_back(entry) ? -size_of(entry, "size") : 0);
        peak = reserved > peak ? reserved : peak;
        if (is_action(entry, "oom") && size_of(entry, "device_free") && reserved >= 0)
            h->reader->recording->total_bytes =
                (uint64_t)plus(size_of(entry, "device_free"), reserved);
    }
    h->reader->recording->has_history = true;
    h->reader->recording->reserved_peak = peak > 0 ? (uint64_t)peak : 0;
}

static enum memplan_status read_history(struct history *h)
{
    enum memplan_status status;
    const json_t *entry;
    size_t i;

    if ((status = find_in_history(h)) || (status = find_in_segments(h)))
        return status;
    if (h->initial.len)
        qsort(h->initial.data, h->initial.len, sizeof(h->initial.data[0]), by_address);
    for (i = 0; i < h->initial.len; i++)
        if ((status = put_request(h, &h->initial.data[i])))
            return status;
    h->reader->recording->initial_blocks = (uint32_t)h->initial.len;
    find_reserved_peak(h);
    json_array_foreach(h->entries, i, entry)
    {
        if ((status = put_entry(h, entry, i)))
            return status;
    }
    find_reserved_peak(h);
    return MEMPLAN_OK;
}

static enum memplan_status read_conf(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *conf =
        json_object_get(json_object_get(root, "allocator_settings"), "PYTORCH_CUDA_ALLOC_CONF");

    if (!json_string_length(conf))
        return MEMPLAN_OK;
    return mpl_recording_take_conf(r, json_string_value(conf));
}

enum memplan_status mpl_recording_from_snapshot(struct mpl_recording_reader *r, const json_t *root)
{
    const json_t *traces = json_object_get(root, "device_traces"), *trace;
    struct history h = {.reader = r, .segments = json_object_get(root, "segments")};
    enum memplan_status status;

    snprintf(r->path, sizeof(r->path), "/device_traces");
    if (!json_is_array(traces))
        return mpl_recording_expect(r, traces, "a list with the history of each card");
    json_array_foreach(traces, h.device, trace)
    {
        if (json_array_size(trace))
            break;
    }
    if (h.device == json_array_size(traces))
        return mpl_fail(r->err, MEMPLAN_ERR_VALUE, r->path,
                        "found no history of any card, expected a snapshot that was taken after "
                        "torch.cuda.memory._record_memory_history()");
    h.entries = json_array_get(traces, h.device);
    if ((status = read_conf(r, root)))
        return status;
    r->recording->stream_count = 1;
    status = read_history(&h);
    mpl_slots_free(&h.known);
    mpl_vec_free(&h.initial);
    return status;
}
