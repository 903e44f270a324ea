/* SPDX-License-Identifier: MIT */
/* What follows from one message, and what does not. */
#ifndef MPL_LOG_FIND_H
#define MPL_LOG_FIND_H

#include <memplan.h>
#include <stdbool.h>

/** As memplan_log_find, with arguments that are in order. */
bool mpl_log_find(const struct memplan_log_event *event, size_t i,
                  struct memplan_log_finding *finding);

#endif
