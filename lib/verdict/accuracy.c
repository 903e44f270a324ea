/* SPDX-License-Identifier: MIT */
/* TABLE: how far memplan's figures have been from truth, by kind of run. */
#include "verdict/accuracy.h"

#include <math.h>
#include <string.h>

/*
 * Where the figures come from (docs/accuracy.md). floor: for drafter steps, the root mean square of
 * memplan's deviation from the ends of the recorded bands of needs, 1.2 %; for the rest, the spread
 * between published readings of real cards and the same runs on a simulated one, which is the
 * hardware's and the libraries': six of eight lie within 0.001 %, two sharded ones at 0.7 and
 * 0.9 %. unread and growth are planning values: without a reading the software may not be what the
 * plan says, and each doubling beyond the farthest reading is one more chance to be wrong.
 */
static const struct {
    const char *model_type; /* NULL: any */
    bool is_sharded;
    struct mpl_accuracy accuracy;
} accuracy_table[] = {
    {"eagle3", true, {.floor = 0.012, .unread = 0.02, .growth = 0.005, .source = "drafter steps"}},
    {"eagle3", false, {.floor = 0.012, .unread = 0.02, .growth = 0.005, .source = "drafter steps"}},
    {"mtp", true, {.floor = 0.012, .unread = 0.02, .growth = 0.005, .source = "drafter steps"}},
    {"dflash", true, {.floor = 0.012, .unread = 0.02, .growth = 0.005, .source = "drafter steps"}},
    {NULL, true, {.floor = 0.01, .unread = 0.015, .growth = 0.005, .source = "FSDP2 steps"}},
    {NULL, false, {.floor = 0.006, .unread = 0.01, .growth = 0.003, .source = "one-card steps"}},
};

const struct mpl_accuracy *mpl_accuracy_of(const struct mpl_plan *plan)
{
    const bool is_sharded = plan->parallelism.strategy != MPL_STRATEGY_NONE;
    const size_t count = sizeof(accuracy_table) / sizeof(accuracy_table[0]);

    for (size_t i = 0; i < count; i++)
        if (accuracy_table[i].is_sharded == is_sharded &&
            (!accuracy_table[i].model_type ||
             !strcmp(accuracy_table[i].model_type, plan->model.model_type)))
            return &accuracy_table[i].accuracy;
    return &accuracy_table[count - 1].accuracy;
}

double mpl_accuracy_error(const struct mpl_accuracy *accuracy, int64_t tokens,
                          int64_t farthest_tokens)
{
    double doublings;

    if (farthest_tokens <= 0)
        return accuracy->unread;
    if (tokens <= farthest_tokens)
        return accuracy->floor;
    doublings = log2((double)tokens / (double)farthest_tokens);
    return hypot(accuracy->floor, accuracy->growth * doublings);
}

/*
 * Errors of measured points beyond the span of what their plans leave open, as tests/accuracy/score
 * prints them (docs/accuracy.md, intervals); the score fails when a row of other steps is not what
 * the points give. Drafter: the recorded runs without a limit. needs: no counter shows it; of plans
 * that leave releases open, or name others than ran, it is what any figure had above the
 * prediction, since what was not foreseen there decides too; else what mpl_accuracy has is all
 * there is. device of plans that say their releases: no reading is known, taken as reserved, of
 * which it is the larger part.
 */
static const struct mpl_spread spread_table[MPL_FIGURE_COUNT][MPL_OPEN_COUNT] = {
    [MPL_FIGURE_ALLOCATED] = {{0.0102, 48, "48 recorded runs of drafters"},
                              {0.0009, 31, "31 public readings of allocated"},
                              {0.1703, 9, "9 public readings of allocated"}},
    [MPL_FIGURE_RESERVED] = {{0.0282, 48, "48 recorded runs of drafters"},
                             {0.0751, 9, "9 public readings of reserved"},
                             {0.1077, 7, "7 public readings of reserved"}},
    [MPL_FIGURE_NEEDS] = {{0, 0, "bands of needs of recorded runs"},
                          {0, 0, "the same step on a card and on a simulated one"},
                          {0.0601, 34, "34 public readings, what they had above"}},
    [MPL_FIGURE_DEVICE] = {{0.0282, 48, "48 recorded runs of drafters, reserved"},
                           {0.0751, 9, "9 public readings of reserved"},
                           {0.0895, 9, "9 public readings of nvidia-smi"}},
};

const struct mpl_spread *mpl_accuracy_spread(enum mpl_figure figure, enum mpl_openness openness)
{
    return &spread_table[figure][openness];
}

struct mpl_accuracy mpl_accuracy_judging(const struct mpl_plan *plan, enum mpl_openness openness)
{
    struct mpl_accuracy accuracy = *mpl_accuracy_of(plan);

    accuracy.unread =
        hypot(accuracy.unread, mpl_accuracy_spread(MPL_FIGURE_NEEDS, openness)->deviation);
    return accuracy;
}

const char *mpl_openness_name(enum mpl_openness openness)
{
    static const char *const names[MPL_OPEN_COUNT] = {"drafter", "releases written",
                                                      "releases or code open"};

    return names[openness];
}

/* Expansion of Student's quantile around the normal one (Abramowitz and Stegun 26.7.5). */
double mpl_accuracy_quantile(uint32_t points)
{
    const double z = 1.959964, z2 = z * z, n = points;

    if (!points)
        return z;
    return z + z * (z2 + 1) / (4 * n) + z * ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
           z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n);
}
