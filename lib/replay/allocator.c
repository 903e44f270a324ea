/* SPDX-License-Identifier: MIT */
/* The caching allocator of PyTorch on one card: requests, releases, giving memory back. */
#include "replay/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define MIN_BLOCK     UINT64_C(512)        /* kMinBlockSize: quantum of block sizes */
#define SMALL_SEGMENT (UINT64_C(2) << 20)  /* kSmallBuffer */
#define OWN_SEGMENT   (UINT64_C(10) << 20) /* kMinLargeAlloc: from here a segment for itself */
#define OWN_GRAIN     (UINT64_C(2) << 20)  /* kRoundLarge */
#define LARGEST_SLACK (UINT64_C(1) << 20)  /* large pool: a rest up to this is not split off */
#define FIRST_BLOCKS  1024
#define BLOCK_ALIGN   64

bool mpl_allocator_grow_room(struct mpl_allocator *a)
{
    uint32_t room = a->block_room ? a->block_room : FIRST_BLOCKS / 2;
    struct mpl_block *blocks;

    if (room > UINT32_MAX / 2 ||
        !(blocks = aligned_alloc(BLOCK_ALIGN, (size_t)room * 2 * sizeof(*blocks)))) {
        a->is_out_of_memory = true;
        return false;
    }
    if (a->block_count)
        memcpy(blocks, a->blocks, a->block_count * sizeof(*blocks));
    free(a->blocks);
    a->blocks = blocks;
    a->block_room = room * 2;
    return true;
}

static bool make_pool(struct mpl_allocator *a, uint32_t pool)
{
    if (!(a->pools[pool] = malloc(sizeof(*a->pools[pool])))) {
        a->is_out_of_memory = true;
        return false;
    }
    mpl_freeset_clear(a->pools[pool]);
    return true;
}

void mpl_allocator_reset(struct mpl_allocator *a, uint64_t budget_bytes, uint64_t card_bytes)
{
    for (uint32_t i = 0; i < 2 * MPL_ALLOCATOR_STREAMS; i++)
        if (a->pools[i])
            mpl_freeset_clear(a->pools[i]);
    a->block_count = 0;
    a->spare = 0;
    a->is_out_of_memory = a->is_staged = false;
    if (mpl_allocator_make_room(a))
        memset(&a->blocks[a->block_count++], 0, sizeof(a->blocks[0]));
    a->budget_bytes = budget_bytes;
    a->card_bytes = card_bytes;
    a->used_bytes = a->position = 0;
    a->same_from = 0;
    a->same_below = UINT64_MAX;
    a->segments.len = a->reservations.len = 0;
    memset(&a->now, 0, sizeof(a->now));
}

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
        to->blocks = aligned_alloc(BLOCK_ALIGN, from->block_count * sizeof(*to->blocks));
        to->block_room = to->blocks ? from->block_count : 0;
    }
    if (to->block_room)
        memcpy(to->blocks, from->blocks, from->block_count * sizeof(*to->blocks));
    return to->block_room;
}

