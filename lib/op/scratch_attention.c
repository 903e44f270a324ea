/* SPDX-License-Identifier: MIT */
/* Memory that fused attention kernels take besides their results. */
#include "op/scratch.h"

/* Bytes of [a, b, c, d] elements. */
static uint64_t bytes_of(int64_t a, int64_t b, int64_t c, int64_t d, uint32_t element)
{
    const uint64_t half = mpl_mul(mpl_mul((uint64_t)a, (uint64_t)b), (uint64_t)c);

    return mpl_mul(mpl_mul(half, (uint64_t)d), element);
}

static int64_t round_up(int64_t a, int64_t step)
{
    return (int64_t)mpl_round_up((uint64_t)a, (uint64_t)step);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static uint64_t out_bytes(const struct mpl_scratch_attention *c)
{
    return bytes_of(c->batch, c->query_tokens, c->heads, c->value_head_dim,
                    mpl_dtype_size(c->dtype));
}

/* The gradients of query, key, value. */
static void gradients(const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    const uint32_t e = mpl_dtype_size(c->dtype);

    mpl_scratch_result(out, 0, bytes_of(c->batch, c->query_tokens, c->heads, c->head_dim, e));
    mpl_scratch_result(out, 1, bytes_of(c->batch, c->key_tokens, c->kv_heads, c->head_dim, e));
    mpl_scratch_result(out, 2,
                       bytes_of(c->batch, c->key_tokens, c->kv_heads, c->value_head_dim, e));
}

/* With grouped heads the kernels write a gradient of key and value for every query head, to be
 * summed over groups. Returns how many were taken. */
static int spread_gradients(const struct mpl_scratch_attention *c, struct mpl_scratch *out,
                            uint8_t *takes)
{
    const uint32_t e = mpl_dtype_size(c->dtype);

    if (c->heads == c->kv_heads)
        return 0;
    takes[0] = mpl_scratch_take(out, bytes_of(c->batch, c->key_tokens, c->heads, c->head_dim, e));
    takes[1] =
        mpl_scratch_take(out, bytes_of(c->batch, c->key_tokens, c->heads, c->value_head_dim, e));
    return 2;
}

/* ---- flash ------------------------------------------------------------------------------------
 */

/* num_splits_heuristic: in how many parts the keys are cut when the blocks of all heads leave
 * multiprocessors without work. Arithmetic in float, as there. */
static int64_t count_splits(int64_t blocks, int64_t slots, int64_t key_blocks)
{
    const int64_t most = min64(128, min64(slots, key_blocks));
    float efficiency[128] = {0.0F}, best = 0.0F;

    if ((float)blocks >= 0.8F * (float)slots)
        return 1;
    for (int64_t n = 1; n <= most; n++) {
        const float waves = (float)(blocks * n) / (float)slots;

        if (n > 1 && ceil_div(key_blocks, n) == ceil_div(key_blocks, n - 1))
            continue; /* no smaller parts than with one cut less */
        efficiency[n - 1] = waves / (float)ceil_div(blocks * n, slots);
        if (efficiency[n - 1] > best)
            best = efficiency[n - 1];
    }
    for (int64_t n = 1; n <= most; n++)
        if (efficiency[n - 1] > 0.0F && (double)efficiency[n - 1] >= 0.85 * (double)best)
            return n;
    return 1;
}

/* head sizes as the kernels round them */
static int64_t flash_head_dim(const struct mpl_scratch_attention *c)
{
    return round_up(c->head_dim, c->head_dim <= 128 ? 32 : 64);
}

/*
 * Each part of the keys has its own sums [splits, batch, heads, tokens] and outputs [.., head size]
 * in float32. Two blocks of 128 threads are counted for each multiprocessor. Returns how many were
 * taken.
 * source: transformers/cuda/flash_attn/flash_api.cpp, set_params_splitkv
 */
static int take_parts(const struct mpl_scratch_card *card, const struct mpl_scratch_attention *c,
                      struct mpl_scratch *out, uint8_t *takes)
{
    const int64_t block = c->head_dim <= 64 ? 256 : c->head_dim <= 128 ? 128 : 64;
    const int64_t blocks = c->batch * c->heads * ceil_div(c->query_tokens, 64);
    const int64_t rows = c->batch * c->heads;
    int64_t splits;

    if (c->has_dropout)
        return 0;
    splits = count_splits(blocks, card->multiprocessors * 2, ceil_div(c->key_tokens, block));
    if (splits <= 1)
        return 0;
    takes[0] = mpl_scratch_take(out, bytes_of(splits, rows, c->query_tokens, 1, 4));
    takes[1] = mpl_scratch_take(out, bytes_of(splits, rows, c->query_tokens, flash_head_dim(c), 4));
    return 2;
}

/* source: transformers/cuda/flash_attn/flash_api.cpp, mha_fwd */
static void flash_forward(const struct mpl_scratch_card *card,
                          const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    uint8_t parts[2] = {0}, state = 0;
    int n;

    mpl_scratch_result(out, MPL_ATTENTION_OUT, out_bytes(c));
    mpl_scratch_result(out, MPL_ATTENTION_LSE, bytes_of(c->batch, c->heads, c->query_tokens, 1, 4));
    n = take_parts(card, c, out, parts);
    if (c->has_dropout) { /* the first seed is replaced */
        state = mpl_scratch_take(out, 16);
        mpl_scratch_result(out, MPL_ATTENTION_OFFSET, 8);
        mpl_scratch_result(out, MPL_ATTENTION_SEED, 16);
        mpl_scratch_give(out, state);
    } else {
        mpl_scratch_result(out, MPL_ATTENTION_SEED, 16);
        mpl_scratch_result(out, MPL_ATTENTION_OFFSET, 8);
    }
    for (int i = 0; i < n; i++)
        mpl_scratch_give(out, parts[i]);
}

/*
 * softmax_d [batch, heads, tokens] and dq_accum [batch, tokens, heads, head size] in float32, the
 * tokens rounded up to 128; gradients for every query head.
 * source: attention_backward.cu, _flash_attention_backward; flash_api.cpp, mha_bwd
 */
static void flash_backward(const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    const int64_t tokens = round_up(c->query_tokens, 128);
    uint8_t takes[6];
    int n = 0;

    if (!c->is_token_major)
        takes[n++] = mpl_scratch_take(out, out_bytes(c)); /* out.contiguous() */
    gradients(c, out);
    takes[n++] = mpl_scratch_take(out, bytes_of(c->batch, c->heads, tokens, 1, 4));
    takes[n++] = mpl_scratch_take(out, bytes_of(c->batch, tokens, c->heads, flash_head_dim(c), 4));
    n += spread_gradients(c, out, takes + n);
    while (n > 0)
        mpl_scratch_give(out, takes[--n]);
}

/* source: flash-attn 2.8.3, csrc/flash_attn/flash_api.cpp, mha_fwd, mha_varlen_fwd (which does not
 * cut the keys): the seeds are made with dropout or without. */
void mpl_scratch_flash_attn_forward(const struct mpl_scratch_card *card,
                                    const struct mpl_scratch_attention *call,
                                    struct mpl_scratch *out)
{
    uint8_t parts[2] = {0};
    int n = 0;

    *out = (struct mpl_scratch){0};
    mpl_scratch_result(out, MPL_ATTENTION_OUT, out_bytes(call));
    mpl_scratch_result(out, MPL_ATTENTION_LSE,
                       bytes_of(call->batch, call->heads, call->query_tokens, 1, 4));
    if (!call->sequences)
        n = take_parts(card, call, out, parts);
    mpl_scratch_result(out, MPL_ATTENTION_SEED, 16);
    while (n > 0)
        mpl_scratch_give(out, parts[--n]);
}

/* As flash_backward, but no layout is copied; joined sequences have 128 tokens of room each.
 * source: flash-attn 2.8.3, flash_api.cpp, mha_bwd, mha_varlen_bwd; not deterministic */
void mpl_scratch_flash_attn_backward(const struct mpl_scratch_attention *call,
                                     struct mpl_scratch *out)
{
    const int64_t tokens = call->sequences ? call->query_tokens + 128 * call->sequences
                                           : round_up(call->query_tokens, 128);
    uint8_t takes[4];
    int n = 2;

    *out = (struct mpl_scratch){0};
    takes[0] = mpl_scratch_take(out, bytes_of(call->batch, call->heads, tokens, 1, 4));
    takes[1] =
        mpl_scratch_take(out, bytes_of(call->batch, tokens, call->heads, flash_head_dim(call), 4));
    n += spread_gradients(call, out, takes + n);
    while (n > 0)
        mpl_scratch_give(out, takes[--n]);
}

/* ---- memory-efficient -------------------------------------------------------------------------
 */

/* The kernel: rows and keys of a block, and the largest head size it takes. */
struct efficient {
    int64_t rows, keys, head_dim;
};

/*
 * The first kernel of the list in mem_eff_attention/kernels/cutlassB.h that takes the head size and
 * whose shared memory the card has: 99 KiB on 8.6, 8.9 and 12.x, 64 on 7.5, 163 and more on others.
 */
static struct efficient pick_efficient(double compute_capability,
                                       const struct mpl_scratch_attention *c)
{
    const int arch = (int)(compute_capability * 10.0 + 0.5);
    const bool is_small = arch == 86 || arch == 89 || arch >= 120;
    const int64_t size = c->head_dim > c->value_head_dim ? c->head_dim : c->value_head_dim;

    if (mpl_dtype_size(c->dtype) == 4)
        return (struct efficient){size <= 64 || is_small || arch < 80 ? 64 : 128, 64, INT16_MAX};
    if (size <= 64)
        return (struct efficient){64, 64, 64};
    if (size <= 96 && (arch == 86 || arch == 89) && !c->has_dropout)
        return (struct efficient){128, 64, 96};
    if (size > 128)
        return (struct efficient){128, 64, INT16_MAX};
    if (is_small)
        return (struct efficient){64, 64, 128};
    return (struct efficient){128, arch < 80 ? 64 : 128, 128};
}

/*
 * Bytes of the workspace: for each batch and head, partial gradients of the query [blocks of rows,
 * blocks of the head size] of rows x keys float32 with a lock of 16 bytes; for half kernels that
 * cannot keep them in registers, also of key and value [splits, keys, head size].
 * source: mem_eff_attention/kernel_backward.h, Params::workspace_size; attention_backward.cu,
 * _efficient_attention_backward (num_splits_key)
 */
static uint64_t efficient_workspace(double compute_capability,
                                    const struct mpl_scratch_attention *c)
{
    const struct efficient k = pick_efficient(compute_capability, c);
    const int64_t pairs = c->batch * c->heads;
    const bool is_half = mpl_dtype_size(c->dtype) == 2;
    const bool sums_kv = is_half && k.head_dim > k.rows;
    int64_t splits = ceil_div(c->key_tokens, k.keys);
    uint64_t query, kv = 0;

    if (pairs >= 256 && c->key_tokens <= 2 * k.keys)
        splits = 1;
    if (sums_kv) {
        splits = min64(splits, 200 / pairs);
        splits = splits < 1 ? 1 : splits;
        kv = bytes_of(splits, k.keys,
                      round_up(c->head_dim, k.rows) + round_up(c->value_head_dim, k.rows), 1, 4);
    }
    query = bytes_of(ceil_div(c->query_tokens, k.rows), ceil_div(c->head_dim, k.keys),
                     4 + k.rows * k.keys, 1, 4);
    return mpl_mul((uint64_t)pairs, mpl_round_up(mpl_add(query, kv), 16));
}

/* source: transformers/cuda/attention.cu, _efficient_attention_forward. Half kernels for value
 * sizes above 128 add up in a float32 copy of the output. */
static void efficient_forward(const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    const int64_t tokens = round_up(c->query_tokens, 32);

    if (!c->has_dropout) {
        mpl_scratch_result(out, MPL_ATTENTION_SEED, 8);
        mpl_scratch_result(out, MPL_ATTENTION_OFFSET, 8);
    }
    mpl_scratch_result(out, MPL_ATTENTION_OUT, out_bytes(c));
    mpl_scratch_result(out, MPL_ATTENTION_LSE, bytes_of(c->batch, c->heads, tokens, 1, 4));
    if (mpl_dtype_size(c->dtype) == 2 && c->value_head_dim > 128)
        mpl_scratch_give(out, mpl_scratch_take(out, bytes_of(c->batch, c->query_tokens, c->heads,
                                                             c->value_head_dim, 4)));
}

/*
 * delta [batch, heads, tokens] in float32: made by half kernels; by float32 ones as
 * (grad_out * out).sum(-1).transpose(-2, -1).contiguous(), of which the last step copies unless
 * there is one head or one token.
 * source: attention_backward.cu, _efficient_attention_backward
 */
static void efficient_backward(double compute_capability, const struct mpl_scratch_attention *c,
                               struct mpl_scratch *out)
{
    const uint64_t delta_bytes = bytes_of(c->batch, c->heads, c->query_tokens, 1, 4);
    const bool copies = c->heads > 1 && c->query_tokens > 1;
    uint8_t spread[2] = {0}, delta, product, workspace;
    int n;

    gradients(c, out);
    n = spread_gradients(c, out, spread);
    if (mpl_dtype_size(c->dtype) == 2) {
        delta = mpl_scratch_take(out, delta_bytes);
    } else {
        product = mpl_scratch_take(out, out_bytes(c));
        delta = mpl_scratch_take(out, delta_bytes);
        if (copies) {
            const uint8_t sum = delta;

            delta = mpl_scratch_take(out, delta_bytes);
            mpl_scratch_give(out, sum);
        }
        mpl_scratch_give(out, product);
    }
    workspace = mpl_scratch_take(out, efficient_workspace(compute_capability, c));
    mpl_scratch_give(out, delta);
    mpl_scratch_give(out, workspace);
    while (n > 0)
        mpl_scratch_give(out, spread[--n]);
}

/* ---- cuDNN ------------------------------------------------------------------------------------
 */

/* source: transformers/cuda/attention.cu, _cudnn_attention_forward; cudnn/MHA.cpp */
static void cudnn_forward(const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    mpl_scratch_result(out, MPL_ATTENTION_SEED, 8);
    mpl_scratch_result(out, MPL_ATTENTION_OFFSET, 8);
    mpl_scratch_result(out, MPL_ATTENTION_OUT, out_bytes(c));
    mpl_scratch_result(out, MPL_ATTENTION_LSE, bytes_of(c->batch, c->heads, c->query_tokens, 1, 4));
}

/*
 * What cuDNN's frontend asks for: the gradient of the query and a sum for each row in float32. The
 * library may want more, which only it knows.
 * source: cudnn_frontend, node/scaled_dot_product_flash_attention.h, get_fe_workspace_size_node
 */
static void cudnn_backward(const struct mpl_scratch_attention *c, struct mpl_scratch *out)
{
    gradients(c, out);
    mpl_scratch_give(out, mpl_scratch_take(out, bytes_of(c->batch, c->heads, c->query_tokens,
                                                         c->head_dim + 1, 4)));
}

/* ---- entry ------------------------------------------------------------------------------------
 */

void mpl_scratch_attention_forward(const struct mpl_scratch_card *card,
                                   const struct mpl_scratch_attention *call,
                                   struct mpl_scratch *out)
{
    *out = (struct mpl_scratch){0};
    if (call->kernel == MPL_SDPA_FLASH)
        flash_forward(card, call, out);
    else if (call->kernel == MPL_SDPA_EFFICIENT)
        efficient_forward(call, out);
    else if (call->kernel == MPL_SDPA_CUDNN)
        cudnn_forward(call, out);
}

void mpl_scratch_attention_backward(const struct mpl_scratch_card *card,
                                    const struct mpl_scratch_attention *call,
                                    struct mpl_scratch *out)
{
    *out = (struct mpl_scratch){0};
    if (call->kernel == MPL_SDPA_FLASH)
        flash_backward(call, out);
    else if (call->kernel == MPL_SDPA_EFFICIENT)
        efficient_backward(card->compute_capability, call, out);
    else if (call->kernel == MPL_SDPA_CUDNN)
        cudnn_backward(call, out);
}
