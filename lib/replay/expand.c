/* SPDX-License-Identifier: MIT */
/*
 * Expandable segments of the caching allocator: address space far above what is needed, to which
 * memory is mapped page by page (c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment,
 * try_allocate_expandable_block, map_block, unmap_block).
 */
#include "base/bytes.h"
#include "replay/allocator.h"

#define SMALL_PAGE (UINT64_C(2) << 20)

static uint64_t page_bytes(const struct mpl_allocator *a, uint32_t pool)
{
    return mpl_allocator_is_small(pool) ? SMALL_PAGE : mpl_allocator_large_segment(a);
}

static void list_unmapped(struct mpl_allocator *a, uint32_t b)
{
    struct mpl_freeset *set = a->pools[a->blocks[b].pool];

    a->blocks[b].state = MPL_BLOCK_UNMAPPED;
    a->blocks[b].smaller = 0;
    a->blocks[b].larger = set->unmapped;
    if (set->unmapped)
        a->blocks[set->unmapped].smaller = b;
    set->unmapped = b;
}

static void unlist_unmapped(struct mpl_allocator *a, uint32_t b)
{
    struct mpl_block *block = &a->blocks[b];

    if (block->larger)
        a->blocks[block->larger].smaller = block->smaller;
    if (block->smaller)
        a->blocks[block->smaller].larger = block->larger;
    else
        a->pools[block->pool]->unmapped = block->larger;
}

/* Bytes that a block has or could grow to. */
static uint64_t room_bytes(const struct mpl_allocator *a, uint32_t b)
{
    const struct mpl_block *after = &a->blocks[a->blocks[b].next];

    return a->blocks[b].size + (after->state == MPL_BLOCK_UNMAPPED ? after->size : 0);
}

uint32_t mpl_expand_find(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    struct mpl_freeset *set = a->pools[pool];
    uint32_t b = mpl_freeset_find(set, a->blocks, size), passed = 0, next;

    /* A block that can grow is left for later when the next larger one has less room to grow: in
     * the order of the free set, as long as the room shrinks. What is passed over waits outside
     * the set, so that a search gives its successor. */
    for (; b; b = next) {
        mpl_freeset_remove(set, a->blocks, b);
        if (a->blocks[a->blocks[b].next].state != MPL_BLOCK_UNMAPPED)
            break;
        next = mpl_freeset_find(set, a->blocks, size);
        if (!next || room_bytes(a, next) >= room_bytes(a, b))
            break;
        a->blocks[b].child = passed;
        passed = b;
    }
    for (; passed; passed = next) {
        next = a->blocks[passed].child;
        mpl_freeset_add(set, a->blocks, passed);
    }
    return b;
}

/* Lowest place in the address space where size bytes fit. */
static uint64_t lowest_gap(const struct mpl_allocator *a, uint64_t size)
{
    uint64_t at = 0;

    for (size_t i = 0; i < a->reservations.len;) {
        const struct mpl_reservation *r = &a->reservations.data[i];

        if (r->first && at < r->address + r->size && r->address < at + size) {
            at = r->address + r->size;
            i = 0;
        } else {
            i++;
        }
    }
    return at;
}

static size_t reservation_slot(struct mpl_allocator *a)
{
    size_t i;

    for (i = 0; i < a->reservations.len && a->reservations.data[i].first; i++)
        ;
    if (i < a->reservations.len)
        return i;
    if (i >= UINT16_MAX || mpl_vec_reserve(&a->reservations)) {
        a->is_out_of_memory = true;
        return SIZE_MAX;
    }
    a->reservations.data[i].first = 0;
    return a->reservations.len++;
}

/* New address space of 9/8 of the card in whole pages, as one unmapped block. */
static uint32_t reserve(struct mpl_allocator *a, uint32_t pool)
{
    uint64_t size = mpl_round_up(a->card_bytes + a->card_bytes / 8, page_bytes(a, pool));
    size_t slot = reservation_slot(a);
    struct mpl_reservation *r;
    struct mpl_block *block;
    uint32_t b;

    if (slot == SIZE_MAX)
        return 0;
    b = mpl_allocator_new_block(a);
    block = &a->blocks[b];
    *block = (struct mpl_block){.size = size,
                                .position = a->position,
                                .pool = (uint16_t)pool,
                                .segment = (uint16_t)(slot + 1)};
    r = &a->reservations.data[slot];
    r->address = lowest_gap(a, size);
    r->position = a->position;
    r->size = size;
    r->first = b;
    a->position += size;
    list_unmapped(a, b);
    return b;
}

static uint64_t address(const struct mpl_allocator *a, uint32_t b)
{
    const struct mpl_reservation *r = &a->reservations.data[a->blocks[b].segment - 1];

    return r->address + (a->blocks[b].position - r->position);
}

