/* SPDX-License-Identifier: MIT */
/* One way to report an error: fill the caller's memplan_error and return its status. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void mpl_fail_clear(struct memplan_error *err)
{
    if (err)
        memset(err, 0, sizeof(*err));
}

enum memplan_status mpl_fail(struct memplan_error *err, enum memplan_status status,
                             const char *path, const char *format, ...)
{
    va_list args;

    if (!err || err->status != MEMPLAN_OK)
        return status;
    err->status = status;
    if (path)
        snprintf(err->path, sizeof(err->path), "%s", path);
    err->path[mpl_utf8_whole(err->path)] = '\0';
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    err->text[mpl_utf8_whole(err->text)] = '\0';
    return status;
}
