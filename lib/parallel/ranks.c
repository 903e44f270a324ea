/* SPDX-License-Identifier: MIT */
/*
 * Which ranks are alike. FSDP2 cuts rows: the last ranks of a parameter have fewer, so that classes
 * are neighbours. FSDP1 and ZeRO cut flat buffers at any element, and ZeroRedundancyOptimizer deals
 * out whole parameters: there any two ranks may differ, and what each holds is compared.
 */
#include "parallel/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "parallel/fsdp1.h"
#include "parallel/fsdp2_group.h"
#include "parallel/zero.h"
#include "parallel/zero_redundancy.h"

/* ---- what a shard holds -----------------------------------------------------------------------
 */

/* A step of splitmix64: sums of sizes would not tell their order. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xbf58476d1ce4e5b9) + UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

void mpl_rank_sign(struct mpl_rank_signs *signs, uint64_t shard, uint64_t bytes, uint64_t more)
{
    if (shard >= signs->shards)
        return;
    signs->hash[shard] = mix(mix(signs->hash[shard], bytes), more);
    signs->bytes[shard] = mpl_add(signs->bytes[shard], mpl_round_up(bytes, 512));
}

void mpl_rank_sign_row(struct mpl_rank_signs *signs, uint64_t start, uint64_t numel, uint64_t step,
                       enum mpl_dtype dtype)
{
    const uint64_t end = mpl_add(start, numel);

    for (uint64_t at = start; at < end && at / step < signs->shards;) {
        const uint64_t next = mpl_mul(at / step + 1, step), stop = next < end ? next : end;

        mpl_rank_sign(signs, at / step, mpl_dtype_bytes(dtype, stop - at), dtype);
        at = stop;
    }
}

/* ---- classes from shards ----------------------------------------------------------------------
 */

struct naming {
    char *text;
    size_t size, used;
};

static void put_run(struct naming *n, int64_t from, int64_t to)
{
    char run[48];
    const char *comma = n->used ? ", " : "";
    const int len = from == to ? snprintf(run, sizeof(run), "%s%lld", comma, (long long)from)
                               : snprintf(run, sizeof(run), "%s%lld-%lld", comma, (long long)from,
                                          (long long)to);

    if (n->used + (size_t)len + sizeof(", ...") > n->size) {
        if (n->used < n->size)
            snprintf(n->text + n->used, n->size - n->used, ", ...");
        n->used = n->size;
        return;
    }
    memcpy(n->text + n->used, run, (size_t)len + 1);
    n->used += (size_t)len;
}

/* "0-6, 8": of is the class of each shard, and shards repeat for each replica. */
static void name_class(struct mpl_rank_class *class, const uint16_t *of, uint16_t wanted,
                       int64_t shards, int64_t replicas)
{
    struct naming n = {class->ranks, sizeof(class->ranks), 0};
    int64_t from = -1;

    for (int64_t rank = 0; rank <= shards * replicas && n.used < n.size; rank++) {
        const bool is_in = rank < shards * replicas && of[rank % shards] == wanted;

        if (is_in && from < 0)
            from = rank;
        if (!is_in && from >= 0) {
            put_run(&n, from, rank - 1);
            from = -1;
        }
    }
}

/* The class of a shard: that of an earlier one which holds the same, or a new one. Open hashing
 * over twice the shards. */
static uint16_t find_class(struct mpl_rank_classes *classes, uint16_t *slots, uint64_t room,
                           const struct mpl_rank_signs *signs, uint64_t shard)
{
    for (uint64_t at = signs->hash[shard] % room;; at = (at + 1) % room) {
        if (!slots[at]) {
            slots[at] = (uint16_t)(classes->count + 1);
            classes->of[classes->count] =
                (struct mpl_rank_class){.first = (int64_t)shard, .bytes = signs->bytes[shard]};
            return (uint16_t)classes->count++;
        }
        if (signs->hash[classes->of[slots[at] - 1].first] == signs->hash[shard] &&
            signs->bytes[classes->of[slots[at] - 1].first] == signs->bytes[shard])
            return (uint16_t)(slots[at] - 1);
    }
}

static enum memplan_status sort_out(const struct mpl_rank_signs *signs, int64_t replicas,
                                    struct mpl_arena *arena, struct mpl_rank_classes *classes,
                                    struct memplan_error *err)
{
    const uint64_t room = 2 * signs->shards;
    uint16_t *slots = calloc(room + signs->shards, sizeof(*slots)), *of = slots + room;

    classes->of = mpl_arena_zalloc(arena, signs->shards * sizeof(*classes->of));
    if (!slots || !classes->of) {
        free(slots);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    }
    for (uint64_t s = 0; s < signs->shards; s++) {
        of[s] = find_class(classes, slots, room, signs, s);
        classes->of[of[s]].count += replicas;
    }
    for (uint32_t c = 0; c < classes->count; c++)
        name_class(&classes->of[c], of, (uint16_t)c, (int64_t)signs->shards, replicas);
    free(slots);
    return MEMPLAN_OK;
}

/* ---- strategies -------------------------------------------------------------------------------
 */

/* Rows of the shards, whole or not; they fall from rank to rank, and only where that happens is
 * looked at. */
