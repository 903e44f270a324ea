/* SPDX-License-Identifier: MIT */
/*
 * DoRA: a low-rank adapter whose merged weight is scaled to a learned magnitude. The norm of the
 * merged weight is taken in every forward, from the weight itself.
 *
 * source: peft 0.21.2: tuners/lora/variants.py (DoraLinearVariant), tuners/lora/dora.py
 * (DoraLinearLayer)
 */
#include "part/dora.h"

#include "op/linear_4bit.h"
#include "op/op.h"

/* lora_B(lora_A(x)); floating. Consumes a floating x. */
static struct mpl_tensor *low_rank(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_adapter *adapter, struct mpl_tensor *x)
{
    struct mpl_tensor *a = mpl_op_linear(tape, x, mpl_network_weight(network, adapter->a), NULL);

    return mpl_op_linear(tape, a, mpl_network_weight(network, adapter->b), NULL);
}

/* get_lora_weight: the product of the matrices, as the forward of the unit matrix. */
static struct mpl_tensor *merged(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_adapter *adapter)
{
    const struct mpl_tensor *a = mpl_network_weight(network, adapter->a);
    struct mpl_shape shape;
    struct mpl_tensor *eye, *out;

    if (a->is_void)
        return tape->void_tensor;
    shape = mpl_shape2(a->shape.dim[1], a->shape.dim[1]);
    eye = mpl_hold(mpl_empty(tape, "eye.default", (enum mpl_dtype)a->dtype, &shape));
    out = mpl_op_transpose(tape, low_rank(tape, network, adapter, eye), 0, 1);
    mpl_drop(tape, eye);
    return out;
}

/* (magnitude / get_weight_norm(weight, lora_weight.detach(), scaling).detach()).view(1, -1); held.
 * norm_out takes the norm, held: a local of forward. */
static struct mpl_tensor *scale(struct mpl_tape *tape, struct mpl_tensor *magnitude,
                                struct mpl_tensor *weight, struct mpl_tensor *lora_weight,
                                struct mpl_tensor **norm_out)
{
    struct mpl_tensor *sum, *norm, *ratio;

    if (weight->is_void || lora_weight->is_void)
        return tape->void_tensor;
    sum = mpl_op_mul_number(tape, mpl_alias(tape, lora_weight));
    sum = mpl_op_add(tape, weight, sum);
    norm = mpl_hold(mpl_op_norm_last(tape, sum));
    ratio = mpl_op_div_constant(tape, magnitude, norm);
    *norm_out = norm;
    if (ratio->is_void)
        return ratio;
    return mpl_hold(mpl_op_reshape(tape, ratio, mpl_shape2(mpl_dim(1), ratio->shape.dim[0])));
}

/* What the base layer gives without its bias: from its result, or from x with dropout. */
static struct mpl_tensor *base_result(struct mpl_tape *tape, const struct mpl_network *network,
                                      const struct mpl_linear *linear, struct mpl_tensor *result,
                                      struct mpl_tensor *x, struct mpl_tensor *weight)
{
    struct mpl_tensor *bias = mpl_parameter_of(network, linear->bias);

    if (network->plan->training.lora.dropout > 0)
        return mpl_hold(mpl_op_linear(tape, x, weight, NULL));
    return mpl_hold(bias ? mpl_op_add(tape, result, bias) : mpl_return(mpl_hold(result)));
}

/* (m - 1) * base_result + m * lora_result * scaling */
static struct mpl_tensor *combine(struct mpl_tape *tape, struct mpl_tensor *m,
                                  struct mpl_tensor *base, struct mpl_tensor *lora)
{
    struct mpl_tensor *left = mpl_op_mul(tape, mpl_op_add_scalar(tape, m), base);
    struct mpl_tensor *right = mpl_op_mul_number(tape, mpl_op_mul(tape, m, lora));

    return mpl_op_add(tape, left, right);
}

struct mpl_tensor *mpl_dora_call(struct mpl_tape *tape, const struct mpl_network *network,
                                 const struct mpl_linear *linear, struct mpl_tensor *result,
                                 struct mpl_tensor *input)
{
    const struct mpl_adapter *adapter = network->parameters[linear->weight].adapter;
    struct mpl_tensor *x =
        mpl_hold(mpl_op_dropout(tape, input, network->plan->training.lora.dropout));
    const enum mpl_dtype dtype = (enum mpl_dtype)x->dtype;
    struct mpl_tensor *lora_weight = mpl_hold(merged(tape, network, adapter)), *weight, *m;
    struct mpl_tensor *lora, *base, *out, *norm = NULL;
    const struct mpl_quantized *quantized;

    mpl_rebind(tape, &lora_weight, mpl_op_to(tape, lora_weight, dtype));
    quantized = network->parameters[linear->weight].quantized;
    weight =
        mpl_hold(quantized ? mpl_op_dequantize_4bit(tape, quantized)
                           : mpl_return(mpl_hold(mpl_network_weight(network, linear->weight))));
    mpl_rebind(tape, &weight, mpl_op_to(tape, weight, dtype));
    m = scale(tape, mpl_network_weight(network, adapter->magnitude), weight, lora_weight, &norm);
    lora = mpl_hold(low_rank(tape, network, adapter, x));
    base = base_result(tape, network, linear, result, x, weight);
    out = mpl_hold(combine(tape, m, base, lora));
    mpl_drop(tape, base);
    mpl_drop(tape, lora);
    mpl_drop(tape, m);
    mpl_drop(tape, norm);
    mpl_drop(tape, weight);
    mpl_drop(tape, lora_weight);
    out = mpl_op_add(tape, result, mpl_return(out));
    mpl_drop(tape, x);
    return out;
}
