/* SPDX-License-Identifier: MIT */
/* Stage "spec": a bound plan in the one form that all its spellings have, for its identity. */
#ifndef MPL_INGEST_CANONICAL_H
#define MPL_INGEST_CANONICAL_H

#include <jansson.h>

#include "spec/fields.h"
#include "spec/spec.h"

/** What of a plan is written. */
enum mpl_canonical_part {
    MPL_CANONICAL_RUN = 0, /* what is run: model, training, parallelism, software, framework */
    MPL_CANONICAL_SETUP,   /* what it runs on: device, software */
    MPL_CANONICAL_KIN,     /* both, without demands and without the card's name and memory */
};

/** A plan that says nothing: what the fields of a family hold when they are absent. */
struct mpl_canonical {
    struct mpl_plan defaults;
    enum mpl_family family;
};

/** The defaults of a family. fallbacks: the table's, parsed; NULL where there are none. */
void mpl_canonical_begin(struct mpl_canonical *canonical, enum mpl_family family,
                         json_t *const *fallbacks);

/**
 * One part of a plan as an object of paths and values: typed values in one spelling (bytes as an
 * integer, words by their first name, lists of names sorted), without what equals the table's
 * default, so that a field that is spelled out, left out, or new in the table makes no difference.
 * Releases are always written: their defaults move on. New; NULL when out of memory.
 */
json_t *mpl_canonical_part(const struct mpl_canonical *canonical, const struct mpl_plan *plan,
                           enum mpl_canonical_part part);

/** Memory of the card that a run can have: its total less what other processes hold; 0: no card. */
uint64_t mpl_canonical_card(const struct mpl_plan *plan);

#endif
