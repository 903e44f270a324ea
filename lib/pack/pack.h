/* SPDX-License-Identifier: MIT */
/*
 * How training code makes packs out of samples, and batches out of packs: one rule a file. Only
 * lengths go in; the rules are deterministic, as the code that they were read from is.
 */
#ifndef MPL_PACK_PACK_H
#define MPL_PACK_PACK_H

#include <memplan.h>

#include <stdbool.h>

#include "base/fail.h"
#include "base/vec.h"

#define MPL_PACK_LONGEST   (UINT32_C(1) << 24) /* tokens of one pack */
#define MPL_PACK_SAMPLE    (UINT32_C(1) << 30) /* tokens of one sample */
#define MPL_PACK_SAMPLES   (UINT32_C(1) << 28)
#define MPL_PACK_RANKS     (UINT32_C(1) << 20)
#define MPL_PACK_MAP_BATCH 1000 /* datasets.Dataset.map, batch_size */

/** What one row of input_ids is made of. */
struct mpl_pack {
    uint32_t tokens, samples; /* samples: pieces of samples, too */
};

/** One forward's input: rows by length, and how many of its tokens are padding. */
struct mpl_pack_batch {
    uint32_t rows, length;
    uint64_t padding;
};

/** How packs become batches, and batches steps. */
enum mpl_pack_batching {
    MPL_PACK_FIXED = 0, /* rows of the full length, by the rank that made them */
    MPL_PACK_FLAT,      /* the packs of a batch one after the other, in one row */
    MPL_PACK_PADDED,    /* rows padded to the longest one */
};

/** One packing under way, and its result. */
struct mpl_packing {
    struct memplan_pack_options options;
    const struct mpl_pack_rule *rule;
    uint32_t *lengths; /* own; a rule may change them */
    size_t count;
    uint64_t batches_per_rank; /* of MPL_PACK_FIXED */
    MPL_VEC(struct mpl_pack) packs;
    MPL_VEC(struct mpl_pack_batch) batches;
    MPL_VEC(struct memplan_pack_length) lengths_of_batches; /* ascending */
    struct memplan_pack_summary summary;
    struct memplan_error *err;
};

struct mpl_pack_rule {
    const char *name, *help, *source;
    enum memplan_status (*pack)(struct mpl_packing *packing);
    enum mpl_pack_batching batching;
};

/** The rule of that name, or NULL; the i-th, or NULL. (rules.c) */
const struct mpl_pack_rule *mpl_pack_rule_find(const char *name);
const struct mpl_pack_rule *mpl_pack_rule_at(size_t i);

/** Fills a zero-initialized packing; free it whatever comes back. (pack.c) */
enum memplan_status mpl_pack_run(struct mpl_packing *packing, const uint32_t *lengths, size_t count,
                                 const struct memplan_pack_options *options,
                                 struct memplan_error *err);
void mpl_pack_free(struct mpl_packing *packing);

/** For rules: one more pack; what is wrong when there is no memory for it. */
enum memplan_status mpl_pack_add(struct mpl_packing *packing, uint64_t tokens, uint64_t samples);
enum memplan_status mpl_pack_nomem(struct mpl_packing *packing);
enum memplan_status mpl_pack_too_many(struct mpl_packing *packing);

/** For rules: cuts a sample to the sequence length, and counts what is lost. */
void mpl_pack_truncate(struct mpl_packing *packing, uint32_t *length);

/** Packs to batches, batches to steps. (batches.c) */
enum memplan_status mpl_pack_make_batches(struct mpl_packing *packing);

/* The rules. */
enum memplan_status mpl_pack_speculators(struct mpl_packing *packing);
enum memplan_status mpl_pack_trl_bfd(struct mpl_packing *packing);
enum memplan_status mpl_pack_trl_bfd_split(struct mpl_packing *packing);
enum memplan_status mpl_pack_trl_wrapped(struct mpl_packing *packing);
enum memplan_status mpl_pack_trl_constant(struct mpl_packing *packing);
enum memplan_status mpl_pack_torchtitan(struct mpl_packing *packing);
enum memplan_status mpl_pack_torchtitan_chat(struct mpl_packing *packing);
enum memplan_status mpl_pack_none(struct mpl_packing *packing);

#endif
