/* SPDX-License-Identifier: MIT */
/* Names to numbers: open hashing over at least twice the names. */
#include "ingest/slots.h"

#include <stdlib.h>

#define FIRST_ROOM 1024

/* Addresses differ in their middle bits, ids in the low ones: a step of splitmix64 mixes both. */
static size_t place_of(int64_t name, size_t room)
{
    uint64_t hash = (uint64_t)name * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= hash >> 32;
    return (size_t)hash & (room - 1);
}

static struct mpl_slot *seek(struct mpl_slot *table, size_t room, int64_t name)
{
    size_t at = place_of(name, room);

    while (table[at].number_plus_1 && table[at].name != name)
        at = (at + 1) & (room - 1);
    return &table[at];
}

static bool grow(struct mpl_slots *slots)
{
    const size_t room = slots->room ? 2 * slots->room : FIRST_ROOM;
    struct mpl_slot *table = calloc(room, sizeof(*table));

    if (!table)
        return false;
    for (size_t i = 0; i < slots->room; i++)
        if (slots->table[i].number_plus_1)
            *seek(table, room, slots->table[i].name) = slots->table[i];
    free(slots->table);
    slots->table = table;
    slots->room = room;
    return true;
}

uint32_t mpl_slots_find(const struct mpl_slots *slots, int64_t name)
{
    return slots->room ? seek(slots->table, slots->room, name)->number_plus_1 - 1 : MPL_NO_NUMBER;
}

uint32_t mpl_slots_add(struct mpl_slots *slots, int64_t name)
{
    struct mpl_slot *slot;

    if (slots->count >= slots->room / 2 && !grow(slots))
        return MPL_NO_NUMBER;
    slot = seek(slots->table, slots->room, name);
    if (!slot->number_plus_1)
        *slot = (struct mpl_slot){name, ++slots->count};
    return slot->number_plus_1 - 1;
}

void mpl_slots_free(struct mpl_slots *slots)
{
    free(slots->table);
    *slots = (struct mpl_slots){0};
}
