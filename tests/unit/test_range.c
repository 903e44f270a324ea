/* SPDX-License-Identifier: MIT */
/* Lists and ranges of values on the command line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "range.h"
#include "test.h"

static const struct {
    const char *text;
    enum range_kind kind;
    const char *values; /* joined with spaces; NULL: refused */
} rows[] = {
    {"4", RANGE_INTEGER, "4"},
    {"1..5", RANGE_INTEGER, "1 2 3 4 5"},
    {"5..5", RANGE_INTEGER, "5"},
    {"-2..2:2", RANGE_INTEGER, "-2 0 2"},
    {"1..9:4", RANGE_INTEGER, "1 5 9"},
    {"1..10:4", RANGE_INTEGER, "1 5 9"},
    {"1..64*2", RANGE_INTEGER, "1 2 4 8 16 32 64"},
    {"1..10*1.5", RANGE_INTEGER, "1 2 3 5 8"},
    {"1..3*1.0001", RANGE_INTEGER, "1 2 3"},
    {"1..4*2,7,9..10", RANGE_INTEGER, "1 2 4 7 9 10"},
    {"9223372036854775806..9223372036854775807", RANGE_INTEGER,
     "9223372036854775806 9223372036854775807"},
    {"9223372036854775800..9223372036854775807:5", RANGE_INTEGER,
     "9223372036854775800 9223372036854775805"},
    {"4611686018427387904..9223372036854775807*2", RANGE_INTEGER, "4611686018427387904"},
    {"true,4", RANGE_INTEGER, "true 4"},
    {"1GiB..3GiB", RANGE_SIZE, "1073741824 2147483648 3221225472"},
    {"1GiB..2GiB:512MiB", RANGE_SIZE, "1073741824 1610612736 2147483648"},
    {"80 GiB,5", RANGE_SIZE, "85899345920 5"},
    {"sdpa,eager", RANGE_TEXT, "sdpa eager"},
    {"", RANGE_INTEGER, NULL},
    {"1,,2", RANGE_INTEGER, NULL},
    {"1,", RANGE_INTEGER, NULL},
    {"..", RANGE_INTEGER, NULL},
    {"1..", RANGE_INTEGER, NULL},
    {"..4", RANGE_INTEGER, NULL},
    {"4..1", RANGE_INTEGER, NULL},
    {"1..4:0", RANGE_INTEGER, NULL},
    {"1..4:-1", RANGE_INTEGER, NULL},
    {"1..4:", RANGE_INTEGER, NULL},
    {"1..4:2x", RANGE_INTEGER, NULL},
    {"1..4*1", RANGE_INTEGER, NULL},
    {"1..4*0", RANGE_INTEGER, NULL},
    {"1..4*-2", RANGE_INTEGER, NULL},
    {"1..4*nan", RANGE_INTEGER, NULL},
    {"1..4*inf", RANGE_INTEGER, NULL},
    {"1..4*", RANGE_INTEGER, NULL},
    {"1..4*2:1", RANGE_INTEGER, NULL},
    {"1..4:2*2", RANGE_INTEGER, NULL},
    {"0..8*2", RANGE_INTEGER, NULL},
    {"1..8..9", RANGE_INTEGER, NULL},
    {"1.5..3", RANGE_INTEGER, NULL},
    {"1..99999999999999999999", RANGE_INTEGER, NULL},
    {"1..1025", RANGE_INTEGER, NULL},
    {"1..1000000000", RANGE_INTEGER, NULL},
    {"1..1000000000*1.0000001", RANGE_INTEGER, NULL},
    {"-9223372036854775808..9223372036854775807", RANGE_INTEGER, NULL},
    {"1..1024,7", RANGE_INTEGER, NULL},
    {"1GiB..2 furlongs", RANGE_SIZE, NULL},
    {"much", RANGE_SIZE, NULL},
    {"a..b", RANGE_TEXT, NULL},
};

START_TEST(ranges)
{
    char joined[512] = "", why[256] = "";
    struct range range;
    const bool is_read = range_read(rows[_i].text, rows[_i].kind, &range, why, sizeof(why));

    for (size_t i = 0; is_read && i < range.count && i < 16; i++)
        snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%s", i ? " " : "",
                 range.values[i].text);
    ck_assert_msg(is_read == (rows[_i].values != NULL), "\"%s\": %s", rows[_i].text, why);
    if (is_read)
        ck_assert_str_eq(joined, rows[_i].values);
    else
        ck_assert_msg(*why && !strchr(why, '\n'), "\"%s\" says nothing", rows[_i].text);
    range_free(&range);
}
END_TEST

START_TEST(most_values)
{
    struct range range;
    char why[256], long_text[400];

    ck_assert(range_read("1..1024", RANGE_INTEGER, &range, why, sizeof(why)));
    ck_assert_uint_eq(range.count, RANGE_MOST);
    ck_assert(!range.is_geometric);
    range_free(&range);
    ck_assert(range_read("1..1024*2", RANGE_INTEGER, &range, why, sizeof(why)));
    ck_assert(range.is_geometric);
    range_free(&range);
    memset(long_text, '7', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    ck_assert(!range_read(long_text, RANGE_TEXT, &range, why, sizeof(why)));
    range_free(&range);
    long_text[200] = '\0';
    ck_assert(!range_read(long_text, RANGE_INTEGER, &range, why, sizeof(why)));
    range_free(&range);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("range");

    tcase_add_loop_test(tcase, ranges, 0, ROWS(rows));
    tcase_add_test(tcase, most_values);
    return test_run("range", tcase);
}
