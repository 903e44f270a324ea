/* SPDX-License-Identifier: MIT */
/* The search for a boundary, on functions whose boundary is known. */
#include <string.h>

#include "replay_random.h"
#include "test.h"
#include "verdict/boundary.h"

/* What a row's values are: fits from low to high but not inside of the hole; takes so many bytes.
 */
struct world {
    int64_t low, high;           /* fits: inclusive */
    int64_t hole_low, hole_high; /* does not */
    int64_t divisor, rest;       /* possible: value % divisor == rest */
    int64_t end;                 /* not computed from here on; 0: never */
    bool falls;
    int64_t refuses; /* what is not a multiple of it is judged to be no run; 0: nothing */
    int64_t judged;
};

static bool is_possible(const struct world *w, int64_t value)
{
    return !w->divisor || value % w->divisor == w->rest;
}

static enum memplan_status look(void *context, int64_t value, bool *possible,
                                struct memplan_error *err)
{
    (void)err;
    *possible = is_possible(context, value);
    return MEMPLAN_OK;
}

static bool fits(const struct world *w, int64_t value)
{
    return value >= w->low && value <= w->high && !(value >= w->hole_low && value <= w->hole_high);
}

static enum memplan_status judge(void *context, int64_t value, struct mpl_judged *judged,
                                 struct memplan_error *err)
{
    struct world *w = context;

    (void)err;
    ck_assert_msg(is_possible(w, value), "%lld is not possible", (long long)value);
    w->judged++;
    if (w->refuses && value % w->refuses) {
        judged->side = MPL_SIDE_INVALID;
        return MEMPLAN_OK;
    }
    judged->side = w->end && value >= w->end ? MPL_SIDE_END
                   : fits(w, value)          ? MPL_SIDE_FITS
                                             : MPL_SIDE_FAILS;
    judged->bytes = w->falls ? UINT64_C(1) << 62 : 1;
    judged->bytes = w->falls ? judged->bytes / (uint64_t)(value + 100) : (uint64_t)value + 100;
    judged->is_far = !w->falls && value / 4 > w->high;
    return MEMPLAN_OK;
}

static struct mpl_boundary_search search_of(struct world *w, int64_t from, int64_t to,
                                            int64_t grain, bool wants_least)
{
    return (struct mpl_boundary_search){judge, look, w, from, to, grain, wants_least, w->divisor};
}

#define NONE INT64_MIN

static const struct {
    struct world world;
    int64_t from, to, grain;
    bool wants_least;
    int64_t found, beyond; /* NONE: nothing */
    bool has_hole;
} rows[] = {
    {{.high = 1000}, 1, 1 << 30, 1, false, 1000, 1001, false},
    {{.high = 1000}, 1, 1 << 30, 128, false, 896, 1024, false},
    {{.high = 127}, 1, 1 << 30, 128, false, NONE, NONE, false},
    {{.high = 5}, 0, 5, 1, false, 5, NONE, false},
    {{.low = 7, .high = INT64_MAX, .falls = true}, 1, 64, 1, true, 7, 6, false},
    {{.low = 7, .high = INT64_MAX, .falls = true}, 1, 64, 1, false, 64, NONE, false},
    {{.high = INT64_MAX}, -1, INT64_MAX, 1, false, INT64_MAX, NONE, false},
    {{.low = -3, .high = 40}, -10, 100, 3, false, 39, 42, true},
    {{.low = -4, .high = 40}, -10, 100, 3, true, -3, -6, true},
    {{.high = 100, .divisor = 7}, 1, 1000, 1, false, 98, 105, false},
    {{.high = 100, .divisor = 7, .rest = 3}, 1, 1000, 1, false, 94, 101, false},
    {{.high = 6000, .hole_low = 1500, .hole_high = 3000}, 1, 1 << 20, 1, false, 6000, 6001, true},
    {{.high = 1000, .end = 256}, 1, 1 << 20, 1, false, 128, NONE, false},
    {{.high = 999, .hole_low = 990, .hole_high = 997}, 1, 1 << 20, 1, false, 999, 1000, true},
    {{.high = 100000, .divisor = 3000}, 1, 1 << 20, 1, false, 99000, 102000, false},
    {{.high = 100, .refuses = 3}, 1, 200, 1, false, 99, 102, false},
    {{.high = INT64_MAX / 2}, INT64_MAX - 9, INT64_MAX, 1, false, NONE, NONE, false},
};

