/* SPDX-License-Identifier: MIT */
/*
 * A step that starts from the same live storages as the one before it does the same again: its
 * events are copied instead of traced.
 */
#ifndef MPL_STEP_REPEAT_H
#define MPL_STEP_REPEAT_H

#include "timeline/timeline.h"

/** Where a step begins: positions in the timeline. */
struct mpl_step_start {
    size_t event, request, mark;
};

struct mpl_step_start mpl_step_start_here(const struct mpl_timeline *timeline);

enum mpl_repeat {
    MPL_REPEAT_DONE = 0,
    MPL_REPEAT_DIFFERS, /* what lives now is not what lived then; nothing was changed */
    MPL_REPEAT_NOMEM,
    MPL_REPEAT_LIMIT, /* more requests than most_requests */
};

/**
 * Appends the events since `start` once more, as the next step: what they free of earlier steps
 * becomes what took its place. For a loop that depends on nothing but what lives. After the first
 * copy the tape knows the requests of the copied step no longer: only copies may follow.
 */
enum mpl_repeat mpl_timeline_repeat(struct mpl_timeline *timeline,
                                    const struct mpl_step_start *start, size_t most_requests);

#endif
