/* SPDX-License-Identifier: MIT */
/* Stage "spec": sizes with a unit and version numbers, from text. Independent of the locale. */
#include "spec/text.h"

#include <string.h>

#include "base/bytes.h"

#define MOST_DIGITS   15 /* a whole number that a double holds exactly */
#define MOST_DECIMALS 6  /* so that fraction times the largest unit fits in 64 bits */

static const struct {
    const char *name;
    uint64_t bytes;
    bool is_power;
} unit_table[] = {
    {"B", 1, false},
    {"kB", UINT64_C(1000), false},
    {"KB", UINT64_C(1000), false},
    {"MB", UINT64_C(1000000), false},
    {"GB", UINT64_C(1000000000), false},
    {"TB", UINT64_C(1000000000000), false},
    {"KiB", MPL_KIB, true},
    {"MiB", MPL_MIB, true},
    {"GiB", MPL_GIB, true},
    {"TiB", UINT64_C(1) << 40, true},
};

/* Reads at most most digits; returns how many there were, or -1 when there are more. */
static int digits(const char **text, uint64_t *number, int most)
{
    int count = 0;

    *number = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (++count > most)
            return -1;
        *number = *number * 10 + (uint64_t)(**text - '0');
    }
    return count;
}

static uint64_t power_of_ten(uint32_t exponent)
{
    uint64_t power = 1;

    for (; exponent > 0; exponent--)
        power *= 10;
    return power;
}

bool mpl_size_parse(const char *text, struct mpl_size *size_out)
{
    struct mpl_size size = {0};

    if (digits(&text, &size.whole, MOST_DIGITS) < 1)
        return false;
    if (*text == '.') {
        text++;
        int count = digits(&text, &size.fraction, MOST_DECIMALS);

        if (count < 1)
            return false;
        size.decimals = (uint32_t)count;
    }
    while (*text == ' ')
        text++;
    if (*text) {
        for (size_t i = 0; i < sizeof(unit_table) / sizeof(unit_table[0]); i++)
            if (strcmp(unit_table[i].name, text) == 0) {
                size.unit = unit_table[i].bytes;
                size.unit_is_power = unit_table[i].is_power;
            }
        if (!size.unit)
            return false;
    }
    *size_out = size;
    return true;
}

bool mpl_size_bytes(const struct mpl_size *size, int64_t *bytes_out)
{
    uint64_t scale = power_of_ten(size->decimals);
    uint64_t bytes = mpl_add(mpl_mul(size->whole, size->unit),
                             (size->fraction * size->unit + scale / 2) / scale);

    if (bytes > INT64_MAX)
        return false;
    *bytes_out = (int64_t)bytes;
    return true;
}

bool mpl_version_parse(const char *text, struct mpl_version *version_out)
{
    struct mpl_version version = {0};
    uint16_t *parts[] = {&version.major, &version.minor, &version.patch};
    const char *at = text;

    if (strlen(text) >= sizeof(version.text))
        return false;
    for (size_t i = 0; i < 3; i++) {
        uint64_t number;

        if (digits(&at, &number, 4) < 1)
            return false;
        *parts[i] = (uint16_t)number;
        if (*at != '.')
            break;
        if (i < 2)
            at++;
    }
    /* "2.14.1+cu130", "2.13.0a0", "2.9.0.dev20250901": the rest names a build. */
    if (at == text || !strchr("+.ab-rd", *at) || !strchr(text, '.'))
        return false;
    memcpy(version.text, text, strlen(text) + 1);
    *version_out = version;
    return true;
}

bool mpl_version_at_least(const struct mpl_version *version, unsigned major, unsigned minor,
                          unsigned patch)
{
    if (version->major != major)
        return version->major > major;
    if (version->minor != minor)
        return version->minor > minor;
    return version->patch >= patch;
}

bool mpl_number_parse(const char *text, double *number_out)
{
    struct mpl_size size;

    if (!mpl_size_parse(text, &size) || size.unit)
        return false;
    *number_out = (double)size.whole + (double)size.fraction / (double)power_of_ten(size.decimals);
    return true;
}
