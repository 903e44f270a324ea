/* SPDX-License-Identifier: MIT */
/* Linear layers of a family's modules: their parameters and their call. */
#include "part/linear.h"

#include <stdio.h>

#include "op/op.h"
#include "part/adapter.h"
#include "part/float8.h"
#include "part/te.h"

/* Weight and bias under a name; what the plan puts around the layer. */
static struct mpl_linear describe(struct mpl_network *network, const char *name, int64_t out,
                                  int64_t in, bool has_bias, bool is_conv1d)
{
    const int64_t rows = is_conv1d ? in : out, columns = is_conv1d ? out : in;
    const bool is_peft = network->plan->training.lora.code == MPL_ADAPTER_PEFT;
    const bool is_adapted = mpl_is_adapted(network, name);
    struct mpl_linear linear = {MPL_NO_PARAMETER, MPL_NO_PARAMETER, is_conv1d};
    char base[sizeof(network->parameters[0].name)];

    snprintf(base, sizeof(base), "%s%s", name,
             !is_adapted ? ""
             : is_peft   ? ".base_layer"
                         : ".base");
    linear.weight = mpl_network_add_under(network, base, ".weight",
                                          mpl_shape2(mpl_dim(rows), mpl_dim(columns)));
    if (has_bias)
        linear.bias = mpl_network_add_under(network, base, ".bias", mpl_shape1(mpl_dim(out)));
    if (mpl_is_quantized(network, name))
        mpl_quantized_add(network, &linear, out, in);
    if (network->plan->training.float8.recipe != MPL_FLOAT8_NONE && !is_conv1d)
        mpl_float8_add(network, name, linear.weight, out, in);
    if (network->plan->training.te.recipe != MPL_TE_NONE && !is_conv1d)
        mpl_te_add(network, &linear, out, in);
    if (is_adapted)
        mpl_adapter_add(network, name, &linear, out, in);
    return linear;
}

struct mpl_linear mpl_linear_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in, bool has_bias)
{
    return describe(network, name, out, in, has_bias, false);
}

struct mpl_linear mpl_conv1d_add(struct mpl_network *network, const char *name, int64_t out,
                                 int64_t in)
{
    return describe(network, name, out, in, true, true);
}

void mpl_linear_set_forward(struct mpl_network *network, const struct mpl_linear *linear,
                            mpl_linear_forward *forward)
{
    if (linear->weight != MPL_NO_PARAMETER)
        network->parameters[linear->weight].forward = forward;
}

struct mpl_tensor *mpl_linear_call(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_parameter *weight = &network->parameters[linear->weight];
    const uint64_t module = mpl_module_of_weight(linear->weight, weight->is_tied);

    if (weight->adapter && !network->are_adapters_off)
        return mpl_adapter_call(tape, network, linear, x);
    x = mpl_scope_enter(tape, module, x);
    return mpl_scope_leave(tape, module, mpl_linear_base_call(tape, network, linear, x));
}
