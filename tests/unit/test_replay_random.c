/* SPDX-License-Identifier: MIT */
/* Random traces through the allocator and through a plain one written for this test. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "replay/allocator.h"
#include "replay_random.h"
#include "test.h"

#define STREAMS 3

/* ---- a plain allocator: one array of blocks in the order of segments and places ---- */

#define PLAIN_BLOCKS 4096

struct plain_block {
    uint64_t segment, size, requested; /* number of the segment; bytes */
    unsigned stream, id;               /* id 0: free */
    bool is_small;
};

struct plain {
    struct plain_block blocks[PLAIN_BLOCKS];
    size_t count;
    uint64_t budget, segments_made, retries, ooms, peak_allocated, peak_reserved;
};

static bool is_segment_end(const struct plain *p, size_t i)
{
    return i + 1 == p->count || p->blocks[i + 1].segment != p->blocks[i].segment;
}

static bool is_segment_start(const struct plain *p, size_t i)
{
    return i == 0 || p->blocks[i - 1].segment != p->blocks[i].segment;
}

static void plain_insert(struct plain *p, size_t at, struct plain_block block)
{
    ck_assert_uint_lt(p->count, PLAIN_BLOCKS);
    memmove(&p->blocks[at + 1], &p->blocks[at], (p->count - at) * sizeof(block));
    p->blocks[at] = block;
    p->count++;
}

static void plain_delete(struct plain *p, size_t at)
{
    p->count--;
    memmove(&p->blocks[at], &p->blocks[at + 1], (p->count - at) * sizeof(p->blocks[0]));
}

static uint64_t plain_reserved(const struct plain *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->count; i++)
        sum += p->blocks[i].size;
    return sum;
}

static uint64_t plain_allocated(const struct plain *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->count; i++)
        sum += p->blocks[i].id ? p->blocks[i].size : 0;
    return sum;
}

static void plain_flush(struct plain *p)
{
    for (size_t i = p->count; i > 0; i--)
        if (!p->blocks[i - 1].id && is_segment_start(p, i - 1) && is_segment_end(p, i - 1))
            plain_delete(p, i - 1);
}

/* Index of the block to use, or of a new segment; p->count when there is none. */
static size_t plain_find(struct plain *p, uint64_t size, unsigned stream)
{
    size_t best = p->count;

    for (size_t i = 0; i < p->count; i++) {
        const struct plain_block *b = &p->blocks[i];

        if (!b->id && b->stream == stream && b->is_small == (size <= MPL_MIB) && b->size >= size &&
            (best == p->count || b->size < p->blocks[best].size))
            best = i;
    }
    return best;
}

static size_t plain_grow(struct plain *p, uint64_t size, unsigned stream)
{
    uint64_t segment = 20 * MPL_MIB, reserved;

    if (size <= MPL_MIB)
        segment = 2 * MPL_MIB;
    else if (size >= 10 * MPL_MIB)
        segment = (size + 2 * MPL_MIB - 1) / (2 * MPL_MIB) * (2 * MPL_MIB);
    if (plain_reserved(p) + segment > p->budget)
        return p->count;
    plain_insert(p, p->count,
                 (struct plain_block){++p->segments_made, segment, 0, stream, 0, size <= MPL_MIB});
    reserved = plain_reserved(p);
    p->peak_reserved = reserved > p->peak_reserved ? reserved : p->peak_reserved;
    return p->count - 1;
}

static bool plain_request(struct plain *p, uint64_t bytes, unsigned stream, unsigned id)
{
    uint64_t size = (bytes + 511) / 512 * 512, rest, allocated;
    size_t i = plain_find(p, size, stream);

    if (i == p->count)
        i = plain_grow(p, size, stream);
    if (i == p->count) {
        plain_flush(p);
        p->retries++;
        i = plain_grow(p, size, stream);
    }
    if (i == p->count) {
        p->ooms++;
        return false;
    }
    rest = p->blocks[i].size - size;
    if (rest >= (size <= MPL_MIB ? 512 : MPL_MIB + 512)) {
        struct plain_block front = p->blocks[i];

        front.size = size;
        p->blocks[i].size = rest;
        plain_insert(p, i, front);
    }
    p->blocks[i].id = id;
    p->blocks[i].requested = bytes;
    allocated = plain_allocated(p);
    p->peak_allocated = allocated > p->peak_allocated ? allocated : p->peak_allocated;
    return true;
}

