/* SPDX-License-Identifier: MIT */
/* Memory taken inside one operator: lists of requests, the cuBLAS workspace, embedding, norms. */
#include "op/scratch.h"

/* ---- lists ------------------------------------------------------------------------------------
 */

static void append(struct mpl_scratch *out, enum mpl_scratch_kind kind, uint8_t which,
                   uint64_t bytes)
{
    if (out->count < MPL_SCRATCH_STEPS)
        out->steps[out->count++] =
            (struct mpl_scratch_step){.bytes = bytes, .kind = (uint8_t)kind, .which = which};
}

uint8_t mpl_scratch_take(struct mpl_scratch *out, uint64_t bytes)
{
    append(out, MPL_SCRATCH_TAKE, out->takes, bytes);
    return out->takes++;
}

void mpl_scratch_give(struct mpl_scratch *out, uint8_t take)
{
    append(out, MPL_SCRATCH_GIVE, take, 0);
}

void mpl_scratch_result(struct mpl_scratch *out, uint8_t which, uint64_t bytes)
{
    append(out, MPL_SCRATCH_RESULT, which, bytes);
}

/* ---- cuBLAS -----------------------------------------------------------------------------------
 */

/*
 * 32 MiB from Hopper on, else 2 x 4 MiB + 8 x 16 KiB: the values that the CUBLAS_WORKSPACE_CONFIG
 * strings :4096:8 and :4096:2:16:8 name, in KiB.
 * source: aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize
 */
uint64_t mpl_scratch_cublas_workspace(const struct mpl_version *pytorch, double compute_capability)
{
    const bool is_hopper = compute_capability >= 9.0 && compute_capability < 10.0;
    const bool knows_newer = pytorch->major > 2 || (pytorch->major == 2 && pytorch->minor >= 11);

    return is_hopper || (compute_capability >= 10.0 && knows_newer) ? 4096 * 8 * MPL_KIB
                                                                    : (4096 * 2 + 16 * 8) * MPL_KIB;
}

/* ---- embedding --------------------------------------------------------------------------------
 */

/* CUB lays the parts of its temporary storage on 256-byte borders of a base of any alignment
 * (cub/detail/temporary_storage.cuh, AliasTemporaries): each part is rounded up, 255 are added. */
#define CUB_BORDER UINT64_C(256)

static uint64_t cub_part(uint64_t bytes)
{
    return mpl_round_up(bytes, CUB_BORDER);
}

/*
 * DeviceRadixSort::SortPairs of int64 keys with 8-byte values, onesweep algorithm: digit counts
 * [passes, 256] of 8 bytes, look-back [tiles, 256] of 4, second buffers of keys and values when
 * there is more than one pass, a 4-byte counter for each pass. 8 bits a pass; a tile is what one
 * block sorts, threads x pairs.
 * source: cub/device/dispatch/dispatch_radix_sort.cuh, tuning/tuning_radix_sort.cuh
 */
static uint64_t sort_pairs(double compute_capability, uint64_t pairs, unsigned key_bits)
{
    const uint64_t tile = compute_capability < 8.0   ? UINT64_C(256) * 11
                          : compute_capability < 9.0 ? UINT64_C(384) * 10
                                                     : UINT64_C(512) * 9;
    const uint64_t passes = (key_bits + 7) / 8;
    const uint64_t other = passes > 1 ? cub_part(mpl_mul(pairs, 8)) : 0;
    uint64_t bytes = cub_part(passes * 256 * 8);

    bytes = mpl_add(bytes, cub_part(mpl_ceil_div(pairs, tile) * 256 * 4));
    bytes = mpl_add(bytes, mpl_mul(other, 2));
    return mpl_add(bytes, cub_part(passes * 4) + CUB_BORDER - 1);
}

/*
 * A scan over tiles of int64 values: 16 bytes of state for each tile and for 32 more, laid out by
 * the same rule twice, as the storage of the state and as the only part of the scan's storage.
 * source: cub/agent/single_pass_scan_operators.cuh, ScanTileState::AllocationSize;
 * cub/device/dispatch/dispatch_scan.cuh, dispatch_unique_by_key.cuh
 */
static uint64_t scan_tiles(uint64_t items, uint64_t tile)
{
    return cub_part((mpl_ceil_div(items, tile) + 32) * 16) + CUB_BORDER + CUB_BORDER - 1;
}

/*
 * Keys that one block of DeviceSelect::UniqueByKey looks at (int64 keys, counting values): threads
 * x items, tuned for 8.0 and from 9.0 on, 64 x 5 elsewhere.
 * source: cub/device/dispatch/tuning/tuning_unique_by_key.cuh
 */
