/* SPDX-License-Identifier: MIT */
/* The caching allocator of PyTorch on one card: blocks that come back, at once or when other
 * streams have passed (record_stream), and the cache that is emptied. */
#include "base/bytes.h"
#include "replay/allocator.h"

/* A block that was given back returns to its free set and joins free neighbours. */
static inline void free_block(struct mpl_allocator *a, uint32_t b)
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
    block->requested_bytes = a->calls;
    if (!block->segment) {
        a->now.inactive_split -= joined;
        a->now.inactive_split += block->prev || block->next ? block->size : 0;
    }
}

/* One event on each stream that used the block, now. */
static void defer(struct mpl_allocator *a, uint32_t b)
{
    struct mpl_block *block = &a->blocks[b];

    for (uint32_t s = 0; s < MPL_ALLOCATOR_STREAMS; s++) {
        struct mpl_waiting *w = &a->waiting[s];

        if (!(block->users >> s & 1))
            continue;
        if (mpl_vec_reserve(&w->blocks)) {
            a->is_out_of_memory = true;
            return;
        }
        w->recorded++;
        if (!a->is_lazy)
            w->passed = w->recorded;
        w->blocks.data[w->blocks.len++] = (struct mpl_waiting_block){w->recorded, b};
        block->waits++;
        a->waiting_count++;
    }
    block->users = 0;
}

void mpl_allocator_release(struct mpl_allocator *a, uint32_t b)
{
    a->now.allocated -= a->blocks[b].size;
    a->now.blocks--;
    if (a->blocks[b].users)
        defer(a, b);
    else
        free_block(a, b);
}

void mpl_allocator_release_begin(struct mpl_allocator *a, uint32_t b)
{
    a->now.allocated -= a->blocks[b].size;
    a->now.blocks--;
    a->blocks[b].users = 0;
    a->blocks[b].waits = 1;
}

void mpl_allocator_release_end(struct mpl_allocator *a, uint32_t b)
{
    a->blocks[b].waits = 0;
    free_block(a, b);
}

void mpl_allocator_record_stream(struct mpl_allocator *a, uint32_t b, uint32_t stream)
{
    if (mpl_allocator_stream(a->blocks[b].pool) != stream)
        a->blocks[b].users |= (uint16_t)(1U << stream);
}

void mpl_allocator_wait_stream(struct mpl_allocator *a, uint32_t stream)
{
    a->waiting[stream].passed = a->waiting[stream].recorded;
}

void mpl_allocator_wait(struct mpl_allocator *a)
{
    for (uint32_t s = 0; s < MPL_ALLOCATOR_STREAMS; s++)
        mpl_allocator_wait_stream(a, s);
}

void mpl_allocator_take_back(struct mpl_allocator *a)
{
    for (uint32_t s = 0; s < MPL_ALLOCATOR_STREAMS; s++) {
        struct mpl_waiting *w = &a->waiting[s];

        for (; w->first < w->blocks.len && w->blocks.data[w->first].when <= w->passed; w->first++) {
            uint32_t b = w->blocks.data[w->first].block;

            a->waiting_count--;
            if (--a->blocks[b].waits == 0)
                free_block(a, b);
        }
        if (w->first == w->blocks.len)
            w->first = w->blocks.len = 0;
    }
}

void mpl_allocator_empty_cache(struct mpl_allocator *a)
{
    a->now.syncs++;
    mpl_allocator_wait(a);
    if (a->waiting_count)
        mpl_allocator_take_back(a);
    for (size_t i = a->segments.len; i-- > 0;) {
        const struct mpl_block *block = &a->blocks[a->segments.data[i]];

        if (block->state == MPL_BLOCK_FREE && !block->next && mpl_allocator_is_main(block->pool))
            mpl_allocator_drop_segment(a, i);
    }
    mpl_expand_empty(a);
}
