/* SPDX-License-Identifier: MIT */
/* The words of an allocator settings string (c10/core/AllocatorConfig.h, ConfigTokenizer). */
#include "replay/conf_tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_mark(char c)
{
    return c == ',' || c == ':' || c == '[' || c == ']';
}

enum memplan_status mpl_conf_tokenize(const char *text, struct mpl_conf_tokens *tokens,
                                      struct memplan_error *err)
{
    char *end = tokens->text;
    bool is_open = false; /* a word is being read */

    tokens->count = 0;
    if (strlen(text) > MPL_CONF_MOST_BYTES)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, MPL_CONF_PATH,
                        "found %zu bytes of allocator settings, expected at most %d", strlen(text),
                        MPL_CONF_MOST_BYTES);
    for (; *text; text++) {
        if (is_space(*text))
            continue;
        if (is_mark(*text) || !is_open) {
            if (tokens->count == MPL_CONF_MOST_TOKENS)
                return mpl_fail(err, MEMPLAN_ERR_LIMIT, MPL_CONF_PATH,
                                "found more than %d words of allocator settings",
                                MPL_CONF_MOST_TOKENS);
            if (is_open)
                *end++ = '\0';
            tokens->at[tokens->count++] = end;
        }
        *end++ = *text;
        is_open = !is_mark(*text);
        if (!is_open)
            *end++ = '\0';
    }
    *end = '\0';
    return MEMPLAN_OK;
}

bool mpl_conf_unsigned(const char *token, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(token, &end, 10);
    return end != token && errno == 0;
}

bool mpl_conf_double(const char *token, double *value)
{
    char *end;

    errno = 0;
    *value = strtod(token, &end);
    return end != token && errno == 0;
}

bool mpl_conf_is_power_of_2(uint64_t value)
{
    return value && !(value & (value - 1));
}

const char *mpl_conf_shown(const char *token, char shown[MPL_CONF_SHOWN])
{
    snprintf(shown, MPL_CONF_SHOWN, "%s", token);
    shown[mpl_utf8_whole(shown)] = '\0';
    return shown;
}
