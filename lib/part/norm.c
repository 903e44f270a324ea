/* SPDX-License-Identifier: MIT */
/*
 * Normalisation layers of families.
 *
 * source: transformers/models/llama/modeling_llama.py (LlamaRMSNorm), gemma/modeling_gemma.py
 * (GemmaRMSNorm), olmo2/modeling_olmo2.py (Olmo2RMSNorm), nemotron/modeling_nemotron.py
 * (NemotronLayerNorm1P), cohere/modeling_cohere.py (CohereLayerNorm), olmo/modeling_olmo.py
 * (OlmoLayerNorm), release 5.24.0; torch/nn/modules/normalization.py
 */
#include "part/norm.h"

#include <stdio.h>

#include "op/op.h"
#include "part/decoder.h"
#include "part/te.h"

struct mpl_norm mpl_norm_add(struct mpl_network *network, enum mpl_norm_kind kind, const char *name,
                             int64_t width)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(width));
    struct mpl_norm norm = {kind, MPL_NO_PARAMETER, MPL_NO_PARAMETER};

    if (kind == MPL_NORM_LAYER_PLAIN)
        return norm;
    if (kind == MPL_NORM_LAYER || kind == MPL_NORM_LAYER_ONE)
        mpl_te_add_norm(network);
    norm.weight = mpl_network_add_under(network, name, ".weight", shape);
    if (kind == MPL_NORM_LAYER || kind == MPL_NORM_LAYER_ONE)
        norm.bias = mpl_network_add_under(network, name, ".bias", shape);
    return norm;
}

struct mpl_norm mpl_norm_add_by_head(struct mpl_network *network, enum mpl_norm_kind kind,
                                     const char *name, int64_t heads, int64_t width)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(heads), mpl_dim(width));
    struct mpl_norm norm = {kind, MPL_NO_PARAMETER, MPL_NO_PARAMETER};
    char path[64];

    if (kind == MPL_NORM_LAYER_HEADS)
        mpl_te_add_norm(network);
    for (int64_t i = 0; kind == MPL_NORM_LAYER_HEADS && i < heads; i++) {
        uint32_t weight;

        snprintf(path, sizeof(path), "%s.norms.%d", name, (int)i);
        weight = mpl_network_add_under(network, path, ".weight", mpl_shape1(mpl_dim(width)));
        norm.weight = i ? norm.weight : weight;
    }
    if (kind == MPL_NORM_LAYER_HEADS)
        return norm;
    norm.weight = mpl_network_add_under(network, name, ".weight", shape);
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

/* (weight * x * rsqrt(mean(x^2))).to(dtype), all in float32 */
static struct mpl_tensor *rms_norm_wide(struct mpl_tape *tape, struct mpl_tensor *weight,
                                        struct mpl_tensor *x)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *h = mpl_hold(mpl_op_to(tape, x, MPL_FLOAT32)), *out;
    struct mpl_tensor *variance = mpl_hold(mpl_op_mean_last(tape, mpl_op_square(tape, h)));

    mpl_rebind(tape, &h,
               mpl_op_mul(tape, h, mpl_op_rsqrt(tape, mpl_op_add_scalar(tape, variance))));
    out = mpl_op_to(tape, mpl_op_mul(tape, weight, h), dtype);
    mpl_drop(tape, h);
    mpl_drop(tape, variance);
    return out;
}

/* layer_norm with weight + 1, everything cast to autocast's format and autocast off meanwhile */
static struct mpl_tensor *layer_norm_one(struct mpl_tape *tape, struct mpl_tensor *weight,
                                         struct mpl_tensor *bias, struct mpl_tensor *x)
{
    const enum mpl_dtype autocast = tape->autocast;
    const bool is_on = autocast != MPL_DTYPE_NONE;
    struct mpl_tensor *scale = mpl_hold(mpl_op_add_scalar(tape, weight)), *w, *b, *h, *out;

