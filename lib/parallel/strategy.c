/* SPDX-License-Identifier: MIT */
/* parallelism.strategy: which wrapper goes around a network. */
#include "parallel/strategy.h"

#include "parallel/ddp.h"
#include "parallel/fsdp1.h"
#include "parallel/fsdp2.h"
#include "parallel/zero.h"
#include "parallel/zero3.h"

static enum memplan_status wrap_fsdp2(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_fsdp2_options options = mpl_fsdp2_options_of(network->plan);

    return mpl_fsdp2_wrap(network, &options, err);
}

enum memplan_status mpl_strategy_wrap(struct mpl_network *network, struct memplan_error *err)
{
    switch (network->plan->parallelism.strategy) {
    case MPL_STRATEGY_NONE:
        break;
    case MPL_STRATEGY_FSDP2:
        return wrap_fsdp2(network, err);
    case MPL_STRATEGY_DDP:
        return mpl_ddp_wrap(network, err);
    case MPL_STRATEGY_FSDP1:
        return mpl_fsdp1_wrap(network, err);
    case MPL_STRATEGY_ZERO1:
    case MPL_STRATEGY_ZERO2:
        return mpl_zero_wrap(network, err);
    case MPL_STRATEGY_ZERO3:
        return mpl_zero3_wrap(network, err);
    }
    return MEMPLAN_OK;
}

struct mpl_tensor *mpl_take_flat(struct mpl_tape *tape, enum mpl_stream stream,
                                 enum mpl_category category, const char *op, enum mpl_dtype dtype,
                                 uint64_t numel)
{
    const struct mpl_shape shape =
        mpl_shape1(mpl_dim(numel > INT64_MAX ? INT64_MAX : (int64_t)numel));
    const enum mpl_stream old = tape->stream;
    struct mpl_tensor *tensor;

    tape->stream = stream;
    tape->category = category;
    tensor = mpl_hold(mpl_empty(tape, op, dtype, &shape));
    tape->stream = old;
    tape->category = MPL_CATEGORY_TEMPORARY;
    return tensor;
}
