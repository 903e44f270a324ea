/* SPDX-License-Identifier: MIT */
/* Values of a field as people list them. */
#include "range.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define GIB            (INT64_C(1) << 30)
#define MOST_ARGUMENTS 64 /* bytes of one bound */

bool range_read_value(const char *text, enum range_kind kind, int64_t *value)
{
    uint64_t bytes;
    char *end;

    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end != text && !*end)
        return !errno;
    if (kind != RANGE_SIZE || !text_read_size(text, &bytes) || bytes > INT64_MAX)
        return false;
    *value = (int64_t)bytes;
    return true;
}

static bool fail(char *why, size_t size, const char *format, const char *text)
{
    snprintf(why, size, format, text);
    return false;
}

static bool add(struct range *range, const char *text, char *why, size_t size)
{
    const size_t len = strlen(text);
    struct range_value *value;
    char *end;

    if (range->count == RANGE_MOST) {
        snprintf(why, size, "more than %d values", RANGE_MOST);
        return false;
    }
    if (!range->values && !(range->values = calloc(RANGE_MOST, sizeof(*range->values))))
        return fail(why, size, "%s", "out of memory");
    value = &range->values[range->count];
    if (!len || len >= sizeof(value->text))
        return fail(why, size, "found \"%.80s\", expected a value of 1 to 63 bytes", text);
    memcpy(value->text, text, len + 1);
    value->number = strtod(text, &end);
    if (end == text || *end)
        value->number = NAN;
    range->count++;
    return true;
}

static bool add_number(struct range *range, int64_t number, char *why, size_t size)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, number);
    return add(range, text, why, size);
}

/* A range without its pieces. */
struct bounds {
    int64_t from, to, step; /* step 0: factor */
    double factor;
};

/* Copies what stands before `end`. */
static bool take(const char *text, const char *end, char *out)
{
    const size_t len = (size_t)(end - text);

    if (len >= MOST_ARGUMENTS)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* What stands after ':' or '*'. */
static bool read_step(const char *text, enum range_kind kind, struct bounds *b, char *why,
                      size_t size)
{
    char *end;

    if (*text == ':') {
        if (!range_read_value(text + 1, kind, &b->step) || b->step < 1)
            return fail(why, size, "found the step \"%.40s\", expected 1 or more", text + 1);
        return true;
    }
    b->step = 0;
    b->factor = strtod(text + 1, &end);
    if (end == text + 1 || *end || !(b->factor > 1 && b->factor <= 1e18))
        return fail(why, size, "found the factor \"%.40s\", expected a number above 1", text + 1);
    if (b->from < 1)
        return fail(why, size, "found the factor \"%.40s\" from below 1, expected a :step",
                    text + 1);
    return true;
}

/* Reads "a..b", "a..b:step" or "a..b*factor"; dots points at the two. */
static bool read_bounds(const char *text, const char *dots, enum range_kind kind, struct bounds *b,
                        char *why, size_t size)
{
    const char *rest = dots + 2 + strcspn(dots + 2, ":*");
    char from[MOST_ARGUMENTS], to[MOST_ARGUMENTS];

    if (!take(text, dots, from) || !take(dots + 2, rest, to) ||
        !range_read_value(from, kind, &b->from) || !range_read_value(to, kind, &b->to))
        return fail(why, size,
                    kind == RANGE_SIZE
                        ? "found \"%.80s\", expected sizes A..B, A..B:STEP or A..B*FACTOR"
                        : "found \"%.80s\", expected whole numbers A..B, A..B:STEP or A..B*FACTOR",
                    text);
    if (b->from > b->to)
        return fail(why, size, "found \"%.80s\", expected A..B with A at most B", text);
    b->step = kind == RANGE_SIZE ? GIB : 1;
    return !*rest || read_step(rest, kind, b, why, size);
}

/* The value after one; false past the last one. */
static bool advance(const struct bounds *b, int64_t *value)
{
    double next;

    if (b->step)
        return !__builtin_add_overflow(*value, b->step, value) && *value <= b->to;
    next = round((double)*value * b->factor);
    if (next <= (double)*value)
        next = (double)*value + 1;
    if (!(next <= (double)b->to) || next >= 9.2e18)
        return false;
    *value = (int64_t)next;
    return *value <= b->to;
}

static bool add_range(const char *text, const char *dots, enum range_kind kind, struct range *range,
                      char *why, size_t size)
{
    struct bounds b = {0};
    uint64_t count;
    int64_t value;

    if (kind == RANGE_TEXT)
        return fail(why, size, "found \"%.80s\", expected a list: the field holds no whole number",
                    text);
    if (!read_bounds(text, dots, kind, &b, why, size))
        return false;
    count = b.step ? ((uint64_t)b.to - (uint64_t)b.from) / (uint64_t)b.step : 0;
    if (count >= RANGE_MOST) {
        snprintf(why, size,
                 "\"%.80s\" holds more than %d values, the most that are estimated; give a larger "
                 ":STEP or a *FACTOR",
                 text, RANGE_MOST);
        return false;
    }
    range->is_geometric |= !b.step;
    value = b.from;
    do {
        if (!add_number(range, value, why, size))
            return false;
    } while (advance(&b, &value));
    return true;
}

/* One item of a list. */
static bool add_item(const char *text, enum range_kind kind, struct range *range, char *why,
                     size_t size)
{
    const char *dots = strstr(text, "..");
    int64_t value;

    if (dots)
        return add_range(text, dots, kind, range, why, size);
    if (kind == RANGE_TEXT || (kind == RANGE_INTEGER && !range_read_value(text, kind, &value)))
        return add(range, text, why, size); /* "true" may be a value too; the plan decides */
    if (!range_read_value(text, kind, &value))
        return fail(why, size, "found \"%.80s\", expected a size, as 80 GiB", text);
    return add_number(range, value, why, size);
}

bool range_read(const char *text, enum range_kind kind, struct range *range, char *why, size_t size)
{
    char item[4 * MOST_ARGUMENTS];

    *range = (struct range){0};
    for (;;) {
        const size_t len = strcspn(text, ",");

        if (len >= sizeof(item))
            return fail(why, size, "found \"%.80s...\", expected a shorter value", text);
        memcpy(item, text, len);
        item[len] = '\0';
        if (!add_item(item, kind, range, why, size))
            return false;
        if (!text[len])
            return true;
        text += len + 1;
    }
}

void range_free(struct range *range)
{
    free(range->values);
    *range = (struct range){0};
}
