/* SPDX-License-Identifier: MIT */
/* DoRA: a low-rank adapter whose merged weight is scaled to a learned magnitude. */
#ifndef MPL_PART_DORA_H
#define MPL_PART_DORA_H

#include "part/adapter.h"

/** result + what the adapter adds to the base layer's result, for x in the adapter's dtype. Both
 * are borrowed; the sum is floating. */
struct mpl_tensor *mpl_dora_call(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_linear *linear, struct mpl_tensor *result,
                                 struct mpl_tensor *input);

#endif
