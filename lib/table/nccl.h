/* SPDX-License-Identifier: MIT */
/* TABLE: device memory that NCCL takes for one communicator, by link, nodes and release. */
#ifndef MPL_TABLE_NCCL_H
#define MPL_TABLE_NCCL_H

#include <stdbool.h>

#include "table/device.h"

/** A communicator: its ranks and how they lie. */
struct mpl_nccl_group {
    const char *name; /* what it is for; static */
    const char *why;  /* who makes it, with its source; static */
    uint32_t ranks;
    uint32_t nodes;    /* that its ranks lie on, evenly */
    bool is_uncertain; /* exists, and may never be talked over: then it takes nothing */
};

/** What a communicator depends on besides its ranks. */
struct mpl_nccl_setup {
    enum mpl_link link;          /* between the cards of one node */
    uint32_t compute_capability; /* ten times CUDA's; 0: not known */
    uint16_t major, minor;       /* NCCL's release; 0: a new one */
    uint32_t channels;           /* of each communicator; 0: from the table */
    uint64_t buffer_bytes;       /* NCCL_BUFFSIZE; 0: NCCL's own */
};

/**
 * Device memory of one communicator on one rank, outside PyTorch's allocator.
 *
 * shape   channels x (structures + connections of a ring, a tree) + NVLS's buffers; low is a ring
 *         over the fewest channels, expected a ring and a tree over the usual ones that share their
 *         peers, high a ring and a tree with peers of its own and NVLS over the most; nothing for
 *         one rank
 * unit    bytes on one rank
 * source  in the result
 */
struct mpl_range mpl_nccl_group_bytes(const struct mpl_nccl_group *group,
                                      const struct mpl_nccl_setup *setup);

#endif
