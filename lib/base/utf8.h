/* SPDX-License-Identifier: MIT */
/* Text that was cut to fit: where its last whole character ends. */
#ifndef MPL_BASE_UTF8_H
#define MPL_BASE_UTF8_H

#include <stddef.h>
#include <string.h>

/** Bytes of valid UTF-8 text without a character that was cut off at its end. */
static inline size_t mpl_utf8_whole(const char *text)
{
    const size_t len = strlen(text);
    size_t start = len, size = 1;
    unsigned char lead;

    while (start && len - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (!start)
        return len;
    lead = (unsigned char)text[start - 1];
    if (lead >= 0xc0)
        size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return len - (start - 1) < size ? start - 1 : len;
}

#endif
