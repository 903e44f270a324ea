/* SPDX-License-Identifier: MIT */
/*
 * torchtitan's packs of chats: the next samples as long as they fit; what does not fit closes the
 * pack, which is padded. Samples that are longer than a pack are dropped.
 *
 * source: torchtitan 0.3.0, hf_datasets/text_datasets.py (ChatDataset)
 */
#include "pack/pack.h"
#include "pack/random.h"

#define SHUFFLE_SEED 42 /* dataset.shuffle(seed=42), before it is split among the ranks */

/* One rank's samples: at .. end. */
static enum memplan_status pack_rank(struct mpl_packing *p, size_t at, size_t end)
{
    const uint64_t longest = p->options.sequence_length;
    uint64_t filled = 0, pieces = 0;
    enum memplan_status status = MEMPLAN_OK;

    for (; at < end && !status; at++) {
        const uint64_t targets = p->lengths[at] ? 1 : 0, tokens = p->lengths[at] - targets;

        if (tokens > longest) {
            p->summary.dropped_samples++;
            p->summary.dropped_tokens += p->lengths[at];
            continue;
        }
        p->summary.target_tokens += targets;
        if (tokens > longest - filled && filled) {
            status = mpl_pack_add(p, filled, pieces);
            filled = pieces = 0;
        }
        filled += tokens;
        pieces++;
        if (filled == longest && !status) {
            status = mpl_pack_add(p, filled, pieces);
            filled = pieces = 0;
        }
    }
    return filled && !status ? mpl_pack_add(p, filled, pieces) : status;
}

enum memplan_status mpl_pack_torchtitan_chat(struct mpl_packing *p)
{
    const size_t ranks = p->options.world_size, each = p->count / ranks, more = p->count % ranks;
    enum memplan_status status = MEMPLAN_OK;
    size_t at = 0;

    mpl_random_permute(SHUFFLE_SEED, p->lengths, p->count);
    p->batches_per_rank = UINT64_MAX;
    for (size_t rank = 0; rank < ranks && !status; rank++) {
        const size_t end = at + each + (rank < more), first = p->packs.len;
        uint64_t batches;

        status = pack_rank(p, at, end);
        at = end;
        batches =
            (p->packs.len - first + p->options.micro_batch_size - 1) / p->options.micro_batch_size;
        if (batches < p->batches_per_rank)
            p->batches_per_rank = batches;
    }
    return status;
}
