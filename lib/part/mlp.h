/* SPDX-License-Identifier: MIT */
/* Feed-forward parts of decoder layers. */
#ifndef MPL_PART_MLP_H
#define MPL_PART_MLP_H

#include "part/linear.h"

/** ACT2FN[activation](x); consumes a floating x, the result is floating. */
struct mpl_tensor *mpl_activation_call(struct mpl_tape *tape, enum mpl_activation activation,
                                       struct mpl_tensor *x);

/** nn.Dropout; consumes a floating x, the result is floating. */
struct mpl_tensor *mpl_dropout_call(struct mpl_tape *tape, struct mpl_tensor *x, double p);

/** LlamaMLP: down(act(gate(x)) * up(x)). */
struct mpl_gated_mlp {
    struct mpl_linear gate, up, down;
};

/** Adds gate_proj, up_proj and down_proj under network->prefix + name. */
struct mpl_gated_mlp mpl_gated_mlp_add(struct mpl_network *network, const char *name,
                                       int64_t intermediate_size, bool has_bias);

struct mpl_tensor *mpl_gated_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_gated_mlp *mlp, struct mpl_tensor *x);

/** down(act(up(x))): hidden states are renamed at each step, the argument lives until it returns.
 */
struct mpl_plain_mlp {
    struct mpl_linear up, down;
};

struct mpl_tensor *mpl_plain_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_plain_mlp *mlp, struct mpl_tensor *x);

#endif
