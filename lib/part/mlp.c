/* SPDX-License-Identifier: MIT */
/*
 * Feed-forward parts of decoder layers.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaMLP), activations.py; release 5.24.0
 */
#include "part/mlp.h"

#include "base/join.h"
#include "op/op.h"

static struct mpl_tensor *activate(struct mpl_tape *tape, enum mpl_activation activation,
                                   struct mpl_tensor *x)
{
    switch (activation) {
    case MPL_ACTIVATION_GELU:
    case MPL_ACTIVATION_GELU_TANH:
        return mpl_op_gelu(tape, x);
    case MPL_ACTIVATION_GELU_NEW:
        return mpl_op_gelu_new(tape, x);
    case MPL_ACTIVATION_GELU_FAST:
        return mpl_op_gelu_fast(tape, x);
    case MPL_ACTIVATION_QUICK_GELU:
        return mpl_op_quick_gelu(tape, x);
    case MPL_ACTIVATION_RELU:
        return mpl_op_relu(tape, x);
    case MPL_ACTIVATION_RELU2:
        return mpl_op_square(tape, mpl_op_relu(tape, x));
    case MPL_ACTIVATION_TANH:
        return mpl_op_tanh(tape, x);
    case MPL_ACTIVATION_SILU:
        break;
    }
    return mpl_op_silu(tape, x);
}

struct mpl_tensor *mpl_activation_call(struct mpl_tape *tape, enum mpl_activation activation,
                                       struct mpl_tensor *x)
{
    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    return mpl_scope_leave(tape, MPL_NO_MODULE, activate(tape, activation, x));
}

struct mpl_tensor *mpl_dropout_call(struct mpl_tape *tape, struct mpl_tensor *x, double p)
{
    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_op_dropout(tape, x, p));
}

struct mpl_gated_mlp mpl_gated_mlp_add(struct mpl_network *network, const char *name,
                                       int64_t intermediate_size, bool has_bias)
{
    const int64_t h = network->plan->model.hidden_size;
    struct mpl_gated_mlp mlp;
    char path[64];

    mpl_join(path, sizeof(path), (const char *[]){name, ".gate_proj"}, 2);
    mlp.gate = mpl_linear_add(network, path, intermediate_size, h, has_bias);
    mpl_join(path, sizeof(path), (const char *[]){name, ".up_proj"}, 2);
    mlp.up = mpl_linear_add(network, path, intermediate_size, h, has_bias);
    mpl_join(path, sizeof(path), (const char *[]){name, ".down_proj"}, 2);
    mlp.down = mpl_linear_add(network, path, h, intermediate_size, has_bias);
    return mlp;
}

struct mpl_tensor *mpl_gated_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_gated_mlp *mlp, struct mpl_tensor *x)
{
    const enum mpl_activation act = network->plan->model.hidden_act;
    struct mpl_tensor *gate, *product;

    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    gate = mpl_activation_call(tape, act, mpl_linear_call(tape, network, &mlp->gate, x));
    product = mpl_op_mul(tape, gate, mpl_linear_call(tape, network, &mlp->up, x));
    return mpl_scope_leave(tape, MPL_NO_MODULE,
                           mpl_linear_call(tape, network, &mlp->down, product));
}

struct mpl_tensor *mpl_plain_mlp_forward(struct mpl_tape *tape, const struct mpl_network *network,
                                         const struct mpl_plain_mlp *mlp, struct mpl_tensor *x)
{
    struct mpl_tensor *argument = mpl_hold(mpl_scope_enter(tape, MPL_NO_MODULE, x));
    struct mpl_tensor *h = mpl_hold(mpl_linear_call(tape, network, &mlp->up, argument));

    mpl_rebind(tape, &h, mpl_activation_call(tape, network->plan->model.hidden_act, h));
    mpl_rebind(tape, &h, mpl_linear_call(tape, network, &mlp->down, h));
    mpl_drop(tape, argument);
    return mpl_scope_leave(tape, MPL_NO_MODULE, mpl_return(h));
}
