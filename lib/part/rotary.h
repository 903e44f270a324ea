/* SPDX-License-Identifier: MIT */
/* How families turn queries and keys by their positions: apply_rotary_pos_emb and what surrounds
 * it.
 */
#ifndef MPL_PART_ROTARY_H
#define MPL_PART_ROTARY_H

#include "tape/tape.h"

enum mpl_rotary_kind {
    MPL_ROTARY_HALVES = 0,      /* llama: all elements, the halves of a head are a pair */
    MPL_ROTARY_CAST,            /* olmo: as llama with float32 tables, results cast back */
    MPL_ROTARY_PAIRS,           /* cohere: neighbours are a pair, in float32, cast back */
    MPL_ROTARY_PARTIAL,         /* phi3: the first elements, joined with the rest at once */
    MPL_ROTARY_PARTIAL_RETURN,  /* nemotron: joined when both are turned */
    MPL_ROTARY_PARTIAL_OUTSIDE, /* stablelm: the attention module keeps the parts by name */
    MPL_ROTARY_PARTIAL_PAIRS,   /* glm4: the first elements, neighbours are a pair */
};

struct mpl_rotary_call {
    enum mpl_rotary_kind kind;
    struct mpl_tensor *cos, *sin; /* [1, 1, s, d that turn] */
};

/** Names that the module keeps until it returns; NULL entries are fine. */
struct mpl_rotary_parts {
    struct mpl_tensor *part[4];
};

/** Rebinds *q [b, heads, s, d] and *k [b, kv heads, s, d]. */
void mpl_rotary_apply(struct mpl_tape *tape, const struct mpl_rotary_call *call,
                      struct mpl_tensor **q, struct mpl_tensor **k, struct mpl_rotary_parts *kept);

#endif
