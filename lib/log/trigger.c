/* SPDX-License-Identifier: MIT */
/*
 * Words that every message holds: where in a log to look closer. A log is gigabytes of other text,
 * so the search looks at two bytes, and steps over as many as no word could start in (Wu and
 * Manber).
 */
#include "log/trigger.h"

#include <string.h>

#include "log/forms.h"

static size_t pair_of(const char *at)
{
    return (((size_t)(unsigned char)at[0] << 5) ^ (unsigned char)at[1]) % MPL_LOG_TRIGGER_PAIRS;
}

void mpl_log_triggers_init(struct mpl_log_triggers *triggers)
{
    const char *word;
    size_t most;

    triggers->shortest = SIZE_MAX;
    triggers->longest = 0;
    for (size_t i = 0; (word = mpl_log_form_trigger(i)); i++) {
        size_t len = strlen(word);

        triggers->shortest = len < triggers->shortest ? len : triggers->shortest;
        triggers->longest = len > triggers->longest ? len : triggers->longest;
    }
    most = triggers->shortest - 1;
    memset(triggers->step, (int)most, sizeof(triggers->step));
    for (size_t i = 0; (word = mpl_log_form_trigger(i)); i++)
        for (size_t at = 0; at + 1 < triggers->shortest; at++) {
            uint8_t *step = &triggers->step[pair_of(word + at)];
            size_t left = triggers->shortest - 2 - at;

            *step = left < *step ? (uint8_t)left : *step;
        }
}

static bool begins(const char *bytes, size_t len)
{
    const char *word;

    for (size_t i = 0; (word = mpl_log_form_trigger(i)); i++) {
        size_t size = strlen(word);

        if (size <= len && memcmp(bytes, word, size) == 0)
            return true;
    }
    return false;
}

size_t mpl_log_triggers_find(const struct mpl_log_triggers *triggers, const char *bytes, size_t len,
                             size_t from)
{
    const size_t shortest = triggers->shortest;

    while (from + shortest <= len) {
        size_t step = triggers->step[pair_of(bytes + from + shortest - 2)];

        if (!step && begins(bytes + from, len - from))
            return from;
        from += step ? step : 1;
    }
    return len;
}
