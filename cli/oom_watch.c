/* SPDX-License-Identifier: MIT */
/* Watches the text of a run for the message that it ran out of memory. */
#include "oom_watch.h"

static void take(struct oom_watch *watch)
{
    struct memplan_log_event event = {.size = sizeof(event)};

    while (!watch->failed && memplan_log_next(watch->log, &event))
        /* After a warning the allocator tried again, maybe with success. */
        if (event.kind != MEMPLAN_LOG_WARNING && !log_messages_add(&watch->messages, &event))
            watch->failed = true;
}

void oom_watch_feed(struct oom_watch *watch, const void *bytes, size_t len)
{
    if (!watch->log && memplan_log_new(&watch->log, NULL))
        watch->failed = true;
    if (watch->failed || memplan_log_feed(watch->log, bytes, len, NULL))
        watch->failed = true;
    take(watch);
}

void oom_watch_end(struct oom_watch *watch)
{
    if (!watch->log || watch->failed)
        return;
    watch->failed = memplan_log_end(watch->log, NULL) != MEMPLAN_OK;
    take(watch);
}

bool oom_watch_saw(const struct oom_watch *watch)
{
    return watch->messages.count > 0;
}

json_t *oom_watch_message(const struct oom_watch *watch)
{
    /* What follows from the figures can be worked out again from them. */
    static const char *const left_out[] = {"findings", "releases", "local_ranks"};
    json_t *log, *message;

    if (!oom_watch_saw(watch))
        return NULL;
    log = log_messages_to_json(&watch->messages, "");
    message = json_incref(json_array_get(json_object_get(log, "messages"), 0));
    json_decref(log);
    for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
        json_object_del(message, left_out[i]);
    return message;
}

void oom_watch_free(struct oom_watch *watch)
{
    memplan_log_free(watch->log);
    log_messages_free(&watch->messages);
    *watch = (struct oom_watch){0};
}
