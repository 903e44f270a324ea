/* SPDX-License-Identifier: MIT */
/* What the drafters of speculators share: parameters with or without columns, tensors of a batch.
 */
#include "arch/drafter.h"

#include "op/op.h"

static struct mpl_shape shape_of(struct mpl_dim rows, int64_t cols)
{
    return cols ? mpl_shape2(rows, mpl_dim(cols)) : mpl_shape1(rows);
}

uint32_t mpl_drafter_add(struct mpl_network *network, const char *name, int64_t rows, int64_t cols,
                         bool is_trained)
{
    const uint32_t i = mpl_network_add(network, name, shape_of(mpl_dim(rows), cols));

    if (i != UINT32_MAX)
        network->parameters[i].is_trainable = is_trained;
    return i;
}

struct mpl_tensor *mpl_drafter_input(struct mpl_tape *tape, enum mpl_dtype dtype,
                                     struct mpl_dim rows, int64_t cols)
{
    const struct mpl_shape shape = shape_of(rows, cols);

    return mpl_hold(mpl_empty(tape, "empty.memory_format", dtype, &shape));
}