    h = mpl_hold(mpl_op_to(tape, x, is_on ? autocast : (enum mpl_dtype)x->dtype));
    w = mpl_hold(mpl_op_to(tape, scale, is_on ? autocast : (enum mpl_dtype)scale->dtype));
    b = mpl_hold(mpl_op_to(tape, bias, is_on ? autocast : (enum mpl_dtype)bias->dtype));
    mpl_drop(tape, scale);
    tape->autocast = MPL_DTYPE_NONE;
    out = mpl_op_layer_norm(tape, h, w, b);
    tape->autocast = autocast;
    mpl_drop(tape, h);
    mpl_drop(tape, w);
    mpl_drop(tape, b);
    return out;
}

/* weight * (x - mean) * rsqrt(variance), written out in float32 */
static struct mpl_tensor *layer_norm_wide(struct mpl_tape *tape, struct mpl_tensor *weight,
                                          struct mpl_tensor *x)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *h = mpl_hold(mpl_op_to(tape, x, MPL_FLOAT32)), *out, *centred;
    struct mpl_tensor *mean = mpl_hold(mpl_op_mean_last(tape, h));
    struct mpl_tensor *variance =
        mpl_hold(mpl_op_mean_last(tape, mpl_op_square(tape, mpl_op_sub(tape, h, mean))));

    centred = mpl_op_sub(tape, h, mean);
    mpl_rebind(tape, &h,
               mpl_op_mul(tape, centred, mpl_op_rsqrt(tape, mpl_op_add_scalar(tape, variance))));
    mpl_rebind(tape, &h, mpl_op_mul(tape, mpl_op_to(tape, weight, MPL_FLOAT32), h));
    out = mpl_op_to(tape, h, dtype);
    mpl_drop(tape, h);
    mpl_drop(tape, mean);
    mpl_drop(tape, variance);
    return out;
}

/* cat([norm(head) for norm, head in zip(norms, x.split(1, dim=1))], dim=1) */
static struct mpl_tensor *layer_norm_heads(struct mpl_tape *tape, const struct mpl_network *network,
                                           uint32_t first, struct mpl_tensor *x)
{
    const int heads = x->is_void ? 0 : (int)x->shape.dim[1].n;
    struct mpl_tensor *parts[MPL_MAX_SPLIT_HEADS], *normed[MPL_MAX_SPLIT_HEADS], *out;

    if (!heads)
        return tape->void_tensor;
    mpl_op_split_heads(tape, x, parts);
    for (int i = 0; i < heads; i++)
        mpl_hold(parts[i]);
    for (int i = 0; i < heads; i++)
        normed[i] = mpl_hold(mpl_op_layer_norm(
            tape, parts[i], mpl_network_weight(network, first + (uint32_t)i), NULL));
    out = mpl_op_cat_heads(tape, normed, heads);
    for (int i = 0; i < heads; i++) {
        mpl_drop(tape, normed[i]);
        mpl_drop(tape, parts[i]);
    }
    return out;
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
    case MPL_NORM_RMS_WIDE:
        return rms_norm_wide(tape, weight, x);
    case MPL_NORM_LAYER_ONE:
        return layer_norm_one(tape, weight, mpl_parameter_of(network, norm->bias), x);
    case MPL_NORM_LAYER_HEADS:
        return layer_norm_heads(tape, network, norm->weight, x);
    case MPL_NORM_LAYER_WIDE:
        return layer_norm_wide(tape, weight, x);
    case MPL_NORM_LAYER_PLAIN: {
        const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;

        x = mpl_op_to(tape, x, MPL_FLOAT32);
        return mpl_op_to(tape, mpl_op_layer_norm(tape, x, NULL, NULL), dtype);
    }
    case MPL_NORM_RMS:
        break;
    }
    return mpl_rms_norm(tape, weight, x);
}

/* The caller's argument lives until the call returns, whatever forward does with its own name. */
struct mpl_tensor *mpl_norm_call(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_norm *norm, struct mpl_tensor *x)
{
    const uint64_t module = norm->weight == MPL_NO_PARAMETER
                                ? MPL_NO_MODULE
                                : mpl_module_of_weight(norm->weight, false);
    struct mpl_tensor *argument = mpl_hold(mpl_scope_enter(tape, module, x)), *out;

    out = mpl_scope_leave(tape, module, forward(tape, network, norm, argument));
    mpl_drop(tape, argument);
    return out;
}
