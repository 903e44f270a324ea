/* SPDX-License-Identifier: MIT */
/* Structs that carry their size, across versions of the library. */
#include "api_struct.h"

#include <string.h>

#include "base/fail.h"

#define MOST_BYTES 4096 /* more is a size that was never set */

enum memplan_status mpl_api_missing(struct memplan_error *err, const char *what)
{
    return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL", what);
}

static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    return size;
}

enum memplan_status mpl_api_take(void *own, size_t own_size, const void *given,
                                 struct memplan_error *err)
{
    const size_t size = size_of(given);

    if (size > MOST_BYTES)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "the size of the options is %zu, expected %zu",
                        size, own_size);
    for (size_t i = own_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return mpl_fail(err, MEMPLAN_ERR_ARG, NULL,
                            "options hold a member that this version of the library does not know");
    memcpy(own, given, size < own_size ? size : own_size);
    return MEMPLAN_OK;
}

enum memplan_status mpl_api_give(void *to, void *own, size_t own_size, struct memplan_error *err)
{
    const size_t size = size_of(to);

    if (size < sizeof(size) || size > MOST_BYTES)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "the size of the struct is %zu, expected %zu",
                        size, own_size);
    memcpy(own, &size, sizeof(size));
    memcpy(to, own, size < own_size ? size : own_size);
    return MEMPLAN_OK;
}
