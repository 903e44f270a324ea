/* SPDX-License-Identifier: MIT */
/* The public entry points to logs: check arguments, call lib/log, hand out events. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "log/find.h"
#include "log/log.h"

enum memplan_status memplan_log_new(struct memplan_log **log_out, struct memplan_error *err)
{
    struct memplan_log *log;
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!log_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "log_out must not be NULL");
    log = calloc(1, sizeof(*log));
    if (!log)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while opening a log");
    status = mpl_log_init(log, err);
    if (status)
        memplan_log_free(log);
    else
        *log_out = log;
    return status;
}

enum memplan_status memplan_log_feed(struct memplan_log *log, const void *bytes, size_t len,
                                     struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!log || (!bytes && len))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL", log ? "bytes" : "log");
    if (log->has_ended)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "the log has ended");
    return mpl_log_feed(log, bytes, len, err);
}

enum memplan_status memplan_log_end(struct memplan_log *log, struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!log)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "log must not be NULL");
    return mpl_log_end(log, err);
}

int memplan_log_next(struct memplan_log *log, struct memplan_log_event *event_out)
{
    const struct memplan_log_event *event;
    size_t size;

    if (!log || !event_out || !(event = mpl_log_next(log)))
        return 0;
    size = event_out->size;
    if (size > sizeof(*event)) {
        memset((char *)event_out + sizeof(*event), 0, size - sizeof(*event));
        size = sizeof(*event);
    }
    memcpy(event_out, event, size);
    if (size >= sizeof(event_out->size))
        event_out->size = size;
    return 1;
}

void memplan_log_free(struct memplan_log *log)
{
    if (!log)
        return;
    mpl_log_clear(log);
    free(log);
}

/* An event of an older header is shorter: what it lacks is not known. */
int memplan_log_find(const struct memplan_log_event *event, size_t i,
                     struct memplan_log_finding *finding_out)
{
    struct memplan_log_event own = {.rank = -1, .local_rank = -1, .gpu = -1, .form = ""};

    if (!event || !finding_out || event->size < offsetof(struct memplan_log_event, requested))
        return 0;
    memcpy(&own, event, event->size < sizeof(own) ? event->size : sizeof(own));
    return mpl_log_find(&own, i, finding_out);
}

const char *memplan_log_kind_name(enum memplan_log_kind kind)
{
    static const char *const names[] = {
        [MEMPLAN_LOG_ALLOCATOR] = "allocator",   [MEMPLAN_LOG_LIMIT] = "limit",
        [MEMPLAN_LOG_ASYNC] = "cudaMallocAsync", [MEMPLAN_LOG_DRIVER] = "driver",
        [MEMPLAN_LOG_LIBRARY] = "library",       [MEMPLAN_LOG_NCCL] = "nccl",
        [MEMPLAN_LOG_WARNING] = "warning",
    };

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}
