/* SPDX-License-Identifier: MIT */
/*
 * AdamW of torchao with states of 8 bits, 4 bits or float8: codes, a float32 scale for each block,
 * and a table of codes for each state of its own. Tensors of fewer than 4096 elements, or that
 * blocks do not divide, have states of the parameter's dtype.
 *
 * A step is one compiled function for each parameter. Where the last dimension holds whole blocks,
 * Inductor makes one kernel of the 8-bit form, which takes nothing; else the averages are written
 * out in float32 and the scales beside them. What Triton takes to try kernels out, once, when the
 * first step compiles, is not booked.
 *
 * source: torchao/optim/adam.py (_AdamBase._new_buffer, single_param_adam), subclass_8bit.py,
 * subclass_4bit.py, subclass_fp8.py, 0.18; the requests of the code that Inductor of PyTorch
 * 2.14.1 made of it for compute capability 8.0 and 9.0
 */
#include "optim/optim.h"

enum { CODES, SCALE, TABLE, SECOND };

#define MIN_QUANTIZED 4096 /* elements */

static int64_t block_size(const struct mpl_optim *optim)
{
    return optim->row->bits == 4 ? 128 : 256;
}

static bool is_quantized(const struct mpl_optim *optim, const struct mpl_tensor *leaf)
{
    const int64_t numel = mpl_numel(leaf);

    return numel >= MIN_QUANTIZED && numel % block_size(optim) == 0;
}

static struct mpl_tensor *flat(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               int64_t count)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(count));

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/* shape: codes [numel], or [numel / 2] of 4 bits; scale [numel / block] float32; table [256] or
 * [16] float32, none for float8 */
static void new_state(struct mpl_tape *tape, const struct mpl_optim *optim,
                      const struct mpl_tensor *leaf, struct mpl_tensor **tensors)
{
    const uint8_t bits = optim->row->bits;
    const int64_t numel = mpl_numel(leaf);

    if (!is_quantized(optim, leaf)) {
        tensors[CODES] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
        return;
    }
    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    tensors[CODES] = flat(tape, "zeros.default", MPL_UINT8, bits == 4 ? numel / 2 : numel);
    tensors[SCALE] = flat(tape, "zeros.default", MPL_FLOAT32, numel / block_size(optim));
    if (!optim->row->is_float8)
        tensors[TABLE] = flat(tape, "_to_copy.default", MPL_FLOAT32, bits == 4 ? 16 : 256);
    tape->category = MPL_CATEGORY_TEMPORARY;
}

/* True when blocks and rows of the parameter end together. */
static bool is_aligned(const struct mpl_optim *optim, const struct mpl_tensor *leaf)
{
    return leaf->shape.dim[leaf->shape.ndim - 1].n % block_size(optim) == 0;
}

struct buffers {
    struct mpl_tensor *scales[2], *averages[2];
};

static struct buffers take_buffers(struct mpl_tape *tape, const struct mpl_optim *optim,
                                   const struct mpl_tensor *leaf, bool has_scales)
{
    const int64_t numel = mpl_numel(leaf);
    struct buffers b = {0};

    for (int k = 0; k < 2 && has_scales; k++)
        b.scales[k] = flat(tape, "empty_strided", MPL_FLOAT32, numel / block_size(optim));
    for (int k = 0; k < 2; k++)
        b.averages[k] = flat(tape, "empty_strided", MPL_FLOAT32, numel);
    return b;
}

static void step_8bit(struct mpl_tape *tape, const struct mpl_optim *optim,
                      const struct mpl_tensor *leaf)
{
    const bool is_rounded = optim->spec->stochastic_rounding && leaf->dtype == MPL_BFLOAT16;
    struct buffers b = {0};
    struct mpl_tensor *seed = NULL;

    if (!is_aligned(optim, leaf))
        b = take_buffers(tape, optim, leaf, true);
    if (is_rounded) /* of the numbers that decide the rounding: one int64 */
        seed = flat(tape, "inductor_seeds", MPL_INT64, 1);
    for (int k = 0; k < 2; k++)
        mpl_drop(tape, b.averages[k]);
    mpl_drop(tape, seed);
    for (int k = 0; k < 2; k++)
        mpl_drop(tape, b.scales[k]);
}

/* The codes of both averages are numbered in int64 before they are packed. */
static void step_4bit(struct mpl_tape *tape, const struct mpl_optim *optim,
                      const struct mpl_tensor *leaf)
{
    struct buffers b = take_buffers(tape, optim, leaf, true);
    struct mpl_tensor *numbers[2];

    for (int k = 0; k < 2; k++)
        numbers[k] = flat(tape, "empty_strided", MPL_INT64, mpl_numel(leaf));
    for (int k = 0; k < 2; k++) {
        mpl_drop(tape, b.averages[k]);
        mpl_drop(tape, numbers[k]);
        mpl_drop(tape, b.scales[k]);
    }
}

/* The conversion to float8 is no part of the compiled kernels: each average becomes codes twice,
 * and the second copy stays. */
static void step_float8(struct mpl_tape *tape, const struct mpl_optim *optim,
                        const struct mpl_tensor *leaf)
{
    struct buffers b = take_buffers(tape, optim, leaf, !is_aligned(optim, leaf));
    const int64_t numel = mpl_numel(leaf);
    struct mpl_tensor *codes[2];

    for (int k = 0; k < 2; k++)
        mpl_drop(tape, b.scales[k]);
    for (int k = 0; k < 2; k++) {
        mpl_consume(tape, mpl_return(flat(tape, "_to_copy.default", MPL_UINT8, numel)));
        codes[k] = flat(tape, "_to_copy.default", MPL_UINT8, numel);
        mpl_drop(tape, b.averages[k]);
    }
    mpl_drop(tape, codes[0]);
    mpl_drop(tape, codes[1]);
}

void mpl_torchao_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_tensor **tensors = optim->states[i].tensors;

        if (!leaf)
            continue;
        if (mpl_optim_is_new(optim, i)) {
            new_state(tape, optim, leaf, tensors);
            new_state(tape, optim, leaf, tensors + SECOND);
        }
        if (!is_quantized(optim, leaf))
            continue;
        if (optim->row->is_float8)
            step_float8(tape, optim, leaf);
        else if (optim->row->bits == 4)
            step_4bit(tape, optim, leaf);
        else
            step_8bit(tape, optim, leaf);
    }
}
