/* SPDX-License-Identifier: MIT */
/*
 * The tile that Transformer Engine's kernel for cast, transpose and the bias's gradient takes: its
 * height is what its workspace depends on.
 *
 * source: Transformer Engine 2.18: common/transpose/cast_transpose_fusion.cu (KernelConfig,
 * cast_transpose_fused), common/cast/fp8/quantize_fp8.cuh
 */
#include "op/linear_te.h"

#define WARP           32
#define CACHE_LINE     128
#define WARPS_PER_TILE 8
#define WARPS_PER_SM   16
#define CHUNK_ROWS     128 /* FP8_CHUNK_DIM_Y */

/* One row of the candidates, with what its estimated cost is made of. */
struct tile {
    bool is_valid;
    uint64_t store; /* bytes of a store: rows of the tile, over 32 */
    uint64_t processors, loads, casts, transposes;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t quotient_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static struct tile measure(uint64_t rows, uint64_t columns, uint64_t size, uint64_t processors,
                           const uint8_t candidate[2])
{
    const uint64_t load = candidate[0], store = candidate[1];
    const uint64_t width = load * WARP / size, height = store * WARP;
    struct tile tile = {.store = store};

    if (load % size || columns % width || rows % height)
        return tile;
    tile.is_valid = true;
    tile.processors =
        least(quotient_up((columns / width) * (rows / height) * WARPS_PER_TILE, WARPS_PER_SM),
              processors);
    tile.loads = least(CACHE_LINE, width * size) / size;
    tile.casts = least(CACHE_LINE, width);
    tile.transposes = least(CACHE_LINE, height);
    return tile;
}

/* Integer arithmetic as the source has it: the divisions round. */
static uint64_t cost_of(const struct tile *tile, uint64_t scale)
{
    return (scale / tile->loads + scale / tile->casts + scale / tile->transposes) /
           tile->processors;
}

static bool is_cheaper(const struct tile *a, const struct tile *b)
{
    uint64_t scale;

    if (!a->is_valid || !b->is_valid)
        return a->is_valid && !b->is_valid;
    scale = a->loads * a->casts * a->transposes * a->processors;
    scale *= b->loads * b->casts * b->transposes * b->processors;
    return cost_of(a, scale) < cost_of(b, scale);
}

int64_t mpl_te_bias_rows(const struct mpl_tape *tape, int64_t rows, int64_t columns, int64_t size)
{
    static const uint8_t candidates[][2] = {{8, 8}, {4, 8}, {8, 4}, {4, 4}, {2, 8}, {8, 2},
                                            {2, 4}, {4, 2}, {2, 2}, {1, 8}, {8, 1}, {1, 4},
                                            {4, 1}, {1, 2}, {2, 1}, {1, 1}};
    const double cc = tape->compute_capability;
    struct tile best = {.store = 8}; /* of the kernel that is compiled ahead */

    if ((cc >= 10.0 && cc < 12.0) || cc >= 13.0)
        return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
    if (rows % WARP == 0 && columns % WARP == 0)
        for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
            const struct tile tile = measure((uint64_t)rows, (uint64_t)columns, (uint64_t)size,
                                             (uint64_t)tape->multiprocessors, candidates[i]);

            if (is_cheaper(&tile, &best))
                best = tile;
        }
    return (int64_t)quotient_up((uint64_t)rows, best.store * WARP);
}
