/* SPDX-License-Identifier: MIT */
/* The communicators that a strategy makes, and what NCCL takes for them on one card. */
#ifndef MPL_VERDICT_COMMUNICATORS_H
#define MPL_VERDICT_COMMUNICATORS_H

#include "spec/plan.h"
#include "table/nccl.h"

#define MPL_MAX_COMMUNICATORS 4

/** One kind of communicator. */
struct mpl_communicator {
    struct mpl_nccl_group group;
    uint32_t count;        /* alike ones */
    struct mpl_range each; /* of one of them */
};

struct mpl_communicators {
    uint32_t count; /* kinds */
    struct mpl_communicator of[MPL_MAX_COMMUNICATORS];
    struct mpl_range sum; /* over all */
};

/** Lists them. row: the card's; NULL: the link and the compute capability are the plan's. */
void mpl_communicators_list(const struct mpl_plan *plan, const struct mpl_device_row *row,
                            struct mpl_communicators *list);

#endif
