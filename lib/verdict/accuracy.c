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
