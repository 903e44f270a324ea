/* SPDX-License-Identifier: MIT */
/*
 * Normalisation layers of families.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaRMSNorm), gemma/modeling_gemma.py
 * (GemmaRMSNorm), release 5.24.0; torch/nn/modules/normalization.py
 */
#include "arch/norm.h"

#include "arch/decoder.h"
#include "op/op.h"

struct mpl_norm mpl_norm_add(struct mpl_network *network, enum mpl_norm_kind kind, const char *name,
                             int64_t width)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(width));
    struct mpl_norm norm = {kind, MPL_NO_PARAMETER, MPL_NO_PARAMETER};

    norm.weight = mpl_network_add_under(network, name, ".weight", shape);
    if (kind == MPL_NORM_LAYER)
        norm.bias = mpl_network_add_under(network, name, ".bias", shape);
    return norm;
}

/* x * rsqrt(mean(x^2)) in float32, then times (1 + weight.float()), then back. */
static struct mpl_tensor *rms_norm_one(struct mpl_tape *tape, struct mpl_tensor *weight,
                                       struct mpl_tensor *x)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *h = mpl_hold(mpl_op_to(tape, x, MPL_FLOAT32)), *out, *scale;
    struct mpl_tensor *root =
        mpl_op_rsqrt(tape, mpl_op_add_scalar(tape, mpl_op_mean_last(tape, mpl_op_square(tape, h))));

    out = mpl_hold(mpl_op_mul(tape, h, root));
    mpl_drop(tape, h);
    scale = mpl_op_add_scalar(tape, mpl_op_to(tape, weight, MPL_FLOAT32));
    mpl_rebind(tape, &out, mpl_op_mul(tape, out, scale));
    mpl_rebind(tape, &out, mpl_op_to(tape, out, dtype));
    return mpl_return(out);
}

static struct mpl_tensor *forward(struct mpl_tape *tape, const struct mpl_network *network,
                                  const struct mpl_norm *norm, struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_parameter_of(network, norm->weight);

    switch (norm->kind) {
    case MPL_NORM_LAYER:
        return mpl_op_layer_norm(tape, x, weight, mpl_parameter_of(network, norm->bias));
    case MPL_NORM_RMS_ONE:
        return rms_norm_one(tape, weight, x);
    case MPL_NORM_RMS:
        break;
    }
    return mpl_rms_norm(tape, weight, x);
}

/* The caller's argument lives until the call returns, whatever forward does with its own name. */
struct mpl_tensor *mpl_norm_call(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_norm *norm, struct mpl_tensor *x)
{
    struct mpl_tensor *argument = mpl_hold(x), *out = forward(tape, network, norm, argument);

    mpl_drop(tape, argument);
    return out;
}
