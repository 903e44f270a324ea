/* SPDX-License-Identifier: MIT */
/* `memplan review`: values of an object by their paths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "review.h"

#define MOST_COUNT 1048576
#define MOST_STEPS 16 /* names of the longest path */

/* One step of a walk: a value, and what is left of the path below it. */
static bool walk(const json_t *value, const char *path, review_visit *visit, void *data, int steps)
{
    size_t len = strcspn(path, ".[");
    const char *rest = path + len, *key;
    bool is_each = strncmp(rest, "[]", 2) == 0, goes_on = true;
    json_t *member;
    char name[64];
    size_t i;

    if (!*path)
        return visit(value, data);
    if (len >= sizeof(name) || !steps)
        return true;
    memcpy(name, path, len);
    name[len] = '\0';
    rest += is_each ? 2 : 0;
    rest += *rest == '.';
    value = json_object_get(value, name);
    if (!value)
        return true;
    if (!is_each)
        return walk(value, rest, visit, data, steps - 1);
    json_array_foreach(value, i, member)
    {
        goes_on = goes_on && walk(member, rest, visit, data, steps - 1);
    }
    json_object_foreach((json_t *)value, key, member)
    {
        (void)key;
        goes_on = goes_on && walk(member, rest, visit, data, steps - 1);
    }
    return goes_on;
}

void review_walk(const json_t *root, const char *path, review_visit *visit, void *data)
{
    walk(root, path, visit, data, MOST_STEPS);
}

static bool take_one(const json_t *value, void *data)
{
    *(const json_t **)data = value;
    return false;
}

const json_t *review_at(const json_t *root, const char *path)
{
    const json_t *found = NULL;

    review_walk(root, path, take_one, &found);
    return found;
}

const char *review_text_at(const json_t *root, const char *path)
{
    const json_t *value = review_at(root, path);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : "";
}

int64_t review_number(const json_t *value, int64_t fallback)
{
    const char *text = json_string_value(value);
    int64_t number = json_integer_value(value);

    if (text) {
        if (!*text || strspn(text, "0123456789") != json_string_length(value))
            return fallback;
        errno = 0;
        number = strtoll(text, NULL, 10);
        if (errno)
            return fallback;
    } else if (!json_is_integer(value)) {
        return fallback;
    }
    return number >= 0 && number <= MOST_COUNT ? number : fallback;
}