static void sign_rows(struct mpl_rank_signs *signs, const struct mpl_parameter *p,
                      const bool *begins)
{
    const uint64_t shards = signs->shards, rows = (uint64_t)p->shape.dim[0].n;
    const uint64_t chunk = mpl_ceil_div(rows, shards);
    const uint64_t width = rows ? mpl_parameter_numel(p) / rows : 0;

    for (uint64_t s = 0; s < shards; s++) {
        const uint64_t left = begins[s] && s * chunk < rows ? rows - s * chunk : 0;

        if (begins[s])
            mpl_rank_sign(signs, s,
                          mpl_dtype_bytes(p->dtype, mpl_mul(left < chunk ? left : chunk, width)),
                          p->is_trainable);
    }
}

/* Marks the first shard that has fewer rows of a parameter, and the first that has none. */
static void mark_rows(bool *begins, uint64_t shards, const struct mpl_parameter *p)
{
    const uint64_t rows = (uint64_t)p->shape.dim[0].n, chunk = mpl_ceil_div(rows, shards);
    const uint64_t whole = chunk ? rows / chunk : 0;

    if (whole < shards)
        begins[whole] = true;
    if (whole + 1 < shards)
        begins[whole + 1] = true;
}

static enum memplan_status sign_fsdp2(struct mpl_rank_signs *signs,
                                      const struct mpl_network *network, struct mpl_arena *arena,
                                      struct memplan_error *err)
{
    bool *begins = mpl_arena_zalloc(arena, signs->shards * sizeof(*begins));

    if (!begins)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    begins[0] = true;
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].shards)
            mark_rows(begins, signs->shards, &network->parameters[i]);
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].shards)
            sign_rows(signs, &network->parameters[i], begins);
    for (uint64_t s = 1; s < signs->shards; s++)
        if (!begins[s]) {
            signs->hash[s] = signs->hash[s - 1];
            signs->bytes[s] = signs->bytes[s - 1];
        }
    return MEMPLAN_OK;
}

static bool fsdp2_is_even(const struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].shards &&
            network->parameters[i].shape.dim[0].n % network->parameters[i].shards)
            return false;
    return true;
}

/* Parts that one rank has; 1: all ranks are alike. */
static uint64_t count_shards(const struct mpl_network *network)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;

    switch (p->strategy) {
    case MPL_STRATEGY_NONE:
    case MPL_STRATEGY_ZERO3: /* each weight's parts are padded to one size */
        return 1;
    case MPL_STRATEGY_DDP:
        return p->zero1 ? (uint64_t)p->world_size : 1;
    case MPL_STRATEGY_FSDP2:
        return p->cpu_offload || fsdp2_is_even(network) ? 1
                                                        : (uint64_t)(p->world_size / p->replicate);
    case MPL_STRATEGY_FSDP1:
        return p->use_orig_params ? mpl_fsdp1_shards(network) : 1;
    case MPL_STRATEGY_ZERO1:
    case MPL_STRATEGY_ZERO2:
        return (uint64_t)p->world_size;
    }
    return 1;
}

static enum memplan_status sign_all(const struct mpl_network *network, const struct mpl_optim *all,
                                    struct mpl_arena *arena, struct mpl_rank_signs *signs,
                                    struct memplan_error *err)
{
    switch (network->plan->parallelism.strategy) {
    case MPL_STRATEGY_FSDP2:
        return sign_fsdp2(signs, network, arena, err);
    case MPL_STRATEGY_FSDP1:
        mpl_fsdp1_sign(network, signs);
        break;
    case MPL_STRATEGY_ZERO1:
    case MPL_STRATEGY_ZERO2:
        mpl_zero_sign(network, signs);
        break;
    case MPL_STRATEGY_DDP:
        return mpl_zero_redundancy_sign(network->plan, all, arena, signs, err);
    case MPL_STRATEGY_NONE:
    case MPL_STRATEGY_ZERO3:
        break;
    }
    return MEMPLAN_OK;
}

/* One class of all ranks. */
static enum memplan_status all_alike(int64_t ranks, struct mpl_arena *arena,
                                     struct mpl_rank_classes *classes, struct memplan_error *err)
{
    classes->count = 1;
    classes->of = mpl_arena_zalloc(arena, sizeof(*classes->of));
    if (!classes->of)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    classes->of->count = ranks;
    snprintf(classes->of->ranks, sizeof(classes->of->ranks), ranks > 1 ? "0-%lld" : "0",
             (long long)ranks - 1);
    return MEMPLAN_OK;
}

enum memplan_status mpl_ranks_classify(const struct mpl_network *network,
                                       const struct mpl_optim *all, struct mpl_arena *arena,
                                       struct mpl_rank_classes *classes, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;
    const int64_t ranks = p->strategy == MPL_STRATEGY_NONE ? 1 : p->world_size;
    struct mpl_rank_signs signs = {.shards = count_shards(network)};
    enum memplan_status status;

    *classes = (struct mpl_rank_classes){.is_partial = signs.shards > MPL_MOST_SHARDS};
    if (signs.shards == 1 || classes->is_partial)
        return all_alike(ranks, arena, classes, err);
    signs.hash = calloc(2 * signs.shards, sizeof(*signs.hash));
    if (!signs.hash)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    signs.bytes = signs.hash + signs.shards;
    status = sign_all(network, all, arena, &signs, err);
    if (!status)
        status = sort_out(&signs, ranks / (int64_t)signs.shards, arena, classes, err);
    free(signs.hash);
    return status;
}
