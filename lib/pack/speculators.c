/* SPDX-License-Identifier: MIT */
/*
 * speculators: of the shuffled samples, as many of the next ones as can be dealt to all ranks make
 * one batch on each of them. How many is found by bisection; dealt is the longest one first, to the
 * rank that has fewest tokens.
 *
 * source: speculators 0.9.0, train/distributed_batch_sampler.py (_assign_to_packed_batches,
 * _lpt_packed_batch); train/dataloader.py (truncate_long_samples is not given: samples are cut)
 */
#include <string.h>

#include "pack/pack.h"
#include "pack/random.h"

/* A rank's pack, or what is to be one: in a heap by fill, then by slot. */
struct bin {
    uint64_t fill;
    uint32_t slot, samples;
};

struct dealing {
    uint32_t *sorted; /* room for every sample */
    struct bin *heap; /* one a rank */
    uint64_t *sums;   /* sums[i]: tokens of the first i samples */
    uint32_t ranks, most;
};

static int compare_down(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x < y) - (x > y);
}

static bool is_less(const struct bin *a, const struct bin *b)
{
    return a->fill != b->fill ? a->fill < b->fill : a->slot < b->slot;
}

static void sift(struct bin *heap, uint32_t count)
{
    struct bin moved = heap[0];
    uint32_t hole = 0, child;

    while ((child = 2 * hole + 1) < count) {
        if (child + 1 < count && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &moved))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

/* Deals count samples; false: one of them fits on no rank. */
static bool deal(struct dealing *d, const uint32_t *lengths, size_t count)
{
    memcpy(d->sorted, lengths, count * sizeof(*lengths));
    qsort(d->sorted, count, sizeof(*d->sorted), compare_down);
    for (uint32_t i = 0; i < d->ranks; i++)
        d->heap[i] = (struct bin){.slot = i};
    for (size_t i = 0; i < count; i++) {
        if (d->heap[0].fill + d->sorted[i] > d->most)
            return false;
        d->heap[0].fill += d->sorted[i];
        d->heap[0].samples++;
        sift(d->heap, d->ranks);
    }
    return true;
}

/* Samples from `at` on whose tokens are at most `tokens` together: np.searchsorted(.., "right"). */
static size_t count_within(const uint64_t *sums, size_t at, size_t end, uint64_t tokens)
{
    size_t low = at, high = end;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (sums[middle + 1] - sums[at] <= tokens)
            low = middle + 1;
        else
            high = middle;
    }
    return low - at;
}

/* The next batches of all ranks: how many samples they take. */
static size_t take(struct dealing *d, const uint32_t *lengths, size_t at, size_t count)
{
    size_t left = 1;
    size_t right = 1 + count_within(d->sums, at, count, (uint64_t)d->most * d->ranks);
    bool is_dealt = false;

    while (right - left > 1 && right > d->ranks) {
        const size_t middle = (left + right) / 2;

        is_dealt = deal(d, lengths + at, middle);
        if (is_dealt)
            left = middle;
        else
            right = middle;
    }
    if (!is_dealt)
        deal(d, lengths + at, left);
    return left;
}

/* A batch's slots become ranks: the n-th batch is turned by n. */
static enum memplan_status keep(struct mpl_packing *p, const struct dealing *d)
{
    const uint32_t turn = (uint32_t)(p->batches_per_rank++ % d->ranks);
    const size_t first = p->packs.len;
    enum memplan_status status = MEMPLAN_OK;

    for (uint32_t i = 0; i < d->ranks && !status; i++)
        status = mpl_pack_add(p, 0, 0);
    for (uint32_t i = 0; i < d->ranks && !status; i++)
        p->packs.data[first + (d->heap[i].slot + turn) % d->ranks] =
            (struct mpl_pack){(uint32_t)d->heap[i].fill, d->heap[i].samples};
    return status;
}

static enum memplan_status pack_all(struct mpl_packing *p, struct dealing *d)
{
    enum memplan_status status = MEMPLAN_OK;
    size_t at = 0;

    for (size_t i = 0; i < p->count; i++)
        d->sums[i + 1] = d->sums[i] + p->lengths[i];
    while (p->count - at >= d->ranks && !status) {
        at += take(d, p->lengths, at, p->count);
        status = keep(p, d);
    }
    p->summary.dropped_samples += p->count - at;
    p->summary.dropped_tokens += d->sums[p->count] - d->sums[at];
    return status;
}

enum memplan_status mpl_pack_speculators(struct mpl_packing *p)
{
    struct dealing d = {.ranks = (uint32_t)p->options.world_size,
                        .most = (uint32_t)p->options.sequence_length};
    enum memplan_status status;

    if (p->options.micro_batch_size != 1)
        return mpl_fail(p->err, MEMPLAN_ERR_UNSUPPORTED, "/training/micro_batch_size",
                        "rule speculators: found %llu sequences a micro batch, expected 1: each "
                        "rank's pack is one row",
                        (unsigned long long)p->options.micro_batch_size);
    for (size_t i = 0; i < p->count; i++)
        mpl_pack_truncate(p, &p->lengths[i]);
    mpl_random_permute(p->options.seed, p->lengths, p->count);
    d.sorted = malloc((p->count + 1) * sizeof(*d.sorted));
    d.heap = malloc(d.ranks * sizeof(*d.heap));
    d.sums = calloc(p->count + 1, sizeof(*d.sums));
    status = d.sorted && d.heap && d.sums ? pack_all(p, &d) : mpl_pack_nomem(p);
    free(d.sorted);
    free(d.heap);
    free(d.sums);
    return status;
}
