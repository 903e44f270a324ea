/* SPDX-License-Identifier: MIT */
/*
 * Master weights: the optimizer updates float32 copies of the weights. A step makes float32
 * gradients of all of them, clips those, and copies the new weights back one after the other.
 *
 * source: SpecForge specforge/optimizer.py (BF16Optimizer.__init__, step), as of 0.1
 */
#include "base/bytes.h"
#include "base/fail.h"
#include "optim/optim.h"

enum memplan_status mpl_masters_init(struct mpl_optim *optim, struct mpl_arena *arena,
                                     struct memplan_error *err)
{
    const size_t count = optim->count + 1;

    optim->masters = mpl_arena_zalloc(arena, count * sizeof(*optim->masters));
    optim->models = mpl_arena_zalloc(arena, count * sizeof(*optim->models));
    if (!optim->masters || !optim->models)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while making the optimizer");
    for (uint32_t i = 0; i < optim->count; i++) {
        optim->models[i] = optim->parameters[i];
        optim->masters[i] = *optim->models[i];
        optim->masters[i].dtype = MPL_FLOAT32;
        optim->masters[i].shard = NULL;
        optim->parameters[i] = &optim->masters[i];
    }
    return MEMPLAN_OK;
}

/* A float32 copy of a tensor that is of another format; held. */
static struct mpl_tensor *widened(struct mpl_tape *tape, const struct mpl_tensor *tensor)
{
    return mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &tensor->shape));
}

/* shape: of the parameter, float32; p.detach().clone().to(float32): the clone is the copy where
 * nothing is to be converted */
void mpl_masters_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);
        struct mpl_tensor *clone = mpl_hold(mpl_optim_like(tape, "clone.default", leaf));

        if (leaf->dtype == MPL_FLOAT32) {
            optim->masters[i].tensor = clone;
            continue;
        }
        optim->masters[i].tensor = widened(tape, leaf);
        mpl_drop(tape, clone);
    }
    tape->category = MPL_CATEGORY_TEMPORARY;
}

/* A float32 gradient is shared, not copied. */
void mpl_masters_begin(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);
        struct mpl_tensor *master = optim->masters[i].tensor;

        if (leaf->grad)
            master->grad = leaf->grad->dtype == MPL_FLOAT32 ? mpl_hold(mpl_alias(tape, leaf->grad))
                                                            : widened(tape, leaf->grad);
    }
}

/* p.data.copy_(master.to(p.dtype)), p.grad = None */
void mpl_masters_end(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_zero_grad(tape, optim, true);
    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);

        if (leaf->dtype != MPL_FLOAT32)
            mpl_consume(tape, mpl_optim_like(tape, "_to_copy.default", leaf));
        mpl_optim_unbind(tape, &leaf->grad);
    }
}

uint64_t mpl_masters_bytes(const struct mpl_optim *optim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; optim->masters && i < optim->count; i++) {
        const struct mpl_tensor *master = optim->masters[i].tensor;

        if (master && !master->is_void)
            sum = mpl_add(sum, mpl_round_up(master->storage->bytes, 512));
    }
    return sum;
}
