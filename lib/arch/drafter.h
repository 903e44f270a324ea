/* SPDX-License-Identifier: MIT */
/* What the drafters of speculators share: parameters with or without columns, tensors of a batch.
 */
#ifndef MPL_ARCH_DRAFTER_H
#define MPL_ARCH_DRAFTER_H

#include "step/network.h"

/** A parameter [rows, cols], or [rows] where cols is 0; its number, or UINT32_MAX. */
uint32_t mpl_drafter_add(struct mpl_network *network, const char *name, int64_t rows, int64_t cols,
                         bool is_trained);

/** A held tensor of the batch [rows, cols], or [rows] where cols is 0. */
struct mpl_tensor *mpl_drafter_input(struct mpl_tape *tape, enum mpl_dtype dtype,
                                     struct mpl_dim rows, int64_t cols);

#endif
