/* SPDX-License-Identifier: MIT */
/* Which modules accelerate turns into Transformer Engine's (convert_model). */
#ifndef MPL_PART_TE_H
#define MPL_PART_TE_H

#include "part/linear.h"

/** An nn.Linear becomes te.Linear if 16 divides both sizes; weight [out, in] is described. */
void mpl_te_add(struct mpl_network *network, const struct mpl_linear *linear, int64_t out,
                int64_t in);

/** An nn.LayerNorm would become te.LayerNorm. */
void mpl_te_add_norm(struct mpl_network *network);

/** Such a layer's forward; consumes a floating x, the result is floating. */
struct mpl_tensor *mpl_te_call(struct mpl_tape *tape, const struct mpl_network *network,
                               const struct mpl_linear *linear, struct mpl_tensor *x);

/** Once all layers are described: refuses what is not modelled. */
enum memplan_status mpl_te_check(struct mpl_network *network, struct memplan_error *err);

/** The end of model.forward. */
void mpl_te_leave(struct mpl_tape *tape, const struct mpl_network *network);

#endif
