/* SPDX-License-Identifier: MIT */
/* Consistency of the allocator's books: free sets, neighbours, counters. For tests. */
#include "base/bytes.h"
#include "replay/allocator.h"

struct tally {
    uint64_t used, active; /* bytes: in use, and what still waits for a stream besides */
    uint64_t mapped;       /* bytes with memory */
    uint64_t card, split;  /* bytes: taken from the card, free in parts of plain segments */
    uint64_t used_count, free_count;
};

/* Walks one segment from its first block. */
static bool walk(const struct mpl_allocator *a, uint32_t first, struct tally *t)
{
    uint32_t prev = 0;

    for (uint32_t b = first; b; prev = b, b = a->blocks[b].next) {
        const struct mpl_block *block = &a->blocks[b], *before = &a->blocks[prev];

        if (block->prev != prev || block->size == 0 || block->size % 512)
            return false;
        if (prev && (before->position + before->size != block->position ||
                     before->pool != block->pool || before->segment != block->segment))
            return false;
        if (prev && before->state == block->state && block->state != MPL_BLOCK_USED)
            return false; /* should be one block */
        t->used_count += block->state == MPL_BLOCK_USED && !block->waits;
        t->free_count += block->state == MPL_BLOCK_FREE;
        t->used += block->state == MPL_BLOCK_USED && !block->waits ? block->size : 0;
        t->active += block->state == MPL_BLOCK_USED ? block->size : 0;
        t->mapped += block->state != MPL_BLOCK_UNMAPPED ? block->size : 0;
        if (block->state == MPL_BLOCK_FREE && !block->segment && (block->prev || block->next))
            t->split += block->size;
    }
    return true;
}

/* Counts a heap's blocks without recursion: down to the first child, else on to the sibling, else
 * back up. Checks order and back links. */
static bool count_heap(const struct mpl_allocator *a, uint32_t root, uint32_t pool, uint64_t *count)
{
    const struct mpl_block *blocks = a->blocks;
    uint32_t b = root, up;

    for (;;) {
        if (blocks[b].state != MPL_BLOCK_FREE || blocks[b].pool != pool ||
            blocks[b].size != blocks[root].size || blocks[b].position < blocks[root].position)
            return false;
        ++*count;
        if (blocks[b].child) {
            if (blocks[blocks[b].child].back != b ||
                blocks[blocks[b].child].position < blocks[b].position)
                return false;
            b = blocks[b].child;
            continue;
        }
        while (b != root && !blocks[b].sibling) {
            while ((up = blocks[b].back) != 0 && blocks[up].child != b)
                b = up;
            b = up;
        }
        if (b == root)
            return !blocks[root].back;
        if (blocks[blocks[b].sibling].back != b)
            return false;
        b = blocks[b].sibling;
    }
}

static bool check_set(const struct mpl_allocator *a, uint32_t pool, uint64_t *count)
{
    const struct mpl_freeset *set = a->pools[pool];

    for (uint32_t word = 0; word < MPL_FREESET_WORDS; word++)
        if ((set->summary[word >> 6] >> (word & 63) & 1) != (set->bits[word] != 0))
            return false;
    for (uint32_t c = mpl_freeset_next_class(set, 0); c != UINT32_MAX;
         c = mpl_freeset_next_class(set, c + 1)) {
        uint32_t smaller = 0;

        for (uint32_t b = set->heads[c]; b; smaller = b, b = a->blocks[b].larger)
            if (a->blocks[b].smaller != smaller || mpl_freeset_class(a->blocks[b].size) != c ||
                (smaller && a->blocks[smaller].size >= a->blocks[b].size) ||
                !count_heap(a, b, pool, count))
                return false;
    }
    return true;
}

bool mpl_allocator_check(const struct mpl_allocator *a)
{
    struct tally t = {0};
    uint64_t listed = 0;

    for (size_t i = 0; i < a->segments.len; i++) {
        uint64_t before = t.mapped;

        if (!walk(a, a->segments.data[i], &t))
            return false;
        t.card += mpl_round_up(t.mapped - before, MPL_CARD_GRAIN);
    }
    for (size_t i = 0; i < a->reservations.len; i++) {
        uint64_t before = t.mapped;

        if (a->reservations.data[i].first && !walk(a, a->reservations.data[i].first, &t))
            return false;
        t.card += t.mapped - before;
    }
    for (uint32_t pool = 0; pool < a->pool_count; pool++)
        if (a->pools[pool] && !check_set(a, pool, &listed))
            return false;
    return listed == t.free_count && t.used_count == a->now.blocks && t.used == a->now.allocated &&
           t.active == a->now.active && t.mapped == a->now.reserved && t.card == a->used_bytes &&
           t.split == a->now.inactive_split && a->used_bytes <= a->budget_bytes;
}
