/* SPDX-License-Identifier: MIT */
/* The public entry points around recorded traces. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "api_struct.h"
#include "base/fail.h"
#include "emit/recording_json.h"
#include "ingest/recording.h"

struct memplan_trace {
    struct mpl_recording recording;
};

struct memplan_replay {
    int64_t streams[MPL_ALLOCATOR_STREAMS];
    struct mpl_recording_result result;
};

enum memplan_status memplan_trace_load(const void *json, size_t len, const char *source,
                                       struct memplan_trace **trace_out, struct memplan_error *err)
{
    struct memplan_trace *trace;
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!json || !trace_out)
        return mpl_api_missing(err, json ? "trace_out" : "json");
    if (!(trace = calloc(1, sizeof(*trace))))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading a trace");
    status = mpl_recording_load(json, len, source ? source : "", &trace->recording, err);
    if (status)
        memplan_trace_free(trace);
    else
        *trace_out = trace;
    return status;
}

void memplan_trace_free(struct memplan_trace *trace)
{
    if (!trace)
        return;
    mpl_recording_free(&trace->recording);
    free(trace);
}

enum memplan_status memplan_trace_describe(const struct memplan_trace *trace,
                                           struct memplan_trace_info *info,
                                           struct memplan_error *err)
{
    struct memplan_trace_info own = {0};

    mpl_fail_clear(err);
    if (!trace || !info)
        return mpl_api_missing(err, trace ? "info" : "trace");
    own.events = trace->recording.events.len;
    own.total_bytes = trace->recording.total_bytes;
    own.has_history = trace->recording.has_history;
    own.reserved_peak = trace->recording.reserved_peak;
    own.ooms = trace->recording.failures;
    own.initial_blocks = trace->recording.initial_blocks;
    own.conf = trace->recording.conf ? trace->recording.conf : "";
    return mpl_api_give(info, &own, sizeof(own), err);
}

static enum memplan_status read_release(const char *text, struct mpl_alloc_release *release,
                                        struct memplan_error *err)
{
    char *end = NULL;
    unsigned long major, minor = 0;

    *release = (struct mpl_alloc_release){0};
    if (!text)
        return MEMPLAN_OK;
    major = strtoul(text, &end, 10);
    if (end != text && *end == '.')
        minor = strtoul(end + 1, &end, 10);
    if (end == text || major > UINT16_MAX || minor > UINT16_MAX || text[0] < '0' || text[0] > '9')
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "found \"%.40s\", expected a release of PyTorch, as 2.8.0", text);
    *release = (struct mpl_alloc_release){(uint16_t)major, (uint16_t)minor};
    return MEMPLAN_OK;
}

static enum memplan_status take_options(const struct memplan_replay_options *given,
                                        struct memplan_replay_options *own,
                                        struct memplan_error *err)
{
    enum memplan_status status = mpl_api_take(own, sizeof(*own), given, err);

    if (status)
        return status;
    if (!(own->fraction >= 0 && own->fraction <= 1))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "fraction must be from 0 to 1");
    return MEMPLAN_OK;
}

enum memplan_status memplan_trace_replay(const struct memplan_trace *trace,
                                         const struct memplan_replay_options *options,
                                         struct memplan_replay **replay_out,
                                         struct memplan_error *err)
{
    struct memplan_replay_options own = {0};
    struct mpl_recording_settings settings = {0};
    struct memplan_replay *replay;
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!trace || !replay_out)
        return mpl_api_missing(err, trace ? "replay_out" : "trace");
    if ((options && (status = take_options(options, &own, err))) ||
        (status = read_release(own.pytorch, &settings.release, err)))
        return status;
    settings.conf = own.conf;
    settings.fraction = own.fraction;
    settings.total_bytes = own.total_bytes;
    settings.context_bytes = own.context_bytes;
    settings.has_context = own.context_bytes > 0;
    settings.until = own.until;
    if (!(replay = calloc(1, sizeof(*replay))))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory before the first event");
    memcpy(replay->streams, trace->recording.streams, sizeof(replay->streams));
    status = mpl_recording_run(&trace->recording, &settings, &replay->result, err);
    if (status)
        memplan_replay_free(replay);
    else
        *replay_out = replay;
    return status;
}

enum memplan_status memplan_replay_counters(const struct memplan_replay *replay,
                                            struct memplan_counters *counters,
                                            struct memplan_error *err)
{
    struct memplan_counters own = {0};
    const struct mpl_counters *end;

    mpl_fail_clear(err);
    if (!replay || !counters)
        return mpl_api_missing(err, replay ? "counters" : "replay");
    end = &replay->result.end;
    own.allocated = end->allocated;
    own.reserved = end->reserved;
    own.active = end->active;
    own.requested = end->requested;
    own.inactive_split = end->inactive_split;
    own.peak_allocated = end->peak_allocated;
    own.peak_reserved = end->peak_reserved;
    own.peak_active = end->peak_active;
    own.blocks = end->blocks;
    own.segments = end->segments;
    own.retries = end->retries;
    own.ooms = end->ooms;
    own.rejections = end->rejections;
    own.first_oom = replay->result.failures.len ? replay->result.failures.data[0].event : 0;
    own.peak_event = replay->result.peak_event;
    return mpl_api_give(counters, &own, sizeof(own), err);
}

enum memplan_status memplan_replay_to_json(const struct memplan_replay *replay, char **json_out,
                                           struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!replay || !json_out)
        return mpl_api_missing(err, replay ? "json_out" : "replay");
    return mpl_recording_to_json(&replay->result, replay->streams, json_out, err);
}

enum memplan_status memplan_replay_to_svg(const struct memplan_replay *replay, char **svg_out,
                                          struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!replay || !svg_out)
        return mpl_api_missing(err, replay ? "svg_out" : "replay");
    return mpl_recording_to_svg(&replay->result, replay->streams, svg_out, err);
}

void memplan_replay_free(struct memplan_replay *replay)
{
    if (!replay)
        return;
    mpl_recording_result_free(&replay->result);
    free(replay);
}
