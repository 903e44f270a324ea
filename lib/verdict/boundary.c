/* SPDX-License-Identifier: MIT */
/* Where a run stops to fit along one field, found with few judgements. */
#include "verdict/boundary.h"

#include <string.h>

#include "base/fail.h"

#define NEAR    64   /* values looked at around one that is impossible */
#define WALK    512  /* and beyond those in a wide gap, before it counts as empty */
#define NARROW  4096 /* a gap in which every value is looked at */
#define STRETCH 8    /* the scan's step is at most this part of the range */
#define WIGGLE  1000 /* a change below 1 in so many is none */
#define NOWHERE UINT64_MAX

/* Values are numbered: 0 is the first multiple of the grain in the range, so that no sum wraps. */
struct finder {
    const struct mpl_boundary_search *search;
    struct mpl_boundary *b;
    struct memplan_error *err;
    enum memplan_status status;
    int64_t first;
    uint64_t count; /* of multiples in the range */
    int64_t refused[MPL_BOUNDARY_MOST];
    size_t refused_count;
};

static int64_t value_of(const struct finder *f, uint64_t number)
{
    return (int64_t)((uint64_t)f->first + number * (uint64_t)f->search->grain);
}

static uint64_t number_of(const struct finder *f, int64_t value)
{
    return ((uint64_t)value - (uint64_t)f->first) / (uint64_t)f->search->grain;
}

/* Place of a value in judged, or where it belongs. */
static size_t place_of(const struct mpl_boundary *b, int64_t value)
{
    size_t place = 0;

    while (place < b->count && b->judged[place].value < value)
        place++;
    return place;
}

static bool is_judged(const struct mpl_boundary *b, size_t place, int64_t value)
{
    return place < b->count && b->judged[place].value == value;
}

/* Judges a value once. NULL: it is no run, or the search ends. */
static const struct mpl_judged *judge(struct finder *f, uint64_t number)
{
    struct mpl_boundary *b = f->b;
    struct mpl_judged judged = {.value = value_of(f, number)};
    const size_t place = place_of(b, judged.value);

    if (is_judged(b, place, judged.value))
        return &b->judged[place];
    if (b->count + f->refused_count == MPL_BOUNDARY_MOST)
        b->is_spent = true;
    if (f->status || b->is_spent)
        return NULL;
    f->status = f->search->judge(f->search->context, judged.value, &judged, f->err);
    if (!f->status && judged.side == MPL_SIDE_INVALID)
        f->refused[f->refused_count++] = judged.value;
    if (f->status || judged.side == MPL_SIDE_INVALID)
        return NULL;
    memmove(&b->judged[place + 1], &b->judged[place], (b->count - place) * sizeof(*b->judged));
    b->judged[place] = judged;
    b->count++;
    return &b->judged[place];
}

/* A value that seemed possible and was judged to be no run. */
static bool is_refused(const struct finder *f, int64_t value)
{
    for (size_t i = 0; i < f->refused_count; i++)
        if (f->refused[i] == value)
            return true;
    return false;
}

static bool is_possible(struct finder *f, uint64_t number)
{
    const int64_t value = value_of(f, number);
    bool possible = false;

    if (f->status || is_refused(f, value))
        return false;
    f->status = f->search->look(f->search->context, value, &possible, f->err);
    if (!f->status && !possible)
        f->b->skipped++;
    return !f->status && possible;
}

/* The first possible number from one on, before `end`, of at most so many; NOWHERE: none. */
static uint64_t next_possible(struct finder *f, uint64_t number, uint64_t end, uint64_t most)
{
    for (uint64_t i = 0; i < most && number < end; i++, number++)
        if (is_possible(f, number))
            return number;
    return NOWHERE;
}

static uint64_t last_possible(struct finder *f, uint64_t number, uint64_t end, uint64_t most)
{
    for (uint64_t i = 0; i < most && number > end; i++, number--)
        if (is_possible(f, number))
            return number;
    return NOWHERE;
}

/* ---- the scan ---------------------------------------------------------------------------------
 */

/* Doubles the value, but no farther than a part of the range. */
static uint64_t scan_step(const struct finder *f, uint64_t number)
{
    const int64_t value = value_of(f, number);
    const uint64_t own = value > 0 ? (uint64_t)value / (uint64_t)f->search->grain : 1;
    const uint64_t most = f->count / STRETCH;
    const uint64_t step = own < most ? own : most;

    return step ? step : 1;
}

/* Where few values are possible, one that is said to be so is, or half of it, or twice: the first
 * of them in a piece. */
static uint64_t hinted(struct finder *f, uint64_t number, uint64_t end)
{
    const int64_t low = value_of(f, number), high = value_of(f, end - 1);
    int64_t value = f->search->hint;

    while (value > high && value % 2 == 0)
        value /= 2;
    if (value <= 0 || value > high)
        return NOWHERE;
    if (value < low)
        value *= (low - 1) / value + 1;
    if (value > high || value % f->search->grain != 0)
        return NOWHERE;
    return is_possible(f, number_of(f, value)) ? number_of(f, value) : NOWHERE;
}

