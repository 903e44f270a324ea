/* SPDX-License-Identifier: MIT */
/* Where plain segments lie, for a map of the card: cudaMalloc gives the lowest gap that fits. */
#include <string.h>

#include "replay/allocator.h"

bool mpl_allocator_place(struct mpl_allocator *a, uint32_t block, uint64_t bytes)
{
    uint64_t address = 0;
    size_t i = 0;

    if (mpl_vec_reserve(&a->places)) {
        a->is_out_of_memory = true;
        return false;
    }
    for (; i < a->places.len && a->places.data[i].address - address < bytes; i++)
        address = a->places.data[i].address + a->places.data[i].bytes;
    memmove(&a->places.data[i + 1], &a->places.data[i],
            (a->places.len - i) * sizeof(a->places.data[0]));
    a->places.data[i] = (struct mpl_place){address, bytes, block};
    a->places.len++;
    return true;
}

void mpl_allocator_unplace(struct mpl_allocator *a, uint32_t block)
{
    size_t i = 0;

    while (i < a->places.len && a->places.data[i].block != block)
        i++;
    if (i == a->places.len)
        return;
    a->places.len--;
    memmove(&a->places.data[i], &a->places.data[i + 1],
            (a->places.len - i) * sizeof(a->places.data[0]));
}
