/* SPDX-License-Identifier: MIT */
/*
 * The optimizers of bitsandbytes: AdamW with two states, Lion with one, in 8 bits or in float32
 * whatever the parameter's format is. An 8-bit state is a byte for each element and a float32 scale
 * for each block of 256; small tensors keep float32. A step is one kernel for each parameter and
 * takes nothing.
 *
 * Paged states lie in unified memory (cudaMallocManaged), outside the caching allocator: the driver
 * moves their pages to the card while a kernel reads them and back when memory is short. They are
 * no live bytes.
 *
 * source: bitsandbytes/optim/optimizer.py (Optimizer1State.init_state, Optimizer2State.init_state,
 * get_state_buffer), bitsandbytes/functional.py (create_dynamic_map, get_paged), 0.50.2
 */
#include "base/bytes.h"
#include "optim/optim.h"

enum { STATE1, STATE2, ABSMAX1, ABSMAX2, QMAP1, QMAP2 };

#define BLOCK     256    /* elements that share a scale */
#define MIN_8BIT  4096   /* elements; smaller tensors have float32 states */
#define MIN_PAGED 100000 /* elements; smaller tensors' states are not paged */
#define CODES     256    /* entries of a table of codes */

static struct mpl_tensor *new_floats(struct mpl_tape *tape, const char *op, int64_t count)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(count));

    return mpl_optim_new_state_shaped(tape, op, MPL_FLOAT32, &shape);
}

/* The state itself: float32 or bytes, of the parameter's shape; NULL when it is paged. */
static struct mpl_tensor *new_buffer(struct mpl_tape *tape, const struct mpl_optim *optim,
                                     const struct mpl_tensor *leaf, enum mpl_dtype dtype)
{
    if (optim->row->is_paged && mpl_numel(leaf) >= MIN_PAGED)
        return NULL;
    return mpl_optim_new_state_shaped(tape, "zeros_like.default", dtype, &leaf->shape);
}

static bool has_tables(const struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++)
        if (optim->states[i].tensors[QMAP1])
            return true;
    return false;
}

/* shape: codes [numel] uint8, scales [ceil(numel / 256)] float32; the tables of 256 float32 codes
 * are made once and belong to the first parameter that needs them */
static void init_8bit(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i, int count)
{
    const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
    const int64_t blocks = (mpl_numel(leaf) + BLOCK - 1) / BLOCK;
    struct mpl_tensor **tensors = optim->states[i].tensors;

    if (!has_tables(optim))
        for (int k = 0; k < count; k++)
            tensors[QMAP1 + k] = new_floats(tape, "_to_copy.default", CODES);
    for (int k = 0; k < count; k++)
        tensors[STATE1 + k] = new_buffer(tape, optim, leaf, MPL_UINT8);
    for (int k = 0; k < count; k++)
        tensors[ABSMAX1 + k] = new_floats(tape, "zeros.default", blocks);
}

void mpl_bitsandbytes_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    const int count = optim->row->states;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf || !mpl_optim_is_new(optim, i))
            continue;
        if (optim->row->bits == 8 && mpl_numel(leaf) >= MIN_8BIT) {
            init_8bit(tape, optim, i, count);
            continue;
        }
        for (int k = 0; k < count; k++)
            optim->states[i].tensors[STATE1 + k] = new_buffer(tape, optim, leaf, MPL_FLOAT32);
    }
}
