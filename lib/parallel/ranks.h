/* SPDX-License-Identifier: MIT */
/* Which ranks are alike: those whose parts of the model have the same sizes in the same order. */
#ifndef MPL_PARALLEL_RANKS_H
#define MPL_PARALLEL_RANKS_H

#include "optim/optim.h"

/** Ranks that differ one by one are looked at up to this many shards. */
#define MPL_MOST_SHARDS 4096

/** Ranks that ask the same of the allocator. */
struct mpl_rank_class {
    int64_t first; /* the lowest of them */
    int64_t count;
    uint64_t bytes;  /* of what its optimizer sees, each part rounded up to 512: to order by */
    char ranks[120]; /* "0-6, 8" */
};

struct mpl_rank_classes {
    uint32_t count;
    bool is_partial;           /* more shards than MPL_MOST_SHARDS: only the first class is known */
    struct mpl_rank_class *of; /* arena memory; in the order of first */
};

/** Fills *classes for a network that is wrapped, before it has memory; all: over its trained
 * parameters. */
enum memplan_status mpl_ranks_classify(const struct mpl_network *network,
                                       const struct mpl_optim *all, struct mpl_arena *arena,
                                       struct mpl_rank_classes *classes, struct memplan_error *err);

/* ---- for the strategies -----------------------------------------------------------------------
 */

/** What each shard holds, told part by part in order. */
struct mpl_rank_signs {
    uint64_t *hash, *bytes; /* of each shard */
    uint64_t shards;
};

/** A shard holds a part of so many bytes; more tells what else of it matters. */
void mpl_rank_sign(struct mpl_rank_signs *signs, uint64_t shard, uint64_t bytes, uint64_t more);

/** The same for what lies from start on in a row that is cut every step elements: each shard holds
 * what overlaps. */
void mpl_rank_sign_row(struct mpl_rank_signs *signs, uint64_t start, uint64_t numel, uint64_t step,
                       enum mpl_dtype dtype);

#endif