/* What fails by far, and takes more with each step, is not tried with larger values still. */
static bool is_hopeless(const struct mpl_judged *last, const struct mpl_judged *now)
{
    return last && last->side == MPL_SIDE_FAILS && last->is_far && now->side == MPL_SIDE_FAILS &&
           now->is_far && (now->bytes > last->bytes || now->bytes == UINT64_MAX);
}

static void scan(struct finder *f)
{
    struct mpl_judged last = {0};
    bool has_last = false;
    uint64_t number = 0;

    while (number < f->count && !f->status && !f->b->is_spent) {
        const uint64_t step = scan_step(f, number);
        const bool is_last = f->count - number <= step;
        const uint64_t end = is_last ? f->count : number + step;
        const uint64_t near = next_possible(f, number, end, NEAR);
        const uint64_t at = near == NOWHERE && end - number > NEAR ? hinted(f, number, end) : near;
        const struct mpl_judged *now = at == NOWHERE ? NULL : judge(f, at);

        if (now && at < f->count - 1 &&
            (now->side == MPL_SIDE_END || is_hopeless(has_last ? &last : NULL, now))) {
            f->b->is_cut = true;
            return;
        }
        if (now) {
            last = *now;
            has_last = true;
        }
        number = end;
    }
    number = last_possible(f, f->count - 1, 0, NEAR);
    if (number != NOWHERE)
        judge(f, number);
}

/* ---- the boundary -----------------------------------------------------------------------------
 */

/* Some possible number strictly between two, near their middle; NOWHERE: none was found. */
static uint64_t between(struct finder *f, uint64_t low, uint64_t high)
{
    const uint64_t middle = low + (high - low) / 2;
    uint64_t found;

    if (high - low < 2)
        return NOWHERE;
    found = next_possible(f, middle, high, NEAR);
    if (found == NOWHERE)
        found = last_possible(f, middle - 1, low, NEAR);
    if (found != NOWHERE || high - low <= 2 * NEAR)
        return found;
    if (high - low <= NARROW) {
        found = next_possible(f, middle + NEAR, high, NARROW);
        return found != NOWHERE || middle - low <= NEAR
                   ? found
                   : last_possible(f, middle - 1 - NEAR, low, NARROW);
    }
    found = hinted(f, middle, high);
    if (found == NOWHERE && middle > low + 1)
        found = hinted(f, low + 1, middle);
    if (found == NOWHERE && high - middle > NEAR)
        found = next_possible(f, middle + NEAR, high, WALK);
    if (found == NOWHERE && middle - low > NEAR)
        found = last_possible(f, middle - 1 - NEAR, low, WALK);
    if (found == NOWHERE)
        f->b->is_spent = true; /* something may lie between them unseen */
    return found;
}

/* Halves the gap between a number that fits and one that does not, until nothing possible lies
 * between them. */
static void close_gap(struct finder *f, uint64_t *fitting, uint64_t *failing)
{
    while (!f->status && !f->b->is_spent) {
        const uint64_t low = *fitting < *failing ? *fitting : *failing;
        const uint64_t high = *fitting < *failing ? *failing : *fitting;
        const uint64_t middle = between(f, low, high);
        const struct mpl_judged *judged = middle == NOWHERE ? NULL : judge(f, middle);

        if (middle == NOWHERE)
            return;
        if (judged && judged->side == MPL_SIDE_FITS)
            *fitting = middle;
        else if (judged)
            *failing = middle;
    }
}

/* The outermost value that fits, and the next judged one outside of it. */
static bool outermost(const struct finder *f, size_t *fitting, size_t *outside)
{
    const struct mpl_boundary *b = f->b;

    for (size_t i = 0; i < b->count; i++) {
        const size_t place = f->search->wants_least ? i : b->count - 1 - i;

        if (b->judged[place].side == MPL_SIDE_FITS) {
            *fitting = place;
            *outside = i == 0 ? SIZE_MAX : f->search->wants_least ? place - 1 : place + 1;
            return true;
        }
    }
    return false;
}

/* Judges values away from one by steps that double, before a limit; true when one of them is on the
 * side asked for. */
static bool probe(struct finder *f, uint64_t from, uint64_t limit, enum mpl_side side)
{
    const bool is_up = limit > from;
    const uint64_t room = is_up ? limit - from : from - limit;

    for (uint64_t step = 1; step < room && !f->status && !f->b->is_spent; step *= 2) {
        const uint64_t number = is_up ? from + step : from - step;
        const struct mpl_judged *judged = is_possible(f, number) ? judge(f, number) : NULL;

        if (judged && judged->side == side)
            return true;
    }
    return false;
}

