/* SPDX-License-Identifier: MIT */
/* What the card can give to PyTorch's allocator: total minus context, NCCL and other processes. */
#ifndef MPL_VERDICT_CAPACITY_H
#define MPL_VERDICT_CAPACITY_H

#include <memplan.h>

#include "spec/plan.h"
#include "table/device.h"
#include "verdict/communicators.h"

enum mpl_capacity_state {
    MPL_CAPACITY_NO_DEVICE = 0, /* the plan names no card and gives no total */
    MPL_CAPACITY_NOT_KNOWN,     /* a card, but a part of the sum has no figure */
    MPL_CAPACITY_KNOWN,
};

struct mpl_capacity {
    enum mpl_capacity_state state;
    const struct mpl_device_row *row; /* NULL: the plan gives the figures itself */
    char remark[256];                 /* how the name was understood; may be empty */
    uint64_t total_bytes, other_bytes, reserve_bytes;
    struct mpl_range context, nccl; /* low, expected, high; equal when the plan gives them */
    struct mpl_range other_contexts;
    char given_source[512]; /* of what the plan gives; may be empty */
    struct mpl_communicators communicators;
    bool total_is_given, context_is_given, nccl_is_given;
    uint64_t usable_low_bytes, usable_bytes, usable_high_bytes;
    double spread_bytes; /* standard deviation of usable_bytes */
};

/** Fills *capacity. Fails with MEMPLAN_ERR_VALUE when the card's name is not known. */
enum memplan_status mpl_capacity_find(const struct mpl_plan *plan, struct mpl_capacity *capacity,
                                      struct memplan_error *err);

/** What the card shows beside PyTorch's allocator: contexts, NCCL, other processes, as expected. */
uint64_t mpl_capacity_taken(const struct mpl_capacity *capacity);

/** Fills in what the kernels depend on and the plan leaves to the card: compute capability and
 * multiprocessors; and the total that the table has. */
void mpl_capacity_complete_plan(const struct mpl_capacity *capacity, struct mpl_plan *plan);

#endif
