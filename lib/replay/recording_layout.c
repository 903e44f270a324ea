/* SPDX-License-Identifier: MIT */
/* Where segments and blocks lie, as torch.cuda.memory_snapshot() lists them: by address, runs of
 * mapped pages of an expandable segment as segments of their own. */
#include <stdlib.h>

#include "replay/recording.h"

static enum mpl_layout_state state_of(const struct mpl_block *block)
{
    if (block->state == MPL_BLOCK_FREE)
        return MPL_LAYOUT_IDLE;
    return block->waits ? MPL_LAYOUT_WAITING : MPL_LAYOUT_IN_USE;
}

/* One segment, from a block to the end or to what has no memory; gives the block after it. */
static bool put_segment(const struct mpl_allocator *a, uint32_t *b,
                        struct mpl_recording_result *result)
{
    const struct mpl_block *block = &a->blocks[*b];
    struct mpl_recording_segment segment = {
        .first = (uint32_t)result->blocks.len,
        .stream = (uint8_t)mpl_allocator_stream(block->pool),
        .is_small = mpl_allocator_is_small(block->pool),
        .is_expandable = block->segment != 0,
    };

    for (; *b && a->blocks[*b].state != MPL_BLOCK_UNMAPPED; *b = a->blocks[*b].next) {
        block = &a->blocks[*b];
        if (mpl_vec_reserve(&result->blocks))
            return false;
        result->blocks.data[result->blocks.len++] =
            (struct mpl_recording_block){block->size, (uint8_t)state_of(block)};
        segment.bytes += block->size;
        segment.count++;
    }
    if (mpl_vec_reserve(&result->segments))
        return false;
    result->segments.data[result->segments.len++] = segment;
    return true;
}

static bool put_runs(const struct mpl_allocator *a, uint32_t b, struct mpl_recording_result *result)
{
    while (b) {
        if (a->blocks[b].state == MPL_BLOCK_UNMAPPED)
            b = a->blocks[b].next;
        else if (!put_segment(a, &b, result))
            return false;
    }
    return true;
}

static int by_address(const void *left, const void *right)
{
    const struct mpl_reservation *a = left, *b = right;

    return (a->address > b->address) - (a->address < b->address);
}

static bool put_reservations(const struct mpl_allocator *a, struct mpl_recording_result *result)
{
    const size_t count = a->reservations.len;
    struct mpl_reservation *sorted = malloc((count + 1) * sizeof(*sorted));
    bool is_done = sorted != NULL;

    if (!sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[i] = a->reservations.data[i];
    qsort(sorted, count, sizeof(*sorted), by_address);
    for (size_t i = 0; i < count && is_done; i++)
        is_done = put_runs(a, sorted[i].first, result);
    free(sorted);
    return is_done;
}

bool mpl_recording_layout(const struct mpl_allocator *a, struct mpl_recording_result *result)
{
    for (size_t i = 0; i < a->places.len; i++) {
        uint32_t b = a->places.data[i].block;

        if (!put_segment(a, &b, result))
            return false;
    }
    return put_reservations(a, result);
}