START_TEST(known_boundaries)
{
    struct world world = rows[_i].world;
    const struct mpl_boundary_search s =
        search_of(&world, rows[_i].from, rows[_i].to, rows[_i].grain, rows[_i].wants_least);
    static struct mpl_boundary b;
    struct memplan_error err = {0};

    if (!world.hole_high)
        world.hole_low = 1, world.hole_high = 0;
    ck_assert_int_eq(mpl_boundary_find(&s, &b, &err), MEMPLAN_OK);
    ck_assert_int_eq(b.is_found, rows[_i].found != NONE);
    ck_assert_int_eq(b.is_proven, rows[_i].beyond != NONE);
    if (b.is_found)
        ck_assert_int_eq(b.judged[b.found].value, rows[_i].found);
    if (b.is_proven)
        ck_assert_int_eq(b.judged[b.beyond].value, rows[_i].beyond);
    ck_assert_int_eq(b.has_hole, rows[_i].has_hole);
    ck_assert_int_le(world.judged, 120);
    for (size_t i = 1; i < b.count; i++)
        ck_assert(b.judged[i - 1].value < b.judged[i].value);
}
END_TEST

/* Any boundary, range, grain and divisor: the answer is that of trying every value. */
START_TEST(as_by_trying_all)
{
    static struct mpl_boundary b;
    uint64_t state = (uint64_t)_i + 1;
    struct world w = {.hole_low = 1, .divisor = (int64_t)random_below(&state, 9)};
    const int64_t from = (int64_t)random_below(&state, 50) - 10;
    const int64_t to = from + (int64_t)random_below(&state, 3000);
    const int64_t grain = 1 + (int64_t)random_below(&state, 9);
    const bool least = random_below(&state, 2);
    struct mpl_boundary_search s = search_of(&w, from, to, grain, least);
    struct memplan_error err = {0};
    int64_t expected = NONE;
    enum memplan_status status;

    w.high = least ? INT64_MAX : from + (int64_t)random_below(&state, 3200);
    w.low = least ? from + (int64_t)random_below(&state, 3200) : INT64_MIN;
    w.falls = least;
    for (int64_t v = from; v <= to; v++)
        if (v % grain == 0 && is_possible(&w, v) && fits(&w, v) && (!least || expected == NONE))
            expected = v;
    status = mpl_boundary_find(&s, &b, &err);
    if (status)
        ck_assert_int_eq(expected, NONE);
    else
        ck_assert_int_eq(b.is_found ? b.judged[b.found].value : NONE, expected);
}
END_TEST

START_TEST(trends)
{
    static struct mpl_boundary b;
    struct world w = {.hole_low = 1, .high = 100};
    struct mpl_boundary_search s = search_of(&w, 1, 100, 1, false);
    struct memplan_error err = {0};

    ck_assert_int_eq(mpl_boundary_find(&s, &b, &err), MEMPLAN_OK);
    ck_assert_int_eq(b.trend, MPL_TREND_RISES);
    w.falls = true;
    ck_assert_int_eq(mpl_boundary_find(&s, &b, &err), MEMPLAN_OK);
    ck_assert_int_eq(b.trend, MPL_TREND_FALLS);
    s.grain = 101;
    ck_assert_int_eq(mpl_boundary_find(&s, &b, &err), MEMPLAN_ERR_VALUE);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("boundary");

    tcase_add_loop_test(tcase, known_boundaries, 0, ROWS(rows));
    tcase_add_loop_test(tcase, as_by_trying_all, 0, 400);
    tcase_add_test(tcase, trends);
    return test_run("boundary", tcase);
}
