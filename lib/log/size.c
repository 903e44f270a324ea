/* SPDX-License-Identifier: MIT */
/* Sizes as PyTorch prints them, and what is known of the true ones. */
#include "log/size.h"

#include <string.h>

#include "base/bytes.h"

/* A driver that does not say, or a limit that is not set, prints 2^64. */
#define MOST_BYTES ((uint64_t)1 << 60)

static const struct unit {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"bytes", 1}, {"KiB", MPL_KIB}, {"MiB", MPL_MIB}, {"GiB", MPL_GIB}, {"TiB", MPL_GIB * 1024},
};

static uint64_t find_unit(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (len == strlen(units[i].name) && memcmp(text, units[i].name, len) == 0)
            return units[i].bytes;
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* digits / scale units, rounded to the nearest: the true size lies within half of the last digit.
 */
static struct memplan_log_size make(uint64_t digits, uint64_t scale, uint64_t unit)
{
    struct memplan_log_size size = {.known = 1};
    const uint64_t twice = mpl_mul(digits, 2), parts = 2 * scale;
    const uint64_t above = mpl_mul(mpl_add(twice, 1), unit);

    if (above == MPL_BYTES_OVERFLOW || above / parts >= MOST_BYTES)
        return (struct memplan_log_size){0};
    if (unit == 1)
        return mpl_log_size_exact(digits);
    size.bytes = (twice * unit + scale) / parts;
    size.low = twice ? mpl_ceil_div((twice - 1) * unit, parts) : 0;
    size.high = above / parts;
    return size;
}

struct memplan_log_size mpl_log_size_read(const char *text, size_t len)
{
    uint64_t digits = 0, scale = 1, unit;
    bool has_point = false;
    size_t at = 0;

    for (; at < len && (is_digit(text[at]) || (text[at] == '.' && !has_point)); at++) {
        if (text[at] == '.') {
            has_point = true;
            continue;
        }
        digits = mpl_add(mpl_mul(digits, 10), (uint64_t)(text[at] - '0'));
        scale *= has_point ? 10 : 1;
        if (digits == MPL_BYTES_OVERFLOW || scale > 1000)
            return (struct memplan_log_size){0};
    }
    if (!at || at == len || text[at] != ' ')
        return (struct memplan_log_size){0};
    unit = find_unit(text + at + 1, len - at - 1);
    return unit ? make(digits, scale, unit) : (struct memplan_log_size){0};
}

struct memplan_log_size mpl_log_size_exact(uint64_t bytes)
{
    return (struct memplan_log_size){.bytes = bytes, .low = bytes, .high = bytes, .known = 1};
}

struct memplan_log_size mpl_log_size_add(const struct memplan_log_size *a,
                                         const struct memplan_log_size *b)
{
    if (!a->known || !b->known)
        return (struct memplan_log_size){0};
    return (struct memplan_log_size){.bytes = mpl_add(a->bytes, b->bytes),
                                     .low = mpl_add(a->low, b->low),
                                     .high = mpl_add(a->high, b->high),
                                     .known = 1};
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

struct memplan_log_size mpl_log_size_sub(const struct memplan_log_size *a,
                                         const struct memplan_log_size *b)
{
    if (!a->known || !b->known)
        return (struct memplan_log_size){0};
    return (struct memplan_log_size){.bytes = minus(a->bytes, b->bytes),
                                     .low = minus(a->low, b->high),
                                     .high = minus(a->high, b->low),
                                     .known = 1};
}

bool mpl_log_size_may_be(const struct memplan_log_size *size, uint64_t bytes)
{
    return size->known && bytes >= size->low && bytes <= size->high;
}