static void plain_release(struct plain *p, unsigned id)
{
    size_t i = 0;

    while (p->blocks[i].id != id)
        i++;
    p->blocks[i].id = 0;
    if (!is_segment_end(p, i) && !p->blocks[i + 1].id) {
        p->blocks[i].size += p->blocks[i + 1].size;
        plain_delete(p, i + 1);
    }
    if (!is_segment_start(p, i) && !p->blocks[i - 1].id) {
        p->blocks[i - 1].size += p->blocks[i].size;
        plain_delete(p, i);
    }
}

static void plain_compare(const struct plain *p, const struct mpl_allocator *a)
{
    uint64_t requested = 0, split = 0, blocks = 0, segments = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct plain_block *b = &p->blocks[i];

        requested += b->id ? b->requested : 0;
        blocks += b->id != 0;
        segments += is_segment_start(p, i);
        if (!b->id && !(is_segment_start(p, i) && is_segment_end(p, i)))
            split += b->size;
    }
    ck_assert_uint_eq(a->now.allocated, plain_allocated(p));
    ck_assert_uint_eq(a->now.active, plain_allocated(p));
    ck_assert_uint_eq(a->now.reserved, plain_reserved(p));
    ck_assert_uint_eq(a->now.requested, requested);
    ck_assert_uint_eq(a->now.inactive_split, split);
    ck_assert_uint_eq(a->now.blocks, blocks);
    ck_assert_uint_eq(a->now.segments, segments);
    ck_assert_uint_eq(a->now.retries, p->retries);
    ck_assert_uint_eq(a->now.ooms, p->ooms);
    ck_assert_uint_eq(a->now.peak_allocated, p->peak_allocated);
    ck_assert_uint_eq(a->now.peak_reserved, p->peak_reserved);
}

#define LIVE_MAX 300

/* Goes on in a copy: the one that was left is spoiled. */
static void move_to_copy(struct mpl_allocator *a, struct mpl_allocator *spare)
{
    const struct mpl_allocator left = *a;

    ck_assert(mpl_allocator_copy(spare, a));
    *a = *spare;
    *spare = left;
    memset(spare->blocks, 0xa5, spare->block_count * sizeof(*spare->blocks));
}

/* One random trace through both; gives the number of failed requests. */
static uint64_t random_trace(uint64_t seed, uint64_t budget)
{
    struct plain *p = calloc(1, sizeof(*p));
    struct mpl_allocator a = {0}, spare = {0};
    uint32_t blocks[LIVE_MAX];
    unsigned ids[LIVE_MAX], live = 0, id = 0, target = 1;
    uint64_t state = seed, ooms;

    ck_assert_ptr_nonnull(p);
    p->budget = budget;
    mpl_allocator_reset(&a, budget, budget);
    for (int i = 0; i < 1500; i++) {
        if (i % 100 == 0)
            target = 1 + (unsigned)random_below(&state, LIVE_MAX - 1);
        if (random_below(&state, 200) == 0) {
            mpl_allocator_empty_cache(&a);
            plain_flush(p);
        } else if (live < target) {
            uint64_t bytes = random_bytes(&state);
            unsigned stream = (unsigned)random_below(&state, STREAMS);
            uint32_t block = mpl_allocator_request(&a, bytes, stream);

            ck_assert_int_eq(block != 0, plain_request(p, bytes, stream, ++id));
            blocks[live] = block;
            ids[live] = id;
            live += block != 0;
        } else {
            unsigned k = (unsigned)random_below(&state, live);

            mpl_allocator_release(&a, blocks[k]);
            plain_release(p, ids[k]);
            blocks[k] = blocks[--live];
            ids[k] = ids[live];
        }
        plain_compare(p, &a);
        if (i % 50 == 0)
            ck_assert(mpl_allocator_check(&a));
        if (i % 70 == 0)
            move_to_copy(&a, &spare);
    }
    ooms = p->ooms;
    mpl_allocator_free(&a);
    mpl_allocator_free(&spare);
    free(p);
    return ooms;
}

START_TEST(random_traces_match_the_plain_allocator)
{
    uint64_t ooms = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t state = seed, budget = (100 + random_below(&state, 3000)) * MPL_MIB;

        printf("# seed %" PRIu64 "\n", seed);
        ooms += random_trace(seed, budget);
    }
    ck_assert_uint_gt(ooms, 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("allocator");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, random_traces_match_the_plain_allocator);
    return test_run("replay_random", tcase);
}
