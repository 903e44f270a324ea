/* SPDX-License-Identifier: MIT */
/* The caching allocator of PyTorch on one card: requests. */
#include "replay/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define MIN_BLOCK      UINT64_C(512)        /* kMinBlockSize: quantum of block sizes */
#define SMALL_SEGMENT  (UINT64_C(2) << 20)  /* kSmallBuffer */
#define OWN_SEGMENT    (UINT64_C(10) << 20) /* kMinLargeAlloc: from here a segment for itself */
#define OWN_GRAIN      (UINT64_C(2) << 20)  /* kRoundLarge */
#define LARGEST_SLACK  (UINT64_C(1) << 20)  /* large pool: a rest up to this is not split off */
#define FIRST_INTERVAL 20 /* log2 of the first interval of roundup_power2_divisions */
#define FIRST_BLOCKS   1024

bool mpl_allocator_grow_room(struct mpl_allocator *a)
{
    uint32_t room = a->block_room ? a->block_room : FIRST_BLOCKS / 2;
    struct mpl_block *blocks;

    if (room > UINT32_MAX / 2 ||
        !(blocks = aligned_alloc(MPL_BLOCK_ALIGN, (size_t)room * 2 * sizeof(*blocks)))) {
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

/* Room for the free sets of all pools up to one. */
static bool make_table(struct mpl_allocator *a, uint32_t pool)
{
    const uint32_t wanted = pool / MPL_ALLOCATOR_SETS * MPL_ALLOCATOR_SETS + MPL_ALLOCATOR_SETS;
    struct mpl_freeset **pools;

    if (wanted <= a->pool_count)
        return true;
    if (!(pools = realloc(a->pools, wanted * sizeof(struct mpl_freeset *)))) {
        a->is_out_of_memory = true;
        return false;
    }
    for (uint32_t i = a->pool_count; i < wanted; i++)
        pools[i] = NULL;
    a->pools = pools;
    a->pool_count = wanted;
    return true;
}

bool mpl_allocator_make_set(struct mpl_allocator *a, uint32_t pool)
{
    if (!(a->pools[pool] = malloc(sizeof(*a->pools[pool])))) {
        a->is_out_of_memory = true;
        return false;
    }
    mpl_freeset_clear(a->pools[pool]);
    return true;
}

bool mpl_allocator_enter_pool(struct mpl_allocator *a, uint32_t pool)
{
    if (!make_table(a, pool * MPL_ALLOCATOR_SETS))
        return false;
    a->pool_base = pool * MPL_ALLOCATOR_SETS;
    return true;
}

void mpl_allocator_set_fraction(struct mpl_allocator *a, double fraction, uint64_t total_bytes)
{
    a->total_bytes = total_bytes;
    a->limit_bytes = fraction < 1 ? (uint64_t)(fraction * (double)total_bytes) : UINT64_MAX;
    a->collects = a->conf.gc_threshold > 0 && a->limit_bytes != UINT64_MAX;
    a->is_plain = !a->collects && !a->conf.is_expandable && !a->conf.max_split_bytes;
}

static void reset_waiting(struct mpl_allocator *a)
{
    for (uint32_t i = 0; i < MPL_ALLOCATOR_STREAMS; i++) {
        a->waiting[i].blocks.len = a->waiting[i].first = 0;
        a->waiting[i].recorded = a->waiting[i].passed = 0;
    }
    a->waiting_count = 0;
    a->is_lazy = false;
}

void mpl_allocator_reset(struct mpl_allocator *a, uint64_t budget_bytes, uint64_t card_bytes)
{
    for (uint32_t i = 0; i < a->pool_count; i++)
        if (a->pools[i])
            mpl_freeset_clear(a->pools[i]);
    a->block_count = 0;
    a->spare = 0;
    a->is_out_of_memory = a->is_staged = false;
    a->pool_base = 0;
    a->calls = 0;
    reset_waiting(a);
    if (make_table(a, 0) && mpl_allocator_make_room(a))
        memset(&a->blocks[a->block_count++], 0, sizeof(a->blocks[0]));
    a->budget_bytes = budget_bytes;
    a->card_bytes = card_bytes;
    a->used_bytes = a->position = 0;
    a->same_from = 0;
    a->same_below = UINT64_MAX;
    a->segments.len = a->reservations.len = 0;
    memset(&a->now, 0, sizeof(a->now));
    a->places.len = 0;
    a->max_split_bytes = a->conf.max_split_bytes ? a->conf.max_split_bytes : UINT64_MAX;
    a->rounds = false;
    for (uint32_t i = 0; i < MPL_ALLOC_DIVISIONS; i++)
        a->rounds |= a->conf.divisions[i] != 0;
    mpl_allocator_set_fraction(a, a->conf.has_fraction ? a->conf.fraction : 1, card_bytes);
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
 * Size of a new segment for a request of size bytes.
 * unit    bytes
 * source  CUDACachingAllocator.cpp, get_allocation_size
 */
static uint64_t segment_bytes(const struct mpl_allocator *a, uint64_t size)
{
    return size <= MPL_POOL_SMALL_LIMIT ? SMALL_SEGMENT
           : size < OWN_SEGMENT         ? mpl_allocator_large_segment(a)
                                        : mpl_round_up(size, OWN_GRAIN);
}

/* A new segment, as one block in use; 0 when the card has no room.
 * source  CUDACachingAllocator.cpp, alloc_block */
static uint32_t add_segment(struct mpl_allocator *a, uint32_t pool, uint64_t segment)
{
    struct mpl_block *block;
    uint32_t b;

    if (mpl_vec_reserve(&a->segments)) {
        a->is_out_of_memory = true;
        return 0;
    }
    if (!mpl_allocator_take(a, mpl_round_up(segment, MPL_CARD_GRAIN), segment))
        return 0;
    a->now.segments++;
    a->now.device_allocs++;
    b = mpl_allocator_new_block(a);
    block = &a->blocks[b];
    memset(block, 0, sizeof(*block));
    block->size = segment;
    block->position = a->position;
    block->pool = (uint16_t)pool;
    a->position += segment;
    a->segments.data[a->segments.len++] = b;
    if (a->keeps_places && !mpl_allocator_place(a, b, mpl_round_up(segment, MPL_CARD_GRAIN)))
        return 0;
    return b;
}

/* The limit of the fraction is held against the segment's size, also where a segment only grows. */
static uint32_t grow(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    const uint64_t segment = segment_bytes(a, size);

    if (a->limit_bytes != UINT64_MAX && mpl_add(a->now.reserved, segment) > a->limit_bytes)
        return 0;
    if (a->conf.rejects_early && mpl_add(a->now.reserved, segment) > a->total_bytes) {
        a->is_rejected = true;
        return 0;
    }
    return a->conf.is_expandable ? mpl_expand_grow(a, pool, size) : add_segment(a, pool, segment);
}

static uint32_t grow_or_flush(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b;

    if (a->collects)
        mpl_allocator_collect(a);
    b = grow(a, pool, size);
    if (b || a->is_out_of_memory || a->is_staged)
        return b;
    a->was_rejected = a->is_rejected;
    if (a->is_rejected) {
        a->is_rejected = false;
        a->now.rejections++;
        return 0;
    }
    if (mpl_allocator_release_available(a, pool, size) && mpl_allocator_make_room(a) &&
        (b = grow(a, pool, size)))
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

    if (mpl_allocator_is_small(pool) || block->segment
            ? rest_bytes >= MIN_BLOCK
            : rest_bytes > LARGEST_SLACK && size < a->max_split_bytes) {
        mpl_freeset_add(a->pools[pool], a->blocks, mpl_allocator_split(a, b, size));
        if (!block->segment) {
            a->now.inactive_split -= was_split ? size : 0;
            a->now.inactive_split += was_split ? 0 : rest_bytes;
        }
    } else if (was_split && !block->segment) {
        a->now.inactive_split -= block->size;
    }
}

/* What max_split_size keeps apart: large blocks are not cut, and not given to much smaller
 * requests. */
static bool is_too_large(const struct mpl_allocator *a, uint64_t block_bytes, uint64_t size)
{
    const uint64_t slack = a->conf.non_split_bytes ? a->conf.non_split_bytes : MPL_LARGE_SEGMENT;

    return size < a->max_split_bytes ? block_bytes >= a->max_split_bytes
                                     : block_bytes >= mpl_add(size, slack);
}

static uint32_t find_by_settings(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b;

    if (a->collects && mpl_allocator_is_main(pool) && !mpl_allocator_is_small(pool))
        a->calls++;
    if (a->conf.is_expandable) {
        b = mpl_expand_find(a, pool, size);
        if (!b || !is_too_large(a, a->blocks[b].size, size))
            return b;
        mpl_freeset_add(a->pools[pool], a->blocks, b);
        return 0;
    }
    b = mpl_freeset_find(a->pools[pool], a->blocks, size);
    if (!b || is_too_large(a, a->blocks[b].size, size))
        return 0;
    mpl_freeset_remove(a->pools[pool], a->blocks, b);
    return b;
}

static inline uint32_t find(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b;

    if (!a->is_plain)
        return find_by_settings(a, pool, size);
    b = mpl_freeset_find(a->pools[pool], a->blocks, size);
    if (b)
        mpl_freeset_remove(a->pools[pool], a->blocks, b);
    return b;
}

/*
 * A request's size as it is handed out.
 * unit    bytes
 * source  CUDACachingAllocator.cpp, round_size and roundup_power2_next_division
 */
static uint64_t round_size(const struct mpl_allocator *a, uint64_t bytes)
{
    const uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes | 1);
    uint32_t interval = log > FIRST_INTERVAL ? log - FIRST_INTERVAL : 0;
    uint64_t divisions, step;

    if (interval >= MPL_ALLOC_DIVISIONS)
        interval = MPL_ALLOC_DIVISIONS - 1;
    divisions = a->conf.divisions[interval];
    if (divisions <= 1 || bytes <= mpl_mul(MIN_BLOCK, divisions))
        return mpl_round_up(bytes, MIN_BLOCK);
    step = (UINT64_C(1) << log) / divisions;
    return mpl_round_up(bytes, step);
}

uint64_t mpl_allocator_segment_bytes(const struct mpl_allocator *a, uint64_t bytes)
{
    return segment_bytes(a, a->rounds ? round_size(a, bytes) : mpl_round_up(bytes, MIN_BLOCK));
}

/* A request that no card can hold: what is unused goes back, as for any that fails. */
static uint32_t refuse(struct mpl_allocator *a)
{
    mpl_allocator_empty_cache(a);
    a->was_rejected = false;
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
    if (a->waiting_count)
        mpl_allocator_take_back(a);
    size = a->rounds ? round_size(a, bytes) : (bytes + MIN_BLOCK - 1) & ~(MIN_BLOCK - 1);
    pool = a->pool_base + stream + (size > MPL_POOL_SMALL_LIMIT ? MPL_ALLOCATOR_STREAMS : 0);
    if (!mpl_allocator_make_room(a) || (!a->pools[pool] && !mpl_allocator_make_set(a, pool)))
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

void mpl_allocator_reset_peaks(struct mpl_allocator *a)
{
    a->now.peak_allocated = a->now.allocated;
    a->now.peak_reserved = a->now.reserved;
    a->now.peak_active = a->now.active;
}

void mpl_allocator_free(struct mpl_allocator *a)
{
    for (uint32_t i = 0; i < a->pool_count; i++)
        free(a->pools[i]);
    for (uint32_t i = 0; i < MPL_ALLOCATOR_STREAMS; i++)
        mpl_vec_free(&a->waiting[i].blocks);
    free(a->pools);
    free(a->blocks);
    mpl_vec_free(&a->segments);
    mpl_vec_free(&a->places);
    mpl_vec_free(&a->reservations);
    memset(a, 0, sizeof(*a));
}
