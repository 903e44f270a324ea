/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: the memory that its two copy kernels take for themselves: lists of 64-bit numbers that say
 * which block copies what, packed into one tensor on the device.
 *
 * source: aten/src/ATen/native/cuda/TensorShape.cu (pack_vecs, get_chunk_cat_metadata,
 * split_with_sizes_copy_out_cuda_contiguous_no_cast)
 */
#include <math.h>

#include "parallel/fsdp2_group.h"

#define BLOCK_THREADS 128
#define TILE_BYTES    (16 * BLOCK_THREADS) /* of one block in one turn */

/* CUDA programming guide, "Compute Capabilities": resident threads of a multiprocessor. */
static int64_t resident_threads(double compute_capability)
{
    const int cc = (int)(compute_capability * 10 + 0.5);

    if (cc == 75)
        return 1024;
    return (cc >= 86 && cc <= 89) || cc >= 110 ? 1536 : 2048;
}

static uint64_t chunk_bytes(const struct mpl_fsdp2_parameter *p, enum mpl_dtype dtype)
{
    return mpl_dtype_bytes(dtype, (uint64_t)p->shard_numel);
}

/* Blocks of one rank's chunk of the parameters, when a block takes turns * TILE_BYTES bytes. */
static uint64_t gather_blocks(const struct mpl_fsdp2_group *group, uint64_t turns)
{
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < group->count; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];

        const uint64_t gathered =
            mpl_mul(chunk_bytes(p, mpl_fsdp2_gathered_dtype(p)), (uint64_t)group->fsdp->shards);

        blocks = mpl_add(blocks, mpl_ceil_div(gathered / (uint64_t)mpl_fsdp2_sources(group),
                                              TILE_BYTES * turns));
    }
    return blocks;
}

void mpl_fsdp2_book_copy_out(struct mpl_tape *tape, const struct mpl_fsdp2_group *group)
{
    const uint64_t chunks = (uint64_t)mpl_fsdp2_sources(group);
    const uint64_t most_blocks =
        (uint64_t)(tape->multiprocessors * resident_threads(tape->compute_capability) /
                   BLOCK_THREADS * 2);
    uint64_t turns, chunks_of_block;

    if (!tape->has_kernel_scratch || !most_blocks)
        return;
    turns = mpl_ceil_div(mpl_mul(gather_blocks(group, 1), chunks), most_blocks);
    chunks_of_block = (uint64_t)ceil(sqrt((double)turns));
    if (chunks_of_block > chunks)
        chunks_of_block = chunks;
    if (!chunks_of_block)
        return;
    turns = mpl_ceil_div(turns, chunks_of_block);
    /* two addresses and a size for each parameter, first blocks and their end, owners of blocks */
    mpl_scratch(tape, "split_with_sizes_copy",
                8 * (4 * (uint64_t)group->count + 1 + gather_blocks(group, turns)));
}

/* Where the kernel does not know the pair of formats, tensors that need padding are padded first,
 * all of them (_pad_chunk), and concatenated. */
static void book_padding(struct mpl_tape *tape, const struct mpl_fsdp2_group *group)
{
    const uint64_t shards = (uint64_t)group->fsdp->shards;
    struct mpl_tensor **padded =
        mpl_arena_zalloc(&tape->arena, (group->count + 1) * sizeof(*padded));

    if (!padded) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];
        const struct mpl_shape *shape = &p->parameter->shape;
        struct mpl_shape wide = *shape;

        if (!p->gradient || (uint64_t)shape->dim[0].n % shards == 0)
            continue;
        wide.dim[0].n = (int64_t)(mpl_ceil_div((uint64_t)shape->dim[0].n, shards) * shards);
        padded[i] =
            mpl_hold(mpl_empty(tape, "constant_pad_nd", (enum mpl_dtype)p->gradient->dtype, &wide));
    }
    for (uint32_t i = 0; i < group->count; i++)
        mpl_drop(tape, padded[i]);
}

void mpl_fsdp2_book_copy_in(struct mpl_tape *tape, const struct mpl_fsdp2_group *group,
                            enum mpl_dtype dtype)
{
    enum mpl_dtype from = dtype;
    uint64_t count = 0, blocks = 0;

    if (!tape->has_kernel_scratch)
        return;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct mpl_fsdp2_parameter *p = &group->parameters[i];

        if (!p->gradient)
            continue;
        from = (enum mpl_dtype)p->gradient->dtype;
        count++;
        blocks = mpl_add(blocks, mpl_ceil_div(chunk_bytes(p, dtype), TILE_BYTES));
    }
    if (from != dtype && (from != MPL_BFLOAT16 || dtype != MPL_FLOAT32)) {
        book_padding(tape, group);
        return;
    }
    /* an address, two sizes and a block count for each gradient, first bytes and blocks and their
     * ends, owners of blocks */
    mpl_scratch(tape, "chunk_cat", 8 * (6 * count + 2 + blocks));
}