static bool copy_pools(struct mpl_allocator *to, const struct mpl_allocator *from)
{
    for (uint32_t i = 0; i < 2 * MPL_ALLOCATOR_STREAMS; i++) {
        if (from->pools[i] && !to->pools[i] && !make_pool(to, i))
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
    return true;
}

bool mpl_allocator_take(struct mpl_allocator *a, uint64_t card_bytes, uint64_t reserved_bytes)
{
    uint64_t total = mpl_add(a->used_bytes, card_bytes);

    if (total > a->budget_bytes || total == MPL_BYTES_OVERFLOW) {
        if (total < a->same_below)
            a->same_below = total;
        return false;
    }
    a->used_bytes = total;
    if (total > a->same_from)
        a->same_from = total;
    a->now.reserved += reserved_bytes;
    if (a->now.reserved > a->now.peak_reserved)
        a->now.peak_reserved = a->now.reserved;
    return true;
}

/*
 * A new segment for a request of size bytes, as one block in use; 0 when the card has no room.
 * unit    bytes
 * source  CUDACachingAllocator.cpp, get_allocation_size and alloc_block
 */
static uint32_t add_segment(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint64_t segment = size <= MPL_POOL_SMALL_LIMIT ? SMALL_SEGMENT
                       : size < OWN_SEGMENT         ? MPL_LARGE_SEGMENT
                                                    : mpl_round_up(size, OWN_GRAIN);
    struct mpl_block *block;
    uint32_t b;

    if (mpl_vec_reserve(&a->segments)) {
        a->is_out_of_memory = true;
        return 0;
    }
    if (!mpl_allocator_take(a, mpl_round_up(segment, MPL_CARD_GRAIN), segment))
        return 0;
    a->now.segments++;
    b = mpl_allocator_new_block(a);
    block = &a->blocks[b];
    memset(block, 0, sizeof(*block));
    block->size = segment;
    block->position = a->position;
    block->pool = (uint8_t)pool;
    a->position += segment;
    a->segments.data[a->segments.len++] = b;
    return b;
}

static uint32_t grow(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    return a->conf.is_expandable ? mpl_expand_grow(a, pool, size) : add_segment(a, pool, size);
}

static uint32_t grow_or_flush(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b = grow(a, pool, size);

    if (b || a->is_out_of_memory || a->is_staged)
        return b;
    mpl_allocator_empty_cache(a);
    a->now.retries++;
    if (a->is_out_of_memory || !mpl_allocator_make_room(a))
        return 0;
    if (!(b = grow(a, pool, size)) && !a->is_out_of_memory)
        a->now.ooms++;
    return b;
}

/* Hands out the front of a block that is in no free set; the rest stays free when it may. */
static void cut(struct mpl_allocator *a, uint32_t b, uint64_t size)
{
    struct mpl_block *block = &a->blocks[b];
    uint64_t rest_bytes = block->size - size;
    bool was_split = block->prev || block->next;
    uint32_t pool = block->pool;

    if (mpl_allocator_is_small(pool) || block->segment ? rest_bytes >= MIN_BLOCK
                                                       : rest_bytes > LARGEST_SLACK) {
        mpl_freeset_add(a->pools[pool], a->blocks, mpl_allocator_split(a, b, size));
        if (!block->segment) {
            a->now.inactive_split -= was_split ? size : 0;
            a->now.inactive_split += was_split ? 0 : rest_bytes;
        }
    } else if (was_split && !block->segment) {
        a->now.inactive_split -= block->size;
    }
}

static uint32_t find(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b;

    if (a->conf.is_expandable)
        return mpl_expand_find(a, pool, size);
    b = mpl_freeset_find(a->pools[pool], a->blocks, size);
    if (b)
        mpl_freeset_remove(a->pools[pool], a->blocks, b);
    return b;
}

/* A request that no card can hold: what is unused goes back, as for any that fails. */
static uint32_t refuse(struct mpl_allocator *a)
{
    mpl_allocator_empty_cache(a);
    a->now.retries++;
    a->now.ooms++;
    return 0;
}

uint32_t mpl_allocator_request(struct mpl_allocator *a, uint64_t bytes, uint32_t stream)
{
    struct mpl_block *block;
    uint32_t pool, b;
    uint64_t size;

    if (bytes > MPL_ALLOCATOR_MAX_BYTES)
        return refuse(a);
    size = (bytes + MIN_BLOCK - 1) & ~(MIN_BLOCK - 1);
    pool = stream + (size > MPL_POOL_SMALL_LIMIT ? MPL_ALLOCATOR_STREAMS : 0);
    if (!mpl_allocator_make_room(a) || (!a->pools[pool] && !make_pool(a, pool)))
        return 0;
    if (!(b = find(a, pool, size)) && !(b = grow_or_flush(a, pool, size)))
        return 0;
    cut(a, b, size);
    block = &a->blocks[b];
    block->requested_bytes = bytes;
    a->now.requested += bytes;
    a->now.blocks++;
    a->now.allocated += block->size;
    a->now.active += block->size;
    if (a->now.allocated > a->now.peak_allocated)
        a->now.peak_allocated = a->now.allocated;
    if (a->now.active > a->now.peak_active)
        a->now.peak_active = a->now.active;
    return b;
}

/* The block comes back to its pool: joins free neighbours of the same segment. */
static void free_block(struct mpl_allocator *a, uint32_t b)
{
    struct mpl_block *blocks = a->blocks, *block = &blocks[b];
    struct mpl_freeset *set = a->pools[block->pool];
    uint64_t size = block->size, joined = 0;
    uint32_t prev = block->prev, next = block->next;

    a->now.active -= size;
    a->now.requested -= block->requested_bytes;
    if (blocks[next].state == MPL_BLOCK_FREE) {
        joined += blocks[next].size;
        mpl_freeset_remove(set, blocks, next);
        mpl_allocator_absorb_next(a, b);
    }
    if (blocks[prev].state == MPL_BLOCK_FREE) {
        joined += blocks[prev].size;
        mpl_freeset_remove(set, blocks, prev);
        mpl_allocator_absorb_next(a, prev);
        b = prev;
        block = &blocks[b];
    }
    mpl_freeset_add(set, blocks, b);
    if (!block->segment) {
        a->now.inactive_split -= joined;
        a->now.inactive_split += block->prev || block->next ? block->size : 0;
    }
}

void mpl_allocator_release(struct mpl_allocator *a, uint32_t b)
{
    a->now.allocated -= a->blocks[b].size;
    a->now.blocks--;
    free_block(a, b);
}

void mpl_allocator_empty_cache(struct mpl_allocator *a)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->segments.len; i++) {
        uint32_t b = a->segments.data[i];
        struct mpl_block *block = &a->blocks[b];

        if (block->state != MPL_BLOCK_FREE || block->next) {
            a->segments.data[kept++] = b;
            continue;
        }
        mpl_freeset_remove(a->pools[block->pool], a->blocks, b);
        a->used_bytes -= mpl_round_up(block->size, MPL_CARD_GRAIN);
        a->now.reserved -= block->size;
        a->now.segments--;
        mpl_allocator_drop_block(a, b);
    }
    a->segments.len = kept;
    mpl_expand_empty(a);
}

void mpl_allocator_reset_peaks(struct mpl_allocator *a)
{
    a->now.peak_allocated = a->now.allocated;
    a->now.peak_reserved = a->now.reserved;
    a->now.peak_active = a->now.active;
}

void mpl_allocator_free(struct mpl_allocator *a)
{
    for (uint32_t i = 0; i < 2 * MPL_ALLOCATOR_STREAMS; i++)
        free(a->pools[i]);
    free(a->blocks);
    mpl_vec_free(&a->segments);
    mpl_vec_free(&a->reservations);
    memset(a, 0, sizeof(*a));
}
