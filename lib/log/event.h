/* SPDX-License-Identifier: MIT */
/* From a match of a form to an event. */
#ifndef MPL_LOG_EVENT_H
#define MPL_LOG_EVENT_H

#include <memplan.h>
#include <stddef.h>

#include "log/forms.h"
#include "log/pattern.h"

#define MPL_LOG_PIDS     256 /* process numbers that are told apart in one log */
#define MPL_LOG_WARNINGS 32  /* the last ones, whose figures are exact */

/** What one message tells of the next ones. */
struct mpl_log_memory {
    uint64_t pids[MPL_LOG_PIDS];
    uint32_t pid_count;
    struct memplan_log_event warnings[MPL_LOG_WARNINGS];
    size_t warning_count; /* ever seen */
};

/** Fills in what the match says. item matches one process. */
void mpl_log_event_make(const struct mpl_log_form *form, const struct mpl_log_pattern *match,
                        struct mpl_log_pattern *item, const char *text,
                        struct mpl_log_memory *memory, struct memplan_log_event *event);

/** Takes exact figures from the warnings that went before a message of the same failure, and keeps
 * a warning for later. For every event, in the order of the log. */
void mpl_log_event_refine(struct mpl_log_memory *memory, struct memplan_log_event *event);

/** Pattern of one process, for item. */
extern const char mpl_log_event_item[];

#endif
