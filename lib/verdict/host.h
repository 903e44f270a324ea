/* SPDX-License-Identifier: MIT */
/*
 * Memory of one node's host, beside the card's: never part of a verdict. Line by line, each with
 * its source; what processes, Python and libraries take themselves is not in it.
 */
#ifndef MPL_VERDICT_HOST_H
#define MPL_VERDICT_HOST_H

#include "estimate/estimate.h"
#include "spec/plan.h"

#define MPL_MAX_HOST_LINES 16

/** When a line's memory is there, bits; 0: page cache, which the kernel takes back. */
enum {
    MPL_HOST_LOADING = 1 << 0,
    MPL_HOST_TRAINING = 1 << 1,
    MPL_HOST_SAVING = 1 << 2,
    MPL_HOST_NVME = 1 << 3
};

struct mpl_host_line {
    const char *name, *source; /* static */
    uint64_t bytes;            /* of all ranks of the node */
    uint32_t when;
};

struct mpl_host_sum {
    uint32_t ranks; /* of the node that holds most */
    struct mpl_host_line lines[MPL_MAX_HOST_LINES];
    uint32_t count;
    uint64_t loading_bytes, training_bytes, saving_bytes, peak_bytes;
    bool is_asked_for; /* the plan says something of its host */
    bool exceeds;      /* more than the plan's host.memory_bytes */
};

/** Adds up what the plan's fields and the estimate say. */
void mpl_host_add_up(const struct mpl_plan *plan, const struct mpl_estimate *estimate,
                     struct mpl_host_sum *sum);

#endif
