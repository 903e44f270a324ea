/* SPDX-License-Identifier: MIT */
/* One allocator made the same as another. */
#include <stdlib.h>
#include <string.h>

#include "replay/allocator.h"

/* Room for as many elements of a plain array; what is in it may be lost. */
static bool fit(void **data, size_t *cap, size_t count, size_t element_size)
{
    if (count <= *cap)
        return true;
    free(*data);
    *data = malloc(count * element_size);
    *cap = *data ? count : 0;
    return *data;
}

static bool copy_blocks(struct mpl_allocator *to, const struct mpl_allocator *from)
{
    if (to->block_room < from->block_count) {
        free(to->blocks);
        to->blocks = aligned_alloc(MPL_BLOCK_ALIGN, from->block_count * sizeof(*to->blocks));
        to->block_room = to->blocks ? from->block_count : 0;
    }
    if (to->block_room)
        memcpy(to->blocks, from->blocks, from->block_count * sizeof(*to->blocks));
    return to->block_room;
}

static bool copy_pools(struct mpl_allocator *to, const struct mpl_allocator *from)
{
    if (!mpl_allocator_enter_pool(to, 0))
        return false;
    for (uint32_t i = 0; i < MPL_ALLOCATOR_SETS; i++) {
        if (from->pools[i] && !to->pools[i] && !mpl_allocator_make_set(to, i))
            return false;
        if (from->pools[i])
            mpl_freeset_copy(to->pools[i], from->pools[i]);
        else if (to->pools[i])
            mpl_freeset_clear(to->pools[i]);
    }
    return true;
}

static bool copy_segments(struct mpl_allocator *to, const struct mpl_allocator *from)
{
    const size_t plain = from->segments.len, expandable = from->reservations.len;

    if (!fit((void **)&to->segments.data, &to->segments.cap, plain, sizeof(*to->segments.data)) ||
        !fit((void **)&to->reservations.data, &to->reservations.cap, expandable,
             sizeof(*to->reservations.data)))
        return false;
    if (plain)
        memcpy(to->segments.data, from->segments.data, plain * sizeof(*to->segments.data));
    if (expandable)
        memcpy(to->reservations.data, from->reservations.data,
               expandable * sizeof(*to->reservations.data));
    to->segments.len = plain;
    to->reservations.len = expandable;
    return true;
}

bool mpl_allocator_copy(struct mpl_allocator *to, const struct mpl_allocator *from)
{
    if (!copy_blocks(to, from) || !copy_pools(to, from) || !copy_segments(to, from))
        return false;
    to->block_count = from->block_count;
    to->spare = from->spare;
    to->is_out_of_memory = from->is_out_of_memory;
    to->is_staged = from->is_staged;
    to->conf = from->conf;
    to->budget_bytes = from->budget_bytes;
    to->card_bytes = from->card_bytes;
    to->used_bytes = from->used_bytes;
    to->position = from->position;
    to->same_from = from->same_from;
    to->same_below = from->same_below;
    to->now = from->now;
    to->total_bytes = from->total_bytes;
    to->limit_bytes = from->limit_bytes;
    to->calls = from->calls;
    to->collects = from->collects;
    to->max_split_bytes = from->max_split_bytes;
    to->is_plain = from->is_plain;
    to->rounds = from->rounds;
    return true;
}
