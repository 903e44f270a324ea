/* SPDX-License-Identifier: MIT */
/* Joins short texts, such as the parts of a name. */
#include "base/join.h"

#include <string.h>

void mpl_join(char *out, size_t size, const char *const *parts, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(parts[i]);

        if (len > size - 1 - used)
            len = size - 1 - used;
        memcpy(out + used, parts[i], len);
        used += len;
    }
    out[used] = '\0';
}
