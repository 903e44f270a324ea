/* SPDX-License-Identifier: MIT */
/* The caching allocator of PyTorch on one card: single segments that go back to it before the whole
 * cache does, under garbage_collection_threshold and max_split_size_mb. */
#include "base/bytes.h"
#include "replay/allocator.h"

void mpl_allocator_drop_segment(struct mpl_allocator *a, size_t index)
{
    const uint32_t b = a->segments.data[index];
    const struct mpl_block *block = &a->blocks[b];

    mpl_allocator_wait(a); /* cudaFree does */
    mpl_freeset_remove(a->pools[block->pool], a->blocks, b);
    a->used_bytes -= mpl_round_up(block->size, MPL_CARD_GRAIN);
    a->now.reserved -= block->size;
    a->now.segments--;
    a->now.device_frees++;
    if (a->keeps_places)
        mpl_allocator_unplace(a, b);
    mpl_allocator_drop_block(a, b);
    a->segments.data[index] = a->segments.data[--a->segments.len];
}

/* One free block, of a pool that garbage is collected from. */
static bool is_idle(const struct mpl_allocator *a, uint32_t b)
{
    const struct mpl_block *block = &a->blocks[b];

    return block->state == MPL_BLOCK_FREE && !block->next && mpl_allocator_is_main(block->pool) &&
           !mpl_allocator_is_small(block->pool);
}

static uint64_t age(const struct mpl_allocator *a, uint32_t b)
{
    return a->calls - a->blocks[b].requested_bytes;
}

/* Drops what is as old as the mean of what is idle, or older; gives the bytes. */
static uint64_t drop_old(struct mpl_allocator *a)
{
    uint64_t ages = 0, count = 0, dropped = 0;
    double mean;

    for (size_t i = 0; i < a->segments.len; i++)
        if (is_idle(a, a->segments.data[i])) {
            ages += age(a, a->segments.data[i]);
            count++;
        }
    if (count == 0)
        return 0;
    mean = (double)ages / (double)count;
    for (size_t i = a->segments.len; i-- > 0;) {
        const uint32_t b = a->segments.data[i];

        if (is_idle(a, b) && (double)age(a, b) >= mean) {
            dropped += a->blocks[b].size;
            mpl_allocator_drop_segment(a, i);
        }
    }
    return dropped;
}

void mpl_allocator_collect(struct mpl_allocator *a)
{
    const uint64_t mark = (uint64_t)(a->conf.gc_threshold * (double)a->limit_bytes);

    while (a->now.reserved > mark && drop_old(a) > 0)
        ;
}

/* The largest idle segment of a pool with at least max_split_size, the latest among equals; or the
 * number of segments. */
static size_t find_largest(const struct mpl_allocator *a, uint32_t pool)
{
    size_t best = a->segments.len;

    for (size_t i = 0; i < a->segments.len; i++) {
        const struct mpl_block *block = &a->blocks[a->segments.data[i]], *than;

        if (block->state != MPL_BLOCK_FREE || block->next || block->pool != pool ||
            block->size < a->max_split_bytes)
            continue;
        than = best < a->segments.len ? &a->blocks[a->segments.data[best]] : NULL;
        if (!than || block->size > than->size ||
            (block->size == than->size && block->position > than->position))
            best = i;
    }
    return best;
}

static bool drop_block_of(struct mpl_allocator *a, uint32_t b)
{
    for (size_t i = 0; i < a->segments.len; i++)
        if (a->segments.data[i] == b && !a->blocks[b].next) {
            mpl_allocator_drop_segment(a, i);
            return true;
        }
    return false;
}

bool mpl_allocator_release_available(struct mpl_allocator *a, uint32_t pool, uint64_t size)
{
    const uint64_t wanted = size > a->max_split_bytes ? size : a->max_split_bytes;
    uint64_t dropped = 0;
    uint32_t b;

    if (a->max_split_bytes == UINT64_MAX || a->conf.is_expandable)
        return false;
    if ((b = mpl_freeset_find(a->pools[pool], a->blocks, wanted)))
        return drop_block_of(a, b);
    while (dropped < wanted) {
        const size_t i = find_largest(a, pool);

        if (i == a->segments.len)
            return false;
        dropped += a->blocks[a->segments.data[i]].size;
        mpl_allocator_drop_segment(a, i);
    }
    return true;
}
