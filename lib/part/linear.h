/* SPDX-License-Identifier: MIT */
/* Linear layers of a family's modules: their parameters and their call. */
#ifndef MPL_PART_LINEAR_H
#define MPL_PART_LINEAR_H

#include "step/network.h"

/** Index of a parameter that a module does not have. */
#define MPL_NO_PARAMETER UINT32_MAX

/** nn.Linear (weight [out, in]) or GPT-2's Conv1D (weight [in, out]). */
struct mpl_linear {
    uint32_t weight, bias; /* in network->parameters; MPL_NO_PARAMETER: none */
    bool is_conv1d;
};

/** Adds network->prefix + name + ".weight" [out, in], and ".bias" [out]. */
struct mpl_linear mpl_linear_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in, bool has_bias);

/** transformers/pytorch_utils.py, Conv1D: weight [in, out] and bias [out]. */
struct mpl_linear mpl_conv1d_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in);

/** Gives a layer a forward of its own, which adapters stand around as around any other. */
void mpl_linear_set_forward(struct mpl_network *network, const struct mpl_linear *linear,
                            mpl_linear_forward *forward);

/** linear(x): x [.., in] to [.., out]. Consumes a floating x; the result is floating. */
struct mpl_tensor *mpl_linear_call(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_linear *linear, struct mpl_tensor *x);

/** The tensor of parameter i, NULL for MPL_NO_PARAMETER. */
static inline struct mpl_tensor *mpl_parameter_of(const struct mpl_network *network, uint32_t i)
{
    return i == MPL_NO_PARAMETER ? NULL : mpl_network_weight(network, i);
}

#endif
