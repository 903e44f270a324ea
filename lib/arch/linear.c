/* SPDX-License-Identifier: MIT */
/* Linear layers of a family's modules: their parameters and their call. */
#include "arch/linear.h"

#include "op/op.h"

struct mpl_linear mpl_linear_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in, bool has_bias)
{
    struct mpl_linear linear = {MPL_NO_PARAMETER, MPL_NO_PARAMETER, false};

    linear.weight =
        mpl_network_add_under(network, name, ".weight", mpl_shape2(mpl_dim(out), mpl_dim(in)));
    if (has_bias)
        linear.bias = mpl_network_add_under(network, name, ".bias", mpl_shape1(mpl_dim(out)));
    return linear;
}

struct mpl_linear mpl_conv1d_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in)
{
    struct mpl_linear linear = mpl_linear_add(network, name, in, out, false);

    linear.bias = mpl_network_add_under(network, name, ".bias", mpl_shape1(mpl_dim(out)));
    linear.is_conv1d = true;
    return linear;
}

struct mpl_tensor *mpl_linear_call(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_linear *linear, struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_network_weight(network, linear->weight);
    struct mpl_tensor *bias = mpl_parameter_of(network, linear->bias);

    return linear->is_conv1d ? mpl_op_conv1d(tape, x, weight, bias)
                             : mpl_op_linear(tape, x, weight, bias);
}
