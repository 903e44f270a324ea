/* SPDX-License-Identifier: MIT */
/*
 * Free blocks of one pool and stream, ordered by size, then by position.
 *
 * Sizes are grouped in classes, in order of size: up to 2 MiB a class holds one size, above it
 * holds the sizes of one 64th of a power of two. A bitmap over the classes finds the next non-empty
 * one. A class is a list of its distinct sizes, smallest first; the blocks of one size form a
 * pairing heap whose root, the lowest position, stands in that list. So taking the best block,
 * adding one and removing any one cost no search in the usual case and O(log n) for many equal
 * sizes.
 */
#ifndef MPL_REPLAY_FREESET_H
#define MPL_REPLAY_FREESET_H

#include <stdbool.h>
#include <stdint.h>

enum mpl_block_state {
    MPL_BLOCK_USED = 0,
    MPL_BLOCK_FREE,     /* in the free set */
    MPL_BLOCK_UNMAPPED, /* address space of an expandable segment without memory */
};

/** A piece of a segment: one cache line. Blocks are named by number; 0 is no block. */
struct mpl_block {
    uint64_t size;            /* bytes, a multiple of 512 */
    uint64_t position;        /* as an address, but later segments always lie higher */
    uint64_t requested_bytes; /* free: its age, see mpl_allocator_collect */
    uint32_t prev, next;      /* neighbours in the segment */
    /* Free: heap of equal sizes. back is the parent of a first child, else the sibling before; 0
     * for a root. larger and smaller link the roots of a class; unmapped blocks use them too. */
    uint32_t child, back, larger, smaller, sibling;
    uint16_t class;   /* free: of its size */
    uint16_t segment; /* expandable segment plus 1, or 0 */
    uint16_t pool;    /* which free set */
    uint16_t users;   /* in use: other streams that use it, a bit each (record_stream) */
    uint8_t waits;    /* given back: streams that still have to pass its release */
    uint8_t state;    /* enum mpl_block_state */
};

#define MPL_FREESET_WORDS 96 /* 64 of single sizes, and one for each power of two above */

struct mpl_freeset {
    uint64_t summary[2]; /* which words of bits are not 0 */
    uint64_t bits[MPL_FREESET_WORDS];
    uint32_t heads[MPL_FREESET_WORDS * 64]; /* valid where the bit is set */
    uint32_t unmapped;                      /* list of unmapped blocks, in no order */
};

#define MPL_FREESET_SIZE_SHIFT 9  /* sizes are multiples of 512 */
#define MPL_FREESET_EXACT      12 /* below 2^12 units a class holds one size */

static inline uint32_t mpl_freeset_class(uint64_t size)
{
    uint64_t units = size >> MPL_FREESET_SIZE_SHIFT;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(units | UINT64_C(1) << (MPL_FREESET_EXACT - 1));
    bool is_exact = top < MPL_FREESET_EXACT;

    /* Above: the 64 classes of a power of two follow those of the one before. */
    return (is_exact ? 0 : (top - MPL_FREESET_EXACT + 63) << 6) +
           (uint32_t)(units >> (is_exact ? 0 : top - 6));
}

/** First non-empty class from the given one on, or UINT32_MAX. */
static inline uint32_t mpl_freeset_next_class(const struct mpl_freeset *set, uint32_t class)
{
    uint32_t word = class >> 6, half;
    uint64_t mask = set->bits[word] & (~UINT64_C(0) << (class & 63));

    if (mask)
        return (word << 6) + (uint32_t)__builtin_ctzll(mask);
    word++;
    half = word >> 6;
    if (half > 1)
        return UINT32_MAX;
    mask = set->summary[half] & (~UINT64_C(0) << (word & 63));
    if (!mask && half == 0)
        mask = set->summary[half = 1];
    if (!mask)
        return UINT32_MAX;
    word = (half << 6) + (uint32_t)__builtin_ctzll(mask);
    return (word << 6) + (uint32_t)__builtin_ctzll(set->bits[word]);
}

/** Smallest block of at least size bytes, the lowest position among equals; 0 when none. */
static inline uint32_t mpl_freeset_find(const struct mpl_freeset *set,
                                        const struct mpl_block *blocks, uint64_t size)
{
    uint32_t class = mpl_freeset_class(size), found = mpl_freeset_next_class(set, class), b;

    if (found == UINT32_MAX)
        return 0;
    b = set->heads[found];
    if (found > class)
        return b;
    while (b && blocks[b].size < size)
        b = blocks[b].larger;
    if (b)
        return b;
    found = mpl_freeset_next_class(set, class + 1);
    return found == UINT32_MAX ? 0 : set->heads[found];
}

/* The cases in which the class stays or was non-empty. */
void mpl_freeset_add_to_class(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b);
void mpl_freeset_remove_from_class(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b);

/** Adds a block; its size and position must be set and stay as they are until it is removed. */
static inline void mpl_freeset_add(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b)
{
    struct mpl_block *block = &blocks[b];
    uint32_t class = mpl_freeset_class(block->size), word = class >> 6;
    uint64_t bit = UINT64_C(1) << (class & 63);

    block->state = MPL_BLOCK_FREE;
    block->class = (uint16_t) class;
    block->child = block->back = block->larger = block->smaller = 0;
    if (set->bits[word] & bit) {
        mpl_freeset_add_to_class(set, blocks, b);
        return;
    }
    set->heads[class] = b;
    set->bits[word] |= bit;
    set->summary[word >> 6] |= UINT64_C(1) << (word & 63);
}

static inline void mpl_freeset_empty_class(struct mpl_freeset *set, uint32_t class)
{
    uint32_t word = class >> 6;

    set->bits[word] &= ~(UINT64_C(1) << (class & 63));
    set->summary[word >> 6] &= ~((uint64_t)(set->bits[word] == 0) << (word & 63));
}

/** Removes a block. */
static inline void mpl_freeset_remove(struct mpl_freeset *set, struct mpl_block *blocks, uint32_t b)
{
    struct mpl_block *block = &blocks[b];

    block->state = MPL_BLOCK_USED;
    if (block->child | block->back | block->larger | block->smaller)
        mpl_freeset_remove_from_class(set, blocks, b);
    else
        mpl_freeset_empty_class(set, block->class);
}

/** Makes the set empty. */
void mpl_freeset_clear(struct mpl_freeset *set);

/** Makes the set the same as another one; its blocks are the caller's to copy. */
void mpl_freeset_copy(struct mpl_freeset *to, const struct mpl_freeset *from);

#endif
