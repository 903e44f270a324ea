/* SPDX-License-Identifier: MIT */
/*
 * Memory that the kernels of the package flash-attn-3 take besides their results.
 *
 * source: flash-attn-3 (Dao-AILab/flash-attention, hopper/flash_api.cpp: mha_fwd, mha_bwd), main of
 * 2026
 */
#include "op/scratch.h"

#include <stddef.h>

#define FLOAT_BYTES 4
#define INT_BYTES   4

static int64_t round_up(int64_t a, int64_t step)
{
    return (int64_t)mpl_round_up((uint64_t)a, (uint64_t)step);
}

static uint64_t bytes_of(int64_t a, int64_t b, int64_t c, uint32_t element)
{
    return mpl_mul(mpl_mul(mpl_mul((uint64_t)a, (uint64_t)b), (uint64_t)c), element);
}

/* round_up_headdim: with every size built */
static int64_t head_size(const struct mpl_scratch_attention *c)
{
    static const int64_t sizes[] = {64, 96, 128, 192};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (c->head_dim <= sizes[i])
            return sizes[i];
    return 256;
}

static bool is_hopper(const struct mpl_scratch_card *card)
{
    return card->compute_capability >= 9.0;
}

static bool is_small(const struct mpl_scratch_card *card)
{
    const int arch = (int)(card->compute_capability * 10.0 + 0.5);

    return arch == 86 || arch == 89;
}

/* kBlockM: queries of a block in backward */
static int64_t query_block(const struct mpl_scratch_card *card,
                           const struct mpl_scratch_attention *c)
{
    const int64_t size = head_size(c);

    if (!is_hopper(card))
        return is_small(card) ? (size <= 192 ? 64 : 32) : (size <= 64 ? 128 : 64);
    if (size <= 64)
        return c->is_causal && c->is_capped ? 96 : 128;
    return size == 128 && !c->is_causal && !c->is_local && !c->is_capped ? 80 : 64;
}

/* kBlockN: keys of a block in backward */
static int64_t key_block(const struct mpl_scratch_card *card, const struct mpl_scratch_attention *c)
{
    const int64_t size = head_size(c);

    if (is_hopper(card))
        return size <= 128 ? 128 : size <= 192 ? 96 : 80;
    if (is_small(card))
        return size <= 96 ? 128 : size <= 128 ? 96 : 64;
    return size <= 128 ? 128 : size <= 192 ? 80 : 64;
}

/* The scheduler's numbers, int32: a counter of tiles, and for joined sequences (their number
 * rounded up to 4) up to four lists. The keys are not cut (num_splits 1). */
static uint64_t scheduler_bytes(const struct mpl_scratch_card *card,
                                const struct mpl_scratch_attention *c)
{
    const bool is_masked = c->is_causal || c->is_local, is_joined = c->sequences > 0;
    const bool has_counter = is_hopper(card) ? is_masked || is_joined : c->is_causal && !is_joined;
    const int64_t batch = is_joined ? c->sequences : c->batch;
    const int64_t lists = (is_joined ? 2 : 0) + (c->is_local ? 0 : 1) + (is_masked ? 1 : 0);

    if (!has_counter && !is_joined)
        return 0;
    return bytes_of((has_counter ? 1 : 0) + round_up(batch, 4) * lists, 1, 1, INT_BYTES);
}

void mpl_scratch_flash_attn_3_forward(const struct mpl_scratch_card *card,
                                      const struct mpl_scratch_attention *call,
                                      struct mpl_scratch *out)
{
    const uint64_t scheduler = scheduler_bytes(card, call);

    *out = (struct mpl_scratch){0};
    mpl_scratch_result(out, MPL_ATTENTION_OUT,
                       bytes_of(call->batch * call->query_tokens, call->heads, call->head_dim,
                                mpl_dtype_size(call->dtype)));
    mpl_scratch_result(out, MPL_ATTENTION_LSE,
                       bytes_of(call->batch, call->heads, call->query_tokens, FLOAT_BYTES));
    if (scheduler)
        mpl_scratch_give(out, mpl_scratch_take(out, scheduler));
}

/* softmax_d and the log-sum-exp in base 2, [batch, heads, tokens], dq_accum [.., head size], with
 * grouped heads dk_accum and dv_accum, all float32; a semaphore for each block of queries. Joined
 * sequences have a block of room each. */
void mpl_scratch_flash_attn_3_backward(const struct mpl_scratch_card *card,
                                       const struct mpl_scratch_attention *call,
                                       struct mpl_scratch *out)
{
    const int64_t m = query_block(card, call), n = key_block(card, call), size = head_size(call);
    const int64_t joined = call->sequences;
    const int64_t queries = round_up(call->query_tokens + joined * m, m) * call->batch;
    const int64_t keys = round_up(call->key_tokens + joined * n, n) * call->batch;
    const int64_t longest = joined ? call->longest : call->query_tokens;
    const uint64_t sums = bytes_of(call->heads, queries, 1, FLOAT_BYTES);
    uint8_t takes[6];
    int count = 0;

    *out = (struct mpl_scratch){0};
    takes[count++] = mpl_scratch_take(out, sums);
    takes[count++] = mpl_scratch_take(out, sums);
    takes[count++] = mpl_scratch_take(out, mpl_mul(sums, (uint64_t)size));
    for (int i = 0; i < 2 && call->heads != call->kv_heads; i++)
        takes[count++] = mpl_scratch_take(out, bytes_of(call->kv_heads, keys, size, FLOAT_BYTES));
    takes[count++] =
        mpl_scratch_take(out, bytes_of((longest + m - 1) / m, joined ? joined : call->batch,
                                       call->heads, INT_BYTES));
    while (count > 0)
        mpl_scratch_give(out, takes[--count]);
}
