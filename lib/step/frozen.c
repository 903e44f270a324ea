/* SPDX-License-Identifier: MIT */
/* Parameters that do not train, chosen by shell patterns on their names. */
#include "step/frozen.h"

#include <string.h>

#include "base/fail.h"

/* The end of the set that opens at pattern ('['): its ']', or NULL when it never closes and the
 * bracket stands for itself. A ']' that comes first is a member. */
static const char *set_end(const char *pattern)
{
    pattern++;
    if (*pattern == '!')
        pattern++;
    if (*pattern == ']')
        pattern++;
    return strchr(pattern, ']');
}

/* True when the set between '[' and end holds c. An empty range such as z-a holds nothing. */
static bool set_holds(const char *pattern, const char *end, char c)
{
    const unsigned char wanted = (unsigned char)c;
    bool is_negated, is_member = false;

    pattern++;
    is_negated = *pattern == '!';
    if (is_negated)
        pattern++;
    while (pattern < end) {
        const unsigned char low = (unsigned char)*pattern;
        unsigned char high = low;

        pattern++;
        if (*pattern == '-' && pattern + 1 < end) {
            high = (unsigned char)pattern[1];
            pattern += 2;
        }
        if (low <= wanted && wanted <= high)
            is_member = true;
    }
    return is_member != is_negated;
}

/* Where the pattern goes on after its first element took c, or NULL when that does not take it. */
static const char *take_one(const char *pattern, char c)
{
    const char *end;

    if (*pattern == '?')
        return pattern + 1;
    if (*pattern == '[' && (end = set_end(pattern)))
        return set_holds(pattern, end, c) ? end + 1 : NULL;
    return *pattern == c ? pattern + 1 : NULL;
}

/* Only the last '*' is ever tried again, so the work is at most one pass over the pattern for each
 * character of the name. */
bool mpl_pattern_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *retry = NULL, *next;

    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = name;
        } else if (*pattern && (next = take_one(pattern, *name))) {
            pattern = next;
            name++;
        } else if (star) {
            pattern = star;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static bool is_frozen(const struct mpl_training *t, const struct mpl_parameter *parameter)
{
    for (uint32_t k = 0; k < t->frozen_count; k++)
        if (mpl_pattern_matches(t->frozen[k], parameter->name))
            return true;
    return false;
}

enum memplan_status mpl_network_freeze(struct mpl_network *network, struct memplan_error *err)
{
    bool trains = false;

    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        p->is_trainable &= !is_frozen(&network->plan->training, p);
        trains |= p->is_trainable && !p->is_buffer;
    }
    if (trains)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/frozen",
                    "the patterns match every parameter, expected one at least that trains");
}
