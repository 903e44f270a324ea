/* SPDX-License-Identifier: MIT */
/*
 * Packs become batches, and batches optimizer steps.
 *
 * source: transformers 5.24.0, trainer.py (an epoch's steps: batches of a rank over accumulation,
 * rounded up); accelerate 1.15.0, data_loader.py (BatchSamplerShard with even_batches: the last
 * batches are filled up from the first samples); torchtitan 0.3.0, train.py (a step needs all of
 * its micro batches)
 */
#include "pack/pack.h"
#include "pack/random.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b > 0);
}

static enum memplan_status add(struct mpl_packing *p, uint32_t rows, uint32_t length,
                               uint64_t tokens)
{
    if (mpl_vec_reserve(&p->batches))
        return mpl_pack_nomem(p);
    p->batches.data[p->batches.len++] =
        (struct mpl_pack_batch){rows, length, (uint64_t)rows * length - tokens};
    return MEMPLAN_OK;
}

/* Every row has the full length: only how many there are matters. */
static enum memplan_status fixed(struct mpl_packing *p)
{
    const struct memplan_pack_options *o = &p->options;
    struct memplan_pack_summary *s = &p->summary;

    if (p->batches_per_rank == UINT64_MAX)
        p->batches_per_rank = 0;
    s->batches = p->batches_per_rank * o->world_size;
    s->batch_tokens = s->packs * o->sequence_length;
    s->padding_tokens = s->batch_tokens - s->packed_tokens;
    s->shortest = s->longest = s->packs ? o->sequence_length : 0;
    s->steps = p->batches_per_rank / o->accumulation;
    if (!s->packs)
        return MEMPLAN_OK;
    if (mpl_vec_reserve(&p->lengths_of_batches))
        return mpl_pack_nomem(p);
    p->lengths_of_batches.data[p->lengths_of_batches.len++] = (struct memplan_pack_length){
        .length = o->sequence_length, .rows = o->micro_batch_size, .count = s->batches};
    return MEMPLAN_OK;
}

static uint32_t padded(const struct mpl_packing *p, uint64_t length)
{
    return (uint32_t)(divide_up(length, p->options.multiple_of) * p->options.multiple_of);
}

/* Batch i of count; what is missing at the end comes from the beginning. */
static enum memplan_status group(struct mpl_packing *p, const uint32_t *order, uint64_t i)
{
    const uint32_t rows = (uint32_t)p->options.micro_batch_size;
    const uint64_t first = i * rows;
    uint64_t tokens = 0, longest = 0;

    for (uint32_t k = 0; k < rows; k++) {
        const uint32_t own = p->packs.data[order[(first + k) % p->packs.len]].tokens;

        tokens += own;
        longest = own > longest ? own : longest;
    }
    if (p->rule->batching == MPL_PACK_PADDED)
        return add(p, rows, padded(p, longest), tokens);
    if (tokens > MPL_PACK_SAMPLE)
        return mpl_fail(p->err, MEMPLAN_ERR_LIMIT, NULL,
                        "a batch of %llu tokens in one row, expected at most %u",
                        (unsigned long long)tokens, MPL_PACK_SAMPLE);
    return add(p, 1, padded(p, tokens), tokens);
}

static int compare(const void *a, const void *b)
{
    const struct mpl_pack_batch *x = a, *y = b;

    return (x->length > y->length) - (x->length < y->length);
}

static enum memplan_status count_lengths(struct mpl_packing *p)
{
    struct memplan_pack_summary *s = &p->summary;

    qsort(p->batches.data, p->batches.len, sizeof(*p->batches.data), compare);
    for (size_t i = 0; i < p->batches.len; i++) {
        const struct mpl_pack_batch *batch = &p->batches.data[i];
        size_t count = p->lengths_of_batches.len;

        s->batch_tokens += (uint64_t)batch->rows * batch->length;
        s->padding_tokens += batch->padding;
        if (!count || p->lengths_of_batches.data[count - 1].length != batch->length) {
            if (mpl_vec_reserve(&p->lengths_of_batches))
                return mpl_pack_nomem(p);
            p->lengths_of_batches.data[count] =
                (struct memplan_pack_length){.length = batch->length, .rows = batch->rows};
            p->lengths_of_batches.len = ++count;
        }
        p->lengths_of_batches.data[count - 1].count++;
    }
    s->shortest = p->batches.data[0].length;
    s->longest = p->batches.data[p->batches.len - 1].length;
    return MEMPLAN_OK;
}

/* A sampler draws packs in an order of its own; this one is as good as any. */
static enum memplan_status sampled(struct mpl_packing *p)
{
    const struct memplan_pack_options *o = &p->options;
    const uint64_t each = divide_up(divide_up(p->packs.len, o->micro_batch_size), o->world_size);
    enum memplan_status status = MEMPLAN_OK;
    uint32_t *order;

    if (!p->packs.len)
        return MEMPLAN_OK;
    order = malloc(p->packs.len * sizeof(*order));
    if (!order)
        return mpl_pack_nomem(p);
    for (size_t i = 0; i < p->packs.len; i++)
        order[i] = (uint32_t)i;
    mpl_random_permute(o->seed, order, p->packs.len);
    for (uint64_t i = 0; i < each * o->world_size && !status; i++)
        status = group(p, order, i);
    free(order);
    p->summary.batches = each * o->world_size;
    p->summary.steps = divide_up(each, o->accumulation);
    return status ? status : count_lengths(p);
}

enum memplan_status mpl_pack_make_batches(struct mpl_packing *p)
{
    return p->rule->batching == MPL_PACK_FIXED ? fixed(p) : sampled(p);
}