static uint64_t unique_tile(double compute_capability)
{
    if (compute_capability >= 9.0)
        return UINT64_C(448) * 11;
    return compute_capability >= 8.0 && compute_capability < 8.5 ? UINT64_C(192) * 7
                                                                 : UINT64_C(64) * 5;
}

/* Bits that a number of rows has: floor(log2) + 1 (ATen/cuda/cub.cuh, get_num_bits). */
static unsigned bits_of(uint64_t n)
{
    unsigned bits = 0;

    while (n >> bits != 0)
        bits++;
    return bits;
}

#define INDEX_BYTES           8         /* int64 */
#define ROWS_FOR_EACH_PARTIAL 10        /* NROWS_PER_THREAD */
#define SCAN_TILE             (128 * 7) /* exclusive sum of int64: threads x items */

/* embedding_backward_cuda_kernel, after the sort */
static void sum_sorted_rows(const struct mpl_scratch_card *card, uint64_t tokens, uint64_t rows,
                            uint64_t columns, uint32_t element, struct mpl_scratch *out)
{
    const uint64_t list = mpl_mul(tokens, INDEX_BYTES);
    const uint64_t segments = tokens < rows ? tokens : rows;
    const uint64_t partials = tokens / ROWS_FOR_EACH_PARTIAL + segments;
    const uint64_t sum_bytes = element < 4 ? 4 : element; /* acc_type */
    uint8_t offsets, counter, scratch, keys, sizes, starts, total, partial, sums;

    mpl_scratch_result(out, 0, mpl_mul(mpl_mul(rows, columns), element));
    offsets = mpl_scratch_take(out, list);
    counter = mpl_scratch_take(out, INDEX_BYTES);
    keys = mpl_scratch_take(out, list);
    scratch = mpl_scratch_take(out, scan_tiles(tokens, unique_tile(card->compute_capability)));
    mpl_scratch_give(out, scratch);
    mpl_scratch_give(out, keys);
    sizes = mpl_scratch_take(out, mpl_mul(segments, INDEX_BYTES));
    starts = mpl_scratch_take(out, mpl_mul(segments, INDEX_BYTES));
    scratch = mpl_scratch_take(out, scan_tiles(segments, SCAN_TILE));
    mpl_scratch_give(out, scratch);
    total = mpl_scratch_take(out, INDEX_BYTES);
    partial = mpl_scratch_take(out, mpl_mul(partials, INDEX_BYTES));
    sums = mpl_scratch_take(out, mpl_mul(mpl_mul(partials, columns), sum_bytes));
    mpl_scratch_give(out, sums);
    mpl_scratch_give(out, partial);
    mpl_scratch_give(out, total);
    mpl_scratch_give(out, starts);
    mpl_scratch_give(out, sizes);
    mpl_scratch_give(out, counter);
    mpl_scratch_give(out, offsets);
}

/*
 * Up to 3,072 indices one kernel does all. More are sorted; then runs of equal indices are cut into
 * pieces of ten rows, which are summed in float32 first.
 * source: aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda;
 * EmbeddingBackwardKernel.cu, embedding_backward_cuda_kernel
 */
void mpl_scratch_embedding_backward(const struct mpl_scratch_card *card, int64_t tokens,
                                    int64_t rows, int64_t columns, enum mpl_dtype dtype,
                                    struct mpl_scratch *out)
{
    const uint64_t n = (uint64_t)tokens, width = (uint64_t)columns;
    const uint64_t list = mpl_mul(n, INDEX_BYTES);
    const uint32_t element = mpl_dtype_size(dtype);
    uint8_t sorted, order, range, scratch;

    *out = (struct mpl_scratch){0};
    if (tokens <= 3072) {
        mpl_scratch_result(out, 0, mpl_mul(mpl_mul((uint64_t)rows, width), element));
        return;
    }
    sorted = mpl_scratch_take(out, list);
    order = mpl_scratch_take(out, list);
    range = mpl_scratch_take(out, list);
    scratch =
        mpl_scratch_take(out, sort_pairs(card->compute_capability, n, bits_of((uint64_t)rows)));
    mpl_scratch_give(out, scratch);
    mpl_scratch_give(out, range);
    sum_sorted_rows(card, n, (uint64_t)rows, width, element, out);
    mpl_scratch_give(out, order);
    mpl_scratch_give(out, sorted);
}

/* ---- topk -------------------------------------------------------------------------------------
 */

