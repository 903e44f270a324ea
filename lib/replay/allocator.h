/* SPDX-License-Identifier: MIT */
/*
 * The caching allocator of PyTorch on one card (c10/cuda/CUDACachingAllocator.cpp): requests,
 * releases and counters, one at a time. The replay and its tests drive it.
 *
 * A request looks for the smallest free block of its pool and stream; else it gets a new segment
 * from the card (or grows an expandable one); else all unused segments go back to the card and it
 * tries once more; else it fails.
 */
#ifndef MPL_REPLAY_ALLOCATOR_H
#define MPL_REPLAY_ALLOCATOR_H

#include "base/vec.h"
#include "replay/conf.h"
#include "replay/freeset.h"

/** Streams have numbers below this. */
#define MPL_ALLOCATOR_STREAMS 16

/** A larger request fails on any card. */
#define MPL_ALLOCATOR_MAX_BYTES (UINT64_C(1) << 46)

/** What torch.cuda.memory_stats counts, in bytes unless it says otherwise. */
struct mpl_counters {
    uint64_t allocated, reserved, active, requested, inactive_split;
    uint64_t blocks, segments; /* counts */
    uint64_t retries, ooms;    /* counts: flush and retry, failed requests */
    uint64_t peak_allocated, peak_reserved, peak_active;
};

/** An expandable segment: address space of which the front part has memory. */
struct mpl_reservation {
    uint64_t address;  /* place in the address space: lowest gap that fits */
    uint64_t position; /* of its first byte, see struct mpl_block */
    uint64_t size;     /* bytes */
    uint32_t first;    /* block; 0: dropped, the slot is free */
};

struct mpl_allocator {
    struct mpl_block *blocks; /* [0] stands for no neighbour: always in use */
    uint32_t block_count, block_room, spare;
    bool is_out_of_memory; /* this process, not the card */
    bool is_staged;        /* the budget is not the last word: see mpl_allocator_request */
    struct mpl_alloc_conf conf;
    uint64_t budget_bytes; /* what the card gives to the allocator */
    uint64_t card_bytes;   /* size of the card: sets the size of reservations */
    uint64_t used_bytes;   /* taken from the card */
    uint64_t position;     /* of the next segment */
    /* Any budget in [same_from, same_below) would have given the same answers so far. */
    uint64_t same_from, same_below;
    struct mpl_counters now;
    struct mpl_freeset *pools[2 * MPL_ALLOCATOR_STREAMS]; /* small ones, then large ones */
    MPL_VEC(uint32_t) segments;                           /* first block of each plain segment */
    MPL_VEC(struct mpl_reservation) reservations;
};

/** Zero-initialized is a valid argument; keeps its memory for the next run. The settings stand. */
void mpl_allocator_reset(struct mpl_allocator *a, uint64_t budget_bytes, uint64_t card_bytes);

/**
 * Requests bytes (above 0) on a stream; gives the block, or 0 when the request failed. Then either
 * is_out_of_memory is set, and the state is of no more use, or the card had no room left. When the
 * budget is a stage (is_staged; not with expandable segments) and does not do, nothing is given
 * back and no failure is counted: all is as before the request, only same_below says what it asked
 * for.
 */
uint32_t mpl_allocator_request(struct mpl_allocator *a, uint64_t bytes, uint32_t stream);

/** Gives a block back. */
void mpl_allocator_release(struct mpl_allocator *a, uint32_t block);

/** torch.cuda.empty_cache(): what is unused goes back to the card. */
void mpl_allocator_empty_cache(struct mpl_allocator *a);

/** Makes an allocator the same as another one, in its own memory; false when there is none. */
bool mpl_allocator_copy(struct mpl_allocator *to, const struct mpl_allocator *from);

/** torch.cuda.reset_peak_memory_stats(). */
void mpl_allocator_reset_peaks(struct mpl_allocator *a);

/** True when free sets, neighbours and counters agree with each other; slow, for tests. */
bool mpl_allocator_check(const struct mpl_allocator *a);

void mpl_allocator_free(struct mpl_allocator *a);

/* ---- between allocator.c and expand.c ---- */

#define MPL_POOL_SMALL_LIMIT (UINT64_C(1) << 20)  /* kSmallSize: largest request of a small pool */
#define MPL_CARD_GRAIN       (UINT64_C(2) << 20)  /* cudaMalloc gives multiples of this */
#define MPL_LARGE_SEGMENT    (UINT64_C(20) << 20) /* kLargeBuffer */

/* A request or an unmapping makes at most this many blocks. */
#define MPL_BLOCKS_AHEAD 8

static inline bool mpl_allocator_is_small(uint32_t pool)
{
    return pool < MPL_ALLOCATOR_STREAMS;
}

bool mpl_allocator_grow_room(struct mpl_allocator *a);

/** Room for MPL_BLOCKS_AHEAD more blocks; false, with is_out_of_memory set, when there is none. */
static inline bool mpl_allocator_make_room(struct mpl_allocator *a)
{
    return a->block_room - a->block_count >= MPL_BLOCKS_AHEAD || mpl_allocator_grow_room(a);
}

/** A block number; there must be room. */
static inline uint32_t mpl_allocator_new_block(struct mpl_allocator *a)
{
    uint32_t b = a->spare;

    if (b) {
        a->spare = a->blocks[b].next;
        return b;
    }
    return a->block_count++;
}

static inline void mpl_allocator_drop_block(struct mpl_allocator *a, uint32_t b)
{
    a->blocks[b].next = a->spare;
    a->blocks[b].state = MPL_BLOCK_USED;
    a->spare = b;
}

/** Lets a block take the bytes of the neighbour after it, which ceases to be. */
static inline void mpl_allocator_absorb_next(struct mpl_allocator *a, uint32_t b)
{
    struct mpl_block *blocks = a->blocks;
    uint32_t other = blocks[b].next, after = blocks[other].next;

    blocks[b].size += blocks[other].size;
    blocks[b].next = after;
    blocks[after].prev = b; /* [0] may be written: nobody reads it, and no branch is cheaper */
    mpl_allocator_drop_block(a, other);
}

/** Cuts a block so that size bytes stay; gives the new block after it, in use. There must be room.
 */
static inline uint32_t mpl_allocator_split(struct mpl_allocator *a, uint32_t b, uint64_t size)
{
    uint32_t r = mpl_allocator_new_block(a);
    struct mpl_block *block = &a->blocks[b], *rest = &a->blocks[r];

    rest->size = block->size - size;
    rest->position = block->position + size;
    rest->prev = b;
    rest->next = block->next;
    rest->state = MPL_BLOCK_USED;
    rest->pool = block->pool;
    rest->segment = block->segment;
    a->blocks[block->next].prev = r;
    block->next = r;
    block->size = size;
    return r;
}

/** Takes bytes from the card: false when the budget does not allow it. */
bool mpl_allocator_take(struct mpl_allocator *a, uint64_t card_bytes, uint64_t reserved_bytes);

/** Best free block of an expandable pool, taken out of the free set; 0 when none. */
uint32_t mpl_expand_find(struct mpl_allocator *a, uint32_t pool, uint64_t size);

/** Maps memory behind the free blocks of a pool until one has size bytes, and takes it out of the
 * free set; 0 when the card gives no more. */
uint32_t mpl_expand_grow(struct mpl_allocator *a, uint32_t pool, uint64_t size);

/** Unmaps the whole pages inside free blocks. */
void mpl_expand_empty(struct mpl_allocator *a);

#endif
