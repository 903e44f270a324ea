/* SPDX-License-Identifier: MIT */
/* Watches the text of a run for the message that it ran out of memory. */
#ifndef CLI_OOM_WATCH_H
#define CLI_OOM_WATCH_H

#include "log_messages.h"

/** Zero-initialized to begin with. Once something went wrong it watches no more. */
struct oom_watch {
    struct memplan_log *log;
    struct log_messages messages; /* of failures; warnings are left out */
    bool failed;
};

void oom_watch_feed(struct oom_watch *watch, const void *bytes, size_t len);

/** There is no more text. */
void oom_watch_end(struct oom_watch *watch);

/** Did the text say that a request failed? */
bool oom_watch_saw(const struct oom_watch *watch);

/** The first message as JSON, new, for a record; NULL: none. */
json_t *oom_watch_message(const struct oom_watch *watch);

void oom_watch_free(struct oom_watch *watch);

#endif
