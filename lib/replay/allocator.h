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

/** Private pools (torch.cuda.MemPool, CUDA graphs) have numbers from 1 up to this. */
#define MPL_ALLOCATOR_MOST_PRIVATE 255

/** Free sets of one pool: small ones of each stream, then large ones. */
#define MPL_ALLOCATOR_SETS (2 * MPL_ALLOCATOR_STREAMS)

/** A larger request fails on any card. */
#define MPL_ALLOCATOR_MAX_BYTES (UINT64_C(1) << 46)

/** What torch.cuda.memory_stats counts, in bytes unless it says otherwise. */
struct mpl_counters {
    uint64_t allocated, reserved, active, requested, inactive_split;
    uint64_t blocks, segments; /* counts */
    uint64_t retries, ooms;    /* counts: flush and retry, failed requests */
    uint64_t rejections;       /* count: refused before the card was asked (num_oom_rejections) */
    uint64_t device_allocs, device_frees, syncs; /* counts: cudaMalloc, cudaFree, sync of all */
    uint64_t peak_allocated, peak_reserved, peak_active;
};

/** An expandable segment: address space of which the front part has memory. */
struct mpl_reservation {
    uint64_t address;  /* place in the address space: lowest gap that fits */
    uint64_t position; /* of its first byte, see struct mpl_block */
    uint64_t size;     /* bytes */
    uint32_t first;    /* block; 0: dropped, the slot is free */
};

/** Where a plain segment lies: at the lowest address where it fits. */
struct mpl_place {
    uint64_t address, bytes;
    uint32_t block; /* its first one */
};

/** Blocks that were given back while another stream still used them, in order. */
struct mpl_waiting {
    MPL_VEC(struct mpl_waiting_block {
        uint64_t when; /* how many events the stream has recorded with this one */
        uint32_t block;
    })
    blocks;
    size_t first;      /* those before it are through */
    uint64_t recorded; /* events recorded on the stream */
    uint64_t passed;   /* of these, what the stream is known to have passed */
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
    struct mpl_freeset **pools; /* MPL_ALLOCATOR_SETS for each pool, the main one first */
    uint32_t pool_count;        /* room in pools */
    uint32_t pool_base;         /* first set of the pool that requests go to */
    uint64_t total_bytes;       /* of the card: what a fraction is of */
    uint64_t limit_bytes;       /* of reserved bytes: the fraction of the card; UINT64_MAX: none */
    uint64_t max_split_bytes;   /* UINT64_MAX: none */
    uint64_t calls;             /* requests to the main large pool, while garbage is collected */
    bool is_plain;              /* the best free block is taken: no setting says otherwise */
    bool rounds;                /* roundup_power2_divisions is set */
    bool collects;              /* garbage collection is armed */
    bool is_rejected;           /* the request at hand, before the card was asked */
    bool was_rejected;          /* the last request that failed */
    bool is_lazy;               /* the card stands still until the host waits for it */
    bool keeps_places;          /* addresses of plain segments are wanted */
    MPL_VEC(struct mpl_place) places; /* of plain segments, by address */
    uint32_t waiting_count;           /* blocks in waiting */
    struct mpl_waiting waiting[MPL_ALLOCATOR_STREAMS];
    MPL_VEC(uint32_t) segments; /* first block of each plain segment */
    MPL_VEC(struct mpl_reservation) reservations;
};

/** Zero-initialized is a valid argument; keeps its memory for the next run. The settings stand. */
void mpl_allocator_reset(struct mpl_allocator *a, uint64_t budget_bytes, uint64_t card_bytes);

/** torch.cuda.set_per_process_memory_fraction: of total_bytes, 0 to 1; 1 is no limit.
 * mpl_allocator_ reset sets it to what the settings say of card_bytes. */
void mpl_allocator_set_fraction(struct mpl_allocator *a, double fraction, uint64_t total_bytes);

/**
 * Requests bytes (above 0) on a stream; gives the block, or 0 when the request failed. Then either
 * is_out_of_memory is set, and the state is of no more use, or the card had no room left. When the
 * budget is a stage (is_staged; not with expandable segments) and does not do, nothing is given
 * back and no failure is counted: all is as before the request, only same_below says what it asked
 * for.
 */
uint32_t mpl_allocator_request(struct mpl_allocator *a, uint64_t bytes, uint32_t stream);

/** Gives a block back. One that other streams use waits until they have passed this moment. */
void mpl_allocator_release(struct mpl_allocator *a, uint32_t block);

/** The same in two: it is no longer allocated, and later (the other streams are known to have
 * passed) no longer active. */
void mpl_allocator_release_begin(struct mpl_allocator *a, uint32_t block);
void mpl_allocator_release_end(struct mpl_allocator *a, uint32_t block);

