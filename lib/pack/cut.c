/* SPDX-License-Identifier: MIT */
/*
 * Samples one after the other, cut at the length.
 *
 * source: trl 1.16.0, data_utils.py (_pack_wrapped); trl 0.8.6, trainer/utils.py
 * (ConstantLengthDataset); torchtitan 0.3.0, hf_datasets/text_datasets.py (HuggingFaceTextDataset);
 * datasets 5.2.0, distributed.py (split_dataset_by_node of a map-style dataset: contiguous parts)
 */
#include "pack/pack.h"

#define BUFFERED_PACKS 1024 /* ConstantLengthDataset: num_of_sequences */

/* What is on the belt: the pack that is being filled. */
struct belt {
    struct mpl_packing *packing;
    uint64_t filled;  /* tokens of the pack */
    uint64_t pieces;  /* samples in it */
    uint64_t begun;   /* samples that begin in it */
    uint32_t longest; /* where it is cut */
};

/* One sample on the belt. */
static enum memplan_status feed(struct belt *belt, uint64_t tokens)
{
    enum memplan_status status = MEMPLAN_OK;
    bool is_split = false;

    if (tokens / belt->longest >= MPL_PACK_SAMPLES - belt->packing->packs.len)
        return mpl_pack_too_many(belt->packing);
    belt->begun++;
    while (tokens && !status) {
        const uint64_t room = belt->longest - belt->filled;
        const uint64_t piece = tokens < room ? tokens : room;

        belt->filled += piece;
        belt->pieces++;
        tokens -= piece;
        if (belt->filled == belt->longest) {
            status = mpl_pack_add(belt->packing, belt->filled, belt->pieces);
            belt->filled = belt->pieces = belt->begun = 0;
            is_split = is_split || tokens;
        }
    }
    belt->packing->summary.split_samples += is_split;
    return status;
}

/* The rest is a shorter pack. */
static enum memplan_status keep_rest(struct belt *belt)
{
    enum memplan_status status = MEMPLAN_OK;

    if (belt->filled)
        status = mpl_pack_add(belt->packing, belt->filled, belt->pieces);
    belt->filled = belt->pieces = belt->begun = 0;
    return status;
}

/* The rest is in no pack. */
static void lose_rest(struct belt *belt)
{
    belt->packing->summary.dropped_tokens += belt->filled;
    belt->packing->summary.dropped_samples += belt->begun;
    belt->filled = belt->pieces = belt->begun = 0;
}

static struct belt belt_of(struct mpl_packing *p)
{
    return (struct belt){.packing = p, .longest = (uint32_t)p->options.sequence_length};
}

enum memplan_status mpl_pack_trl_wrapped(struct mpl_packing *p)
{
    struct belt belt = belt_of(p);
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < p->count && !status; i++) {
        status = feed(&belt, p->lengths[i]);
        if (!status && (i + 1 == p->count || (i + 1) % p->options.map_batch == 0))
            status = keep_rest(&belt);
    }
    return status;
}

/* The buffer is full by characters of text: a token counts as many as the rule takes it to have
 * (chars_per_token), so that it is full at 1024 packs' tokens without their end tokens. */
enum memplan_status mpl_pack_trl_constant(struct mpl_packing *p)
{
    const uint64_t full = p->options.sequence_length * BUFFERED_PACKS;
    struct belt belt = belt_of(p);
    enum memplan_status status = MEMPLAN_OK;
    uint64_t buffered = 0;

    for (size_t i = 0; i < p->count && !status; i++) {
        status = feed(&belt, (uint64_t)p->lengths[i] + 1);
        buffered += p->lengths[i];
        p->summary.added_tokens++;
        if (i + 1 == p->count || buffered >= full) {
            lose_rest(&belt);
            buffered = 0;
        }
    }
    return status;
}

/* The last token of a document is only a target. Each rank has a part of the documents; an epoch
 * ends with the rank that has fewest packs. */
enum memplan_status mpl_pack_torchtitan(struct mpl_packing *p)
{
    const size_t ranks = p->options.world_size, each = p->count / ranks, more = p->count % ranks;
    enum memplan_status status = MEMPLAN_OK;
    size_t at = 0;

    p->batches_per_rank = UINT64_MAX;
    for (size_t rank = 0; rank < ranks && !status; rank++) {
        const size_t end = at + each + (rank < more), first = p->packs.len;
        struct belt belt = belt_of(p);
        uint64_t batches;

        for (; at < end && !status; at++) {
            const uint32_t targets = p->lengths[at] ? 1 : 0;

            status = feed(&belt, p->lengths[at] - targets);
            p->summary.target_tokens += targets;
        }
        lose_rest(&belt);
        batches =
            (p->packs.len - first + p->options.micro_batch_size - 1) / p->options.micro_batch_size;
        if (batches < p->batches_per_rank)
            p->batches_per_rank = batches;
    }
    return status;
}
