/* SPDX-License-Identifier: MIT */
/* One way to report an error: fill the caller's memplan_error and return its status. */
#ifndef MPL_BASE_FAIL_H
#define MPL_BASE_FAIL_H

#include <memplan.h>

/**
 * Formats one sentence into *err and returns status. err may be NULL. path is a JSON pointer or
 * NULL. The first error wins: an err that already holds one is left as it is.
 */
enum memplan_status mpl_fail(struct memplan_error *err, enum memplan_status status,
                             const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Makes *err an empty error: status OK, no text. err may be NULL. */
void mpl_fail_clear(struct memplan_error *err);

#endif
