/* SPDX-License-Identifier: MIT */
/* Growing text. A failed growth is remembered, and found when the text is taken. */
#ifndef MPL_BASE_STRBUF_H
#define MPL_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

/** Zero-initialized is empty. */
struct mpl_strbuf {
    char *data;
    size_t len, cap;
    bool has_failed;
};

void mpl_strbuf_put(struct mpl_strbuf *out, const char *text);
void mpl_strbuf_printf(struct mpl_strbuf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** A number from 0 up with so many decimals (1 to 6), and a point whatever the locale. */
void mpl_strbuf_fixed(struct mpl_strbuf *out, double value, int decimals);

/** The text, malloc'ed, for the caller; NULL when memory ran out on the way. Empties the buffer. */
char *mpl_strbuf_steal(struct mpl_strbuf *out);

#endif
