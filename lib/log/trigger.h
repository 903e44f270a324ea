/* SPDX-License-Identifier: MIT */
/* Words that every message holds: where in a log to look closer. */
#ifndef MPL_LOG_TRIGGER_H
#define MPL_LOG_TRIGGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPL_LOG_TRIGGER_PAIRS 4096

/** How far a search may step, by the last two bytes that it looks at. */
struct mpl_log_triggers {
    uint8_t step[MPL_LOG_TRIGGER_PAIRS];
    size_t shortest, longest;
};

/** Fills in what forms.c says. */
void mpl_log_triggers_init(struct mpl_log_triggers *triggers);

/** Index of the first trigger that starts at or after from and lies within len bytes; len when
 * there is none. */
size_t mpl_log_triggers_find(const struct mpl_log_triggers *triggers, const char *bytes, size_t len,
                             size_t from);

#endif
