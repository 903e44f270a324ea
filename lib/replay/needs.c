/* SPDX-License-Identifier: MIT */
/* The band of budgets in which survival is decided: survival is not monotone in the budget, since a
 * flush-and-retry changes what the allocator keeps. */
#include "base/bytes.h"
#include "replay/replay.h"

#define CARD_GRAIN (2 * MPL_MIB) /* a card gives memory in pages of this size */

struct search {
    struct mpl_replay *replay;
    const struct mpl_timeline *timeline;
    struct mpl_needs *needs;
    uint64_t grid_bytes;
    struct memplan_error *err;
};

static enum memplan_status try_budget(const struct search *s, uint64_t budget_bytes,
                                      struct mpl_replay_result *result)
{
    s->needs->replay_count++;
    return mpl_replay_run(s->replay, s->timeline, budget_bytes, result, s->err);
}

/* The first point of the grid (from, from + grid, ...) that is at least budget_bytes. */
static uint64_t grid_point(const struct search *s, uint64_t from, uint64_t budget_bytes)
{
    return mpl_add(from, mpl_round_up(budget_bytes - from, s->grid_bytes));
}

/* Upward over the grid to the first budget that survives. One run decides all points of its piece.
 * The search ends because the budget of the unlimited run survives. */
static enum memplan_status find_low(const struct search *s, uint64_t bottom, uint64_t top)
{
    struct mpl_replay_result result;
    uint64_t budget_bytes = bottom;
    enum memplan_status st;

    for (;;) {
        if ((st = try_budget(s, budget_bytes, &result)))
            return st;
        if (result.survived)
            break;
        budget_bytes = grid_point(s, bottom, result.same_below);
        if (budget_bytes > top)
            budget_bytes = top;
    }
    s->needs->low_bytes = result.same_from > bottom ? result.same_from : bottom;
    return MEMPLAN_OK;
}

/* Downward over the grid to the first budget that fails: what lies above its piece survives. */
static enum memplan_status find_high(const struct search *s, uint64_t bottom, uint64_t top)
{
    const uint64_t low = s->needs->low_bytes;
    uint64_t survived_from = top;
    struct mpl_replay_result result;
    enum memplan_status st;

    while (survived_from > low) {
        const uint64_t steps = (survived_from - 1 - bottom) / s->grid_bytes;
        const uint64_t budget_bytes = bottom + steps * s->grid_bytes;

        if (budget_bytes < low)
            break;
        if ((st = try_budget(s, budget_bytes, &result)))
            return st;
        if (!result.survived) {
            s->needs->high_bytes = result.same_below < top ? result.same_below : top;
            return MEMPLAN_OK;
        }
        survived_from = result.same_from < budget_bytes ? result.same_from : budget_bytes;
    }
    s->needs->high_bytes = low;
    return MEMPLAN_OK;
}

enum memplan_status mpl_replay_needs(struct mpl_replay *replay, const struct mpl_timeline *timeline,
                                     const struct mpl_replay_result *unlimited,
                                     uint64_t live_peak_bytes, uint64_t grid_bytes,
                                     struct mpl_needs *needs_out, struct memplan_error *err)
{
    struct search s = {replay, timeline, needs_out, grid_bytes, err};
    uint64_t top = unlimited->same_from;
    uint64_t bottom = mpl_round_up(live_peak_bytes, CARD_GRAIN);
    enum memplan_status st;

    *needs_out = (struct mpl_needs){MPL_NO_BUDGET, MPL_NO_BUDGET, 0};
    if (!unlimited->survived)
        return MEMPLAN_OK;
    if (bottom > top)
        bottom = top;
    if ((st = find_low(&s, bottom, top)))
        return st;
    return find_high(&s, bottom, top);
}