/* The next judged value on the inner side of one, or that one itself. */
static uint64_t inner_limit(const struct finder *f, size_t place, bool is_up)
{
    const struct mpl_boundary *b = f->b;

    if (is_up && place > 0)
        place--;
    else if (!is_up && place + 1 < b->count)
        place++;
    return number_of(f, b->judged[place].value);
}

static void find_boundary(struct finder *f)
{
    const bool is_up = !f->search->wants_least;
    size_t place, outside;
    uint64_t fitting, failing, inner, outer;

    while (!f->status && !f->b->is_spent && outermost(f, &place, &outside)) {
        fitting = number_of(f, f->b->judged[place].value);
        if (outside == SIZE_MAX && (fitting == (is_up ? f->count - 1 : 0)))
            return; /* the range ends there */
        if (outside != SIZE_MAX && f->b->judged[outside].side == MPL_SIDE_END)
            return;
        if (outside != SIZE_MAX)
            failing = number_of(f, f->b->judged[outside].value);
        else if (is_up)
            failing = f->count;
        else
            failing = 0; /* which is not possible, or it would have been judged */
        inner = inner_limit(f, place, is_up);
        outer = failing;
        close_gap(f, &fitting, &failing);
        if (failing < f->count && outer != failing && probe(f, failing, outer, MPL_SIDE_FITS))
            continue;
        if (fitting != inner)
            probe(f, fitting, inner, MPL_SIDE_FAILS);
        return;
    }
}

/* ---- what the values say ----------------------------------------------------------------------
 */

/* Three values of which the middle one differs from the others: more than one boundary. */
static void find_hole(struct mpl_boundary *b)
{
    size_t change = 0, changes = 0;

    for (size_t i = 1; i < b->count && b->judged[i].side != MPL_SIDE_END; i++) {
        if (b->judged[i].side == b->judged[i - 1].side)
            continue;
        if (++changes == 2) {
            b->has_hole = true;
            b->hole[0] = b->judged[change - 1].value;
            b->hole[1] = b->judged[i - 1].value;
            b->hole[2] = b->judged[i].value;
            return;
        }
        change = i;
    }
}

static bool is_more(uint64_t bytes, uint64_t than)
{
    return bytes > than && bytes - than > than / WIGGLE;
}

/* Rises or falls, or turns: told from the last extreme on, so that many small changes count as
 * their sum. */
static void find_trend(struct mpl_boundary *b)
{
    const struct mpl_judged *judged = b->judged;
    size_t start = 0, extreme = 0;

    for (size_t i = 1; i < b->count && judged[i].side != MPL_SIDE_END; i++) {
        const bool is_above = is_more(judged[i].bytes, judged[extreme].bytes);
        const bool is_below = is_more(judged[extreme].bytes, judged[i].bytes);

        if (judged[i].bytes == UINT64_MAX)
            return;
        if (b->trend == MPL_TREND_LEVEL && (is_above || is_below)) {
            b->trend = is_above ? MPL_TREND_RISES : MPL_TREND_FALLS;
            extreme = i;
        } else if ((b->trend == MPL_TREND_RISES && is_below) ||
                   (b->trend == MPL_TREND_FALLS && is_above)) {
            b->trend = MPL_TREND_TURNS;
            b->turn[0] = judged[start].value;
            b->turn[1] = judged[extreme].value;
            b->turn[2] = judged[i].value;
            return;
        } else if ((b->trend == MPL_TREND_RISES && judged[i].bytes >= judged[extreme].bytes) ||
                   (b->trend == MPL_TREND_FALLS && judged[i].bytes <= judged[extreme].bytes)) {
            extreme = i;
        }
    }
}

/* The first multiple of the grain in the range; false: none. */
static bool first_multiple(const struct mpl_boundary_search *s, int64_t *first)
{
    const int64_t rest = s->from % s->grain;

    *first = s->from - rest;
    if (rest > 0 && __builtin_add_overflow(*first, s->grain, first))
        return false;
    return *first <= s->to;
}

enum memplan_status mpl_boundary_find(const struct mpl_boundary_search *search,
                                      struct mpl_boundary *boundary, struct memplan_error *err)
{
    struct finder f = {.search = search, .b = boundary, .err = err};
    size_t outside = SIZE_MAX;

    memset(boundary, 0, sizeof(*boundary));
    if (!first_multiple(search, &f.first))
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "no multiple of %lld lies in %lld .. %lld",
                        (long long)search->grain, (long long)search->from, (long long)search->to);
    f.count = ((uint64_t)search->to - (uint64_t)f.first) / (uint64_t)search->grain + 1;
    scan(&f);
    find_boundary(&f);
    if (f.status)
        return f.status;
    boundary->is_found = outermost(&f, &boundary->found, &outside);
    boundary->is_proven = boundary->is_found && outside != SIZE_MAX && !boundary->is_spent &&
                          boundary->judged[outside].side == MPL_SIDE_FAILS;
    boundary->beyond = outside == SIZE_MAX ? 0 : outside;
    find_hole(boundary);
    find_trend(boundary);
    return MEMPLAN_OK;
}
