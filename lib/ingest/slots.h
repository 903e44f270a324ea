/* SPDX-License-Identifier: MIT */
/* Names that a recording gives to what it holds, numbered in the order in which they come. */
#ifndef MPL_INGEST_SLOTS_H
#define MPL_INGEST_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPL_NO_NUMBER UINT32_MAX

/** Zero-initialized is empty. */
struct mpl_slots {
    struct mpl_slot {
        int64_t name;
        uint32_t number_plus_1; /* 0: the place is empty */
    } * table;
    size_t room;    /* places, a power of two */
    uint32_t count; /* names */
};

/** A name's number, or MPL_NO_NUMBER. */
uint32_t mpl_slots_find(const struct mpl_slots *slots, int64_t name);

/** A name's number, a new one when it has none; MPL_NO_NUMBER when out of memory. */
uint32_t mpl_slots_add(struct mpl_slots *slots, int64_t name);

void mpl_slots_free(struct mpl_slots *slots);

#endif
