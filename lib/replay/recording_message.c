/* SPDX-License-Identifier: MIT */
/* What PyTorch says when a request fails (c10/cuda/CUDACachingAllocator.cpp, release 2.14). */
#include "base/bytes.h"
#include "base/strbuf.h"
#include "replay/recording.h"

#define KIB UINT64_C(1024)

static void put_scaled(struct mpl_strbuf *out, double value, const char *unit)
{
    mpl_strbuf_fixed(out, value, 2);
    mpl_strbuf_put(out, unit);
}

/* format_size: a size of exactly 1 GiB is still written in MiB. */
static void put_size(struct mpl_strbuf *out, uint64_t bytes)
{
    if (bytes <= KIB)
        mpl_strbuf_printf(out, "%llu bytes", (unsigned long long)bytes);
    else if (bytes <= KIB * KIB)
        put_scaled(out, (double)bytes / 1024, " KiB");
    else if (bytes <= KIB * KIB * KIB)
        put_scaled(out, (double)bytes / (1024 * 1024), " MiB");
    else
        put_scaled(out, (double)bytes / (1024 * 1024 * 1024), " GiB");
}

/* "text S text S ...": each S is the next size. */
static void put(struct mpl_strbuf *out, const char *format, const uint64_t *sizes)
{
    char piece[2] = "";

    for (; *format; format++) {
        if (*format == '@') {
            put_size(out, *sizes++);
        } else {
            piece[0] = *format;
            mpl_strbuf_put(out, piece);
        }
    }
}

/* Free blocks of private pools count as allocated there. */
static uint64_t idle_in_private(const struct mpl_allocator *a)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < a->segments.len; i++)
        for (uint32_t b = a->segments.data[i]; b && !mpl_allocator_is_main(a->blocks[b].pool);
             b = a->blocks[b].next)
            bytes += a->blocks[b].state == MPL_BLOCK_FREE ? a->blocks[b].size : 0;
    for (size_t i = 0; i < a->reservations.len; i++)
        for (uint32_t b = a->reservations.data[i].first;
             b && !mpl_allocator_is_main(a->blocks[b].pool); b = a->blocks[b].next)
            bytes += a->blocks[b].state == MPL_BLOCK_FREE ? a->blocks[b].size : 0;
    return bytes;
}

char *mpl_recording_message(const struct mpl_allocator *a, const struct mpl_recording_card *card,
                            uint64_t bytes)
{
    struct mpl_strbuf out = {0};
    const uint64_t tried = mpl_allocator_segment_bytes(a, bytes);
    const uint64_t in_use = mpl_add(card->context_bytes, a->used_bytes);
    const uint64_t idle = idle_in_private(a), allocated = a->now.allocated + idle;
    const uint64_t left = mpl_sub(a->now.reserved, allocated);

    if (a->was_rejected) {
        put(&out,
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
            "per_process_memory_fraction limit. Requested size: @",
            &tried);
        return mpl_strbuf_steal(&out);
    }
    put(&out, "CUDA out of memory. Tried to allocate @. ", &tried);
    put(&out,
        "GPU 0 has a total capacity of @ of which @ is free. Including non-PyTorch memory, this "
        "process has @ memory in use. ",
        (const uint64_t[]){card->total_bytes, mpl_sub(card->total_bytes, in_use), in_use});
    if (a->limit_bytes != UINT64_MAX)
        put(&out, "@ allowed; ", &a->limit_bytes);
    put(&out, "Of the allocated memory @ is allocated by PyTorch, ", &allocated);
    if (idle)
        put(&out, "with @ allocated in private pools (e.g., CUDA Graphs), ", &idle);
    put(&out, "and @ is reserved by PyTorch but unallocated.", &left);
    if (!a->conf.is_expandable)
        mpl_strbuf_put(&out,
                       " If reserved but unallocated memory is large try setting "
                       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
                       "See documentation for Memory Management  (https://docs.pytorch.org/docs/"
                       "stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-"
                       "conf)");
    return mpl_strbuf_steal(&out);
}