/* source: aten/src/ATen/native/cuda/TensorTopK.cu, should_use_multiblock */
static bool is_split(int64_t rows, int64_t columns)
{
    static const struct {
        int64_t most_rows, least_columns;
    } table[] = {{20, 20000}, {40, 10000}, {80, 8000},      {199, 5000},
                 {799, 3000}, {4000, 800}, {INT64_MAX, 400}};
    int i = 0;

    while (rows > table[i].most_rows)
        i++;
    return columns >= table[i].least_columns;
}

/*
 * Blocks of 256 threads for one row: 4 to 64 elements a thread, so that six blocks, which is what
 * 65,536 registers of a multiprocessor give to a kernel of 40, keep every one of them busy.
 * source: the same, get_items_per_thread
 */
static uint64_t blocks_of_row(const struct mpl_scratch_card *card, uint64_t rows, uint64_t columns)
{
    const uint64_t threads = (uint64_t)card->multiprocessors * 6 * 256;
    uint64_t items = threads ? mpl_ceil_div(mpl_mul(rows, columns), threads) : 4;

    items = items < 4 ? 4 : items > 64 ? 64 : items;
    return mpl_ceil_div(columns, items * 256);
}

/* Counts that one block of DeviceScan::InclusiveSumByKey adds up (uint32 keys and values): seen on
 * 7.5, 8.0, 8.6, 9.0, 10.0 and 12.0. */
static uint64_t key_scan_tile(double compute_capability)
{
    if (compute_capability >= 10.0)
        return 4480;
    if (compute_capability >= 9.0)
        return 4032;
    return compute_capability >= 8.0 && compute_capability < 8.5 ? 3840 : 2304;
}

/*
 * Radix selection: the k-th value of each row, twice what is left to find and its digits, a counter
 * of 256 digits for each block (2 bytes) and each row (4 bytes), two counters of each block, which
 * are then scanned.
 * source: the same, mbtopk::launch; as 2.14.1 has it
 */
void mpl_scratch_topk(const struct mpl_scratch_card *card, int64_t rows, int64_t columns,
                      int64_t count, enum mpl_dtype dtype, struct mpl_scratch *out)
{
    const uint64_t n = (uint64_t)rows, digits = mpl_dtype_size(dtype) > 4 ? 8 : 4;
    uint64_t blocks;
    uint8_t takes[7], scan;

    *out = (struct mpl_scratch){0};
    mpl_scratch_result(out, 0, mpl_dtype_bytes(dtype, mpl_mul(n, (uint64_t)count)));
    mpl_scratch_result(out, 1, mpl_mul(mpl_mul(n, (uint64_t)count), 8));
    if (!is_split(rows, columns))
        return;
    blocks = mpl_mul(n, blocks_of_row(card, n, (uint64_t)columns));
    takes[0] = mpl_scratch_take(out, mpl_dtype_bytes(dtype, n));
    takes[1] = mpl_scratch_take(out, mpl_mul(n, 8));
    takes[2] = mpl_scratch_take(out, mpl_mul(n, 2 * digits));
    takes[3] = mpl_scratch_take(out, mpl_mul(blocks, 512));
    takes[4] = mpl_scratch_take(out, mpl_mul(n, 1024));
    takes[5] = mpl_scratch_take(out, mpl_mul(blocks, 4));
    takes[6] = mpl_scratch_take(out, mpl_mul(blocks, 4));
    for (int i = 0; i < 2; i++) {
        scan = mpl_scratch_take(out, scan_tiles(blocks, key_scan_tile(card->compute_capability)));
        mpl_scratch_give(out, scan);
    }
    for (int i = 7; i-- > 0;)
        mpl_scratch_give(out, takes[i]);
}

/* ---- single buffers ---------------------------------------------------------------------------
 */

/*
 * [tensors, chunks of the largest tensor], a chunk being 65,536 elements, in float32 or wider.
 * source: aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda;
 * MultiTensorApply.cuh, kChunkSize
 */
uint64_t mpl_scratch_foreach_norm(int64_t tensors, int64_t max_numel, enum mpl_dtype dtype)
{
    const uint64_t chunks = mpl_ceil_div((uint64_t)max_numel, 65536);
    const uint32_t element = mpl_dtype_size(dtype);

    return mpl_mul(mpl_mul((uint64_t)tensors, chunks), element < 4 ? 4 : element);
}

/* source: aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out: Tensor tmp */
uint64_t mpl_scratch_softmax_backward(int64_t numel, enum mpl_dtype output)
{
    return mpl_dtype_bytes(output, (uint64_t)numel);
}