/* Where a request can grow: the lowest run of free and unmapped blocks that is long enough. */
static uint32_t find_run(const struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t best = 0, u, start, b;

    for (u = a->pools[pool]->unmapped; u; u = a->blocks[u].larger) {
        uint64_t run = 0;

        start = a->blocks[a->blocks[u].prev].state == MPL_BLOCK_FREE ? a->blocks[u].prev : u;
        for (b = start; b && run < size && a->blocks[b].state != MPL_BLOCK_USED;
             b = a->blocks[b].next)
            run += a->blocks[b].size;
        if (run >= size && (!best || address(a, start) < address(a, best)))
            best = start;
    }
    return best;
}

/*
 * Maps at least size bytes at the front of an unmapped block, in whole pages; gives the free block
 * that holds them, joined with its neighbours, or 0 when the card gives no more. The card gives
 * page by page and takes all back when it cannot give the last one.
 */
static uint32_t map(struct mpl_allocator *a, uint32_t b, uint64_t size)
{
    uint32_t pool = a->blocks[b].pool, prev = a->blocks[b].prev, next;
    struct mpl_freeset *set = a->pools[pool];
    uint64_t mapped = mpl_round_up(size, page_bytes(a, pool));

    if (!mpl_allocator_take(a, mapped, mapped))
        return 0;
    a->now.device_allocs++;
    unlist_unmapped(a, b);
    if (mapped < a->blocks[b].size)
        list_unmapped(a, mpl_allocator_split(a, b, mapped));
    next = a->blocks[b].next;
    if (a->blocks[next].state == MPL_BLOCK_FREE) {
        mpl_freeset_remove(set, a->blocks, next);
        mpl_allocator_absorb_next(a, b);
    }
    if (a->blocks[prev].state == MPL_BLOCK_FREE) {
        mpl_freeset_remove(set, a->blocks, prev);
        mpl_allocator_absorb_next(a, prev);
        b = prev;
    }
    mpl_freeset_add(set, a->blocks, b);
    return b;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t mpl_expand_grow(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    uint32_t b = find_run(a, pool, size), next;

    if (!b && !(b = reserve(a, pool)))
        return 0;
    if (a->blocks[b].state == MPL_BLOCK_UNMAPPED &&
        !(b = map(a, b, lower(size, a->blocks[b].size))))
        return 0;
    while (a->blocks[b].size < size) {
        /* Only reached with an unmapped neighbour, except when the whole card is smaller. */
        next = a->blocks[b].next;
        if (!next || !mpl_allocator_make_room(a))
            return 0;
        if (!(b = map(a, next, lower(size - a->blocks[b].size, a->blocks[next].size))))
            return 0;
    }
    mpl_freeset_remove(a->pools[pool], a->blocks, b);
    return b;
}

/* Unmaps the whole pages inside a free block; gives the block to go on from. */
static uint32_t unmap(struct mpl_allocator *a, uint32_t b)
{
    uint32_t pool = a->blocks[b].pool, mid = b;
    uint64_t base = a->reservations.data[a->blocks[b].segment - 1].position;
    uint64_t page = page_bytes(a, pool), from = a->blocks[b].position - base;
    uint64_t end = from + a->blocks[b].size, low = mpl_round_up(from, page);
    uint64_t high = end - end % page;
    struct mpl_freeset *set = a->pools[pool];

    if (high <= low || !mpl_allocator_make_room(a))
        return b;
    mpl_freeset_remove(set, a->blocks, b);
    a->used_bytes -= high - low;
    a->now.reserved -= high - low;
    a->now.device_frees++;
    if (low > from) {
        mid = mpl_allocator_split(a, b, low - from);
        mpl_freeset_add(set, a->blocks, b);
    }
    if (end > high)
        mpl_freeset_add(set, a->blocks, mpl_allocator_split(a, mid, high - low));
    if (a->blocks[a->blocks[mid].next].state == MPL_BLOCK_UNMAPPED) {
        unlist_unmapped(a, a->blocks[mid].next);
        mpl_allocator_absorb_next(a, mid);
    }
    if (a->blocks[a->blocks[mid].prev].state == MPL_BLOCK_UNMAPPED) {
        mid = a->blocks[mid].prev;
        unlist_unmapped(a, mid);
        mpl_allocator_absorb_next(a, mid);
    }
    list_unmapped(a, mid);
    return mid;
}

/* Unmaps what it can of one segment; drops it when that left no memory in it. A segment that never
 * had memory, because its first page was refused, stays: PyTorch drops one only on unmapping. */
static void empty_reservation(struct mpl_allocator *a, struct mpl_reservation *r)
{
    uint64_t before = a->used_bytes;
    uint32_t b;

    for (b = r->first; b; b = a->blocks[b].next)
        if (a->blocks[b].state == MPL_BLOCK_FREE)
            b = unmap(a, b);
    b = r->first;
    if (a->used_bytes != before && a->blocks[b].state == MPL_BLOCK_UNMAPPED && !a->blocks[b].next) {
        unlist_unmapped(a, b);
        mpl_allocator_drop_block(a, b);
        r->first = 0;
    }
}

void mpl_expand_empty(struct mpl_allocator *a)
{
    for (size_t i = 0; i < a->reservations.len; i++)
        if (a->reservations.data[i].first &&
            mpl_allocator_is_main(a->blocks[a->reservations.data[i].first].pool))
            empty_reservation(a, &a->reservations.data[i]);
}
