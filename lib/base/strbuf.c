/* SPDX-License-Identifier: MIT */
/* Growing text. A failed growth is remembered, and found when the text is taken. */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for more bytes and the final zero. */
static bool reserve(struct mpl_strbuf *out, size_t more)
{
    size_t cap = out->cap ? out->cap : 1024;
    char *grown;

    if (out->has_failed || more > SIZE_MAX / 4 || out->len > SIZE_MAX / 4)
        return false;
    while (cap - out->len <= more)
        cap *= 2;
    if (cap == out->cap)
        return true;
    grown = realloc(out->data, cap);
    if (!grown) {
        out->has_failed = true;
        return false;
    }
    out->data = grown;
    out->cap = cap;
    return true;
}

void mpl_strbuf_put(struct mpl_strbuf *out, const char *text)
{
    const size_t len = strlen(text);

    if (!reserve(out, len))
        return;
    memcpy(out->data + out->len, text, len + 1);
    out->len += len;
}

void mpl_strbuf_printf(struct mpl_strbuf *out, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || !reserve(out, (size_t)len))
        return;
    va_start(args, format);
    vsnprintf(out->data + out->len, (size_t)len + 1, format, args);
    va_end(args);
    out->len += (size_t)len;
}

void mpl_strbuf_fixed(struct mpl_strbuf *out, double value, int decimals)
{
    char text[352]; /* any double has fewer digits */
    const int len = snprintf(text, sizeof(text), "%.*f", decimals, value);

    mpl_strbuf_printf(out, "%.*s.%s", (int)strspn(text, "0123456789"), text, text + len - decimals);
}

char *mpl_strbuf_steal(struct mpl_strbuf *out)
{
    char *text = out->data;

    if (out->has_failed || !reserve(out, 0)) {
        free(out->data);
        text = NULL;
    } else {
        text = out->data;
        text[out->len] = '\0';
    }
    *out = (struct mpl_strbuf){0};
    return text;
}
