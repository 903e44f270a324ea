/* SPDX-License-Identifier: MIT */
/* Which linear layers compute in float8 (torchao's convert_to_float8_training). */
#ifndef MPL_PART_FLOAT8_H
#define MPL_PART_FLOAT8_H

#include "part/linear.h"

/** Lets the nn.Linear of that name (network->prefix and name) compute in float8, if the plan's
 * filter lets it; weight [out, in] is described already. */
void mpl_float8_add(struct mpl_network *network, const char *name, uint32_t weight, int64_t out,
                    int64_t in);

/** Such a layer's forward: x [.., in] to [.., out]. Consumes a floating x; the result is floating.
 */
struct mpl_tensor *mpl_float8_call(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_linear *linear, struct mpl_tensor *x);

/** Once all layers are described: leaves out the first and the last, refuses what is not modelled.
 */
enum memplan_status mpl_float8_check(struct mpl_network *network, struct memplan_error *err);

#endif
