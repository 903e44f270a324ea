/* SPDX-License-Identifier: MIT */
/* What lives at the peak of a drafter's step, under the names that the traced cases use. */
#ifndef EAGLE3_CATEGORY_H
#define EAGLE3_CATEGORY_H

#include "cases.h"

#define EAGLE3_CATEGORIES 16

struct eagle3_composition {
    uint64_t total;
    const char *names[EAGLE3_CATEGORIES];
    uint64_t bytes[EAGLE3_CATEGORIES];
    int count;
};

/** Highest live sum after the model is loaded; fills what it is made of. */
uint64_t eagle3_live_peak(const struct case_run *run, struct eagle3_composition *composition);

uint64_t eagle3_bytes_of(const struct eagle3_composition *composition, const char *name);

#endif