/** What the card would be asked for, for a request of bytes: the segment's size. */
uint64_t mpl_allocator_segment_bytes(const struct mpl_allocator *a, uint64_t bytes);

/** Tensor.record_stream: a stream other than the block's own uses it. */
void mpl_allocator_record_stream(struct mpl_allocator *a, uint32_t block, uint32_t stream);

/** The host waits for the card, or for one stream: what was asked of it before is done. */
void mpl_allocator_wait(struct mpl_allocator *a);
void mpl_allocator_wait_stream(struct mpl_allocator *a, uint32_t stream);

/** Requests go to a private pool (1 ..) from now on, or (0) to the main one. False when this
 * process is out of memory. */
bool mpl_allocator_enter_pool(struct mpl_allocator *a, uint32_t pool);

/** torch.cuda.empty_cache(): what is unused goes back to the card, but for private pools. */
void mpl_allocator_empty_cache(struct mpl_allocator *a);

/** Makes an allocator the same as another one, in its own memory; false when there is none. The
 * other one has no blocks that wait, and no private pools. */
bool mpl_allocator_copy(struct mpl_allocator *to, const struct mpl_allocator *from);

/** torch.cuda.reset_peak_memory_stats(). */
void mpl_allocator_reset_peaks(struct mpl_allocator *a);

/** True when free sets, neighbours and counters agree with each other; slow, for tests. */
bool mpl_allocator_check(const struct mpl_allocator *a);

void mpl_allocator_free(struct mpl_allocator *a);

/* ---- between the allocator's files ---- */

#define MPL_POOL_SMALL_LIMIT (UINT64_C(1) << 20)  /* kSmallSize: largest request of a small pool */
#define MPL_CARD_GRAIN       (UINT64_C(2) << 20)  /* cudaMalloc gives multiples of this */
#define MPL_LARGE_SEGMENT    (UINT64_C(20) << 20) /* kLargeBuffer */

#define MPL_BLOCK_ALIGN 64 /* blocks: a cache line each */

/* A request or an unmapping makes at most this many blocks. */
#define MPL_BLOCKS_AHEAD 8

static inline bool mpl_allocator_is_small(uint32_t pool)
{
    return !(pool & MPL_ALLOCATOR_STREAMS);
}

static inline bool mpl_allocator_is_main(uint32_t pool)
{
    return pool < MPL_ALLOCATOR_SETS;
}

static inline uint32_t mpl_allocator_stream(uint32_t pool)
{
    return pool & (MPL_ALLOCATOR_STREAMS - 1);
}

static inline uint64_t mpl_allocator_large_segment(const struct mpl_allocator *a)
{
    return a->conf.large_segment_bytes ? a->conf.large_segment_bytes : MPL_LARGE_SEGMENT;
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
    rest->users = 0;
    rest->waits = 0;
    a->blocks[block->next].prev = r;
    block->next = r;
    block->size = size;
    return r;
}

/** Takes bytes from the card: false when the budget does not allow it. */
bool mpl_allocator_take(struct mpl_allocator *a, uint64_t card_bytes, uint64_t reserved_bytes);

/** An empty free set; false, with is_out_of_memory set, when there is no memory. */
bool mpl_allocator_make_set(struct mpl_allocator *a, uint32_t pool);

/** Notes where a new plain segment lies, and forgets it; while keeps_places. (places.c) */
bool mpl_allocator_place(struct mpl_allocator *a, uint32_t block, uint64_t bytes);
void mpl_allocator_unplace(struct mpl_allocator *a, uint32_t block);

/** What other streams have passed since comes back to the free sets. (release.c) */
void mpl_allocator_take_back(struct mpl_allocator *a);

/** Garbage collection: idle segments of the large pool that were unused for longest go back to the
 * card, when more than the threshold is reserved. (collect.c) */
void mpl_allocator_collect(struct mpl_allocator *a);

/** Gives back free blocks of at least max_split_size of one pool, for a request of size bytes;
 * false when they do not do. (collect.c) */
bool mpl_allocator_release_available(struct mpl_allocator *a, uint32_t pool, uint64_t size);

/** A segment that is one free block goes back to the card; it leaves segments too. (collect.c) */
void mpl_allocator_drop_segment(struct mpl_allocator *a, size_t index);

/** Best free block of an expandable pool, taken out of the free set; 0 when none. */
uint32_t mpl_expand_find(struct mpl_allocator *a, uint32_t pool, uint64_t size);

/** Maps memory behind the free blocks of a pool until one has size bytes, and takes it out of the
 * free set; 0 when the card gives no more. */
uint32_t mpl_expand_grow(struct mpl_allocator *a, uint32_t pool, uint64_t size);

/** Unmaps the whole pages inside free blocks. */
void mpl_expand_empty(struct mpl_allocator *a);

#endif
