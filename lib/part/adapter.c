/* SPDX-License-Identifier: MIT */
/*
 * Low-rank adapters around linear layers, and weights in 4 bits below them.
 *
 * source: peft 0.21.2: tuners/lora/layer.py (LoraLayer, Linear), tuners/lora/bnb.py (Linear4bit),
 * tuners/tuners_utils.py (check_target_module_exists), utils/other.py (ModulesToSaveWrapper)
 */
#include "part/adapter.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "op/linear_4bit.h"
#include "op/op.h"
#include "part/dora.h"
#include "part/float8.h"
#include "part/te.h"

/* ---- which ------------------------------------------------------------------------------------
 */

bool mpl_is_adapted(struct mpl_network *network, const char *name)
{
    const struct mpl_lora *lora = &network->plan->training.lora;
    uint32_t met = 0;

    if (!lora->r || mpl_network_lists(network, name, &lora->saved, &met))
        return false;
    if (lora->targets.count == 1 && !strcmp(lora->targets.of[0], "all-linear")) {
        network->targets_met |= network->is_in_head ? 0 : 1;
        return !network->is_in_head;
    }
    return mpl_network_lists(network, name, &lora->targets, &network->targets_met);
}

bool mpl_is_quantized(const struct mpl_network *network, const char *name)
{
    const struct mpl_quantization *q = &network->plan->training.quantization;
    uint32_t met = 0;

    if (q->name == MPL_QUANTIZATION_NONE)
        return false;
    return q->skip.count ? !mpl_network_lists(network, name, &q->skip, &met) : !network->is_in_head;
}

/* ---- description ------------------------------------------------------------------------------
 */

static uint32_t add(struct mpl_network *network, const char *name, const char *suffix,
                    struct mpl_shape shape)
{
    const uint32_t index = mpl_network_add_under(network, name, suffix, shape);

    if (index != UINT32_MAX) {
        struct mpl_parameter *p = &network->parameters[index];

        p->dtype = p->loaded_dtype = network->plan->training.lora.adapter_dtype;
        p->is_adapter = true;
        p->is_trainable = true;
    }
    return index;
}

/* One matrix of an adapter as a module of its own. */
struct matrix {
    const struct mpl_network *network;
    uint32_t weight;
};

static struct mpl_tensor *matrix_forward(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    const struct matrix *matrix = context;

    return mpl_op_linear(tape, x, mpl_network_weight(matrix->network, matrix->weight), NULL);
}

/* Where a wrapper's hooks are to stand around lora_A and lora_B: FSDP1 as peft wants it. */
static void make_module(struct mpl_network *network, uint32_t weight)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;
    struct mpl_module *module;
    struct matrix *matrix;

    if (p->strategy != MPL_STRATEGY_FSDP1 || p->wrap != MPL_WRAP_LAYER_ADAPTERS)
        return;
    module = mpl_arena_zalloc(network->arena, sizeof(*module));
    matrix = mpl_arena_zalloc(network->arena, sizeof(*matrix));
    if (!module || !matrix || weight == UINT32_MAX)
        return;
    *matrix = (struct matrix){network, weight};
    *module = (struct mpl_module){.name = "adapter",
                                  .first_parameter = weight,
                                  .parameter_count = 1,
                                  .forward = matrix_forward,
                                  .context = matrix};
    network->parameters[weight].module = module;
}

void mpl_adapter_add(struct mpl_network *network, const char *name, const struct mpl_linear *linear,
                     int64_t out, int64_t in)
{
    const struct mpl_lora *lora = &network->plan->training.lora;
    const bool is_peft = lora->code == MPL_ADAPTER_PEFT;
    struct mpl_adapter *adapter = mpl_arena_zalloc(network->arena, sizeof(*adapter));

    if (!adapter || linear->weight == UINT32_MAX)
        return; /* the network's room is checked by whoever asked for it */
    adapter->a = add(network, name, is_peft ? ".lora_A.default.weight" : ".a.weight",
                     mpl_shape2(mpl_dim(lora->r), mpl_dim(in)));
    adapter->b = add(network, name, is_peft ? ".lora_B.default.weight" : ".b.weight",
                     mpl_shape2(mpl_dim(out), mpl_dim(lora->r)));
    adapter->magnitude =
        lora->use_dora
            ? add(network, name, ".lora_magnitude_vector.default.weight", mpl_shape1(mpl_dim(out)))
            : MPL_NO_PARAMETER;
    network->parameters[linear->weight].adapter = adapter;
    make_module(network, adapter->a);
    make_module(network, adapter->b);
}

void mpl_quantized_add(struct mpl_network *network, const struct mpl_linear *linear, int64_t out,
                       int64_t in)
{
    const struct mpl_quantization *q = &network->plan->training.quantization;
    struct mpl_quantized *weight = mpl_arena_zalloc(network->arena, sizeof(*weight));

    if (!weight || linear->weight == UINT32_MAX)
        return;
    weight->out = out;
    weight->in = in;
    weight->dtype = network->plan->training.parameter_dtype;
    weight->compute = q->compute_dtype;
    weight->is_double = q->is_double;
    network->parameters[linear->weight].quantized = weight;
    if (q->storage_dtype != MPL_DTYPE_NONE)
        network->parameters[linear->weight].packed_numel =
            mpl_quantized_elements(weight, q->storage_dtype);
    network->parameters[linear->weight].is_trainable = false;
    if (linear->bias != MPL_NO_PARAMETER)
        network->parameters[linear->bias].is_quantized_bias = true;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* bias.data = bias.data.to(x.dtype): once for good */
static struct mpl_tensor *settled_bias(struct mpl_tape *tape, const struct mpl_network *network,
                                       const struct mpl_linear *linear, enum mpl_dtype dtype)
{
    struct mpl_tensor *bias = mpl_parameter_of(network, linear->bias), *cast;
    struct mpl_parameter *p;

    if (!bias || bias->is_void || bias->dtype == dtype || tape->is_stopped)
        return bias;
    p = &network->parameters[linear->bias];
    tape->category = MPL_CATEGORY_PARAMETERS;
    cast = mpl_hold(mpl_empty(tape, "_to_copy.default", dtype, &bias->shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_drop(tape, p->tensor);
    p->tensor = cast;
    p->dtype = dtype;
    return cast;
}

struct mpl_tensor *mpl_linear_base_call(struct mpl_tape *tape, const struct mpl_network *network,
                                        const struct mpl_linear *linear, struct mpl_tensor *x)
{
    struct mpl_quantized *quantized = network->parameters[linear->weight].quantized;
    struct mpl_tensor *bias;

    if (quantized) {
        const enum mpl_dtype dtype =
            quantized->compute == MPL_DTYPE_NONE ? (enum mpl_dtype)x->dtype : quantized->compute;

        bias = settled_bias(tape, network, linear, dtype);
        return mpl_op_linear_4bit(tape, x, quantized, bias);
    }
    if (network->parameters[linear->weight].float8)
        return mpl_float8_call(tape, network, linear, x);
    if (network->parameters[linear->weight].te)
        return mpl_te_call(tape, network, linear, x);
    if (network->parameters[linear->weight].forward)
        return network->parameters[linear->weight].forward(tape, network, linear, x);
    bias = mpl_parameter_of(network, linear->bias);
    return linear->is_conv1d
               ? mpl_op_conv1d(tape, x, mpl_network_weight(network, linear->weight), bias)
           : tape->scopes
               ? mpl_op_linear_function(tape, x, mpl_network_weight(network, linear->weight), bias)
               : mpl_op_linear(tape, x, mpl_network_weight(network, linear->weight), bias);
}

/* lora_A(x) or lora_B(x); floating. Consumes a floating x. */
static struct mpl_tensor *matrix_call(struct mpl_tape *tape, const struct mpl_network *network,
                                      uint32_t weight, struct mpl_tensor *x)
{
    struct mpl_module *module = network->parameters[weight].module;
    const uint64_t number = mpl_module_of_weight(weight, false);

    if (module)
        return mpl_module_call(tape, module, x);
    if (!tape->scopes)
        return mpl_op_linear(tape, x, mpl_network_weight(network, weight), NULL);
    x = mpl_scope_enter(tape, number, x);
    return mpl_scope_leave(
        tape, number, mpl_op_linear_function(tape, x, mpl_network_weight(network, weight), NULL));
}

/* lora_dropout(x): nn.Dropout, or nn.Identity without a probability; both are modules. */
static struct mpl_tensor *dropout(struct mpl_tape *tape, const struct mpl_network *network,
                                  struct mpl_tensor *x)
{
    x = mpl_scope_enter(tape, MPL_NO_MODULE, x);
    return mpl_scope_leave(tape, MPL_NO_MODULE,
                           mpl_op_dropout(tape, x, network->plan->training.lora.dropout));
}

/* The module around the layer and its adapter: nothing in it is its own. */
static uint64_t layer_number(const struct mpl_adapter *adapter)
{
    return mpl_module_of_weight(adapter->a, true);
}

/* The layer that an adapter stands around: a module of its own (base_layer). */
static struct mpl_tensor *base_layer(struct mpl_tape *tape, const struct mpl_network *network,
                                     const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const uint64_t number = mpl_module_of_weight(linear->weight, false);

    x = mpl_scope_enter(tape, number, x);
    return mpl_scope_leave(tape, number, mpl_linear_base_call(tape, network, linear, x));
}

/* The format that an input is cast to: lora_A.weight.dtype. A unit of FSDP1 shows its shard between
 * forwards, or without use_orig_params what its last forward gathered. */
static enum mpl_dtype adapter_dtype(const struct mpl_network *network,
                                    const struct mpl_adapter *adapter)
{
    const struct mpl_tensor *weight = mpl_network_weight(network, adapter->a);

    if (network->parameters[adapter->a].module &&
        (!weight || network->plan->parallelism.use_orig_params))
        return network->parameters[adapter->a].dtype;
    return (enum mpl_dtype)weight->dtype;
}

/* lora_B(lora_A(x)) * scaling; floating. Consumes a floating x. */
static struct mpl_tensor *low_rank(struct mpl_tape *tape, const struct mpl_network *network,
                                   const struct mpl_adapter *adapter, struct mpl_tensor *x)
{
    struct mpl_tensor *a = matrix_call(tape, network, adapter->a, x);
    struct mpl_tensor *b = matrix_call(tape, network, adapter->b, a);

    return mpl_op_mul_number(tape, b);
}

/* base(x) + scale * b(a(x)) */
static struct mpl_tensor *plain(struct mpl_tape *tape, const struct mpl_network *network,
                                const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const struct mpl_adapter *adapter = network->parameters[linear->weight].adapter;
    const double p = network->plan->training.lora.dropout;
    struct mpl_tensor *result = mpl_linear_base_call(tape, network, linear, x);

    return mpl_op_add(tape, result, low_rank(tape, network, adapter, mpl_op_dropout(tape, x, p)));
}

/* Over 4 bits the result is cloned, and without autocast it is what is cast, not the sum. */
static struct mpl_tensor *over_4bit(struct mpl_tape *tape, const struct mpl_network *network,
                                    const struct mpl_linear *linear, struct mpl_tensor *argument)
{
    const struct mpl_adapter *adapter = network->parameters[linear->weight].adapter;
    const double p = network->plan->training.lora.dropout;
    struct mpl_tensor *result = mpl_hold(mpl_linear_base_call(tape, network, linear, argument));
    struct mpl_tensor *x = mpl_hold(mpl_return(mpl_hold(argument))), *output;
    const enum mpl_dtype dtype = (enum mpl_dtype)result->dtype;

    mpl_rebind(tape, &result, mpl_op_clone(tape, result));
    if (tape->autocast == MPL_DTYPE_NONE)
        mpl_rebind(tape, &x, mpl_op_to(tape, x, adapter_dtype(network, adapter)));
    if (adapter->magnitude != MPL_NO_PARAMETER) {
        mpl_rebind(tape, &result, mpl_dora_call(tape, network, linear, result, x));
        if (tape->autocast == MPL_DTYPE_NONE)
            mpl_rebind(tape, &result, mpl_op_to(tape, result, dtype));
        mpl_drop(tape, x);
        return mpl_return(result);
    }
    output = mpl_hold(low_rank(tape, network, adapter, mpl_op_dropout(tape, x, p)));
    if (tape->autocast == MPL_DTYPE_NONE)
        mpl_rebind(tape, &output, mpl_op_to(tape, output, dtype));
    mpl_rebind(tape, &result, mpl_op_add(tape, result, output));
    mpl_drop(tape, output);
    mpl_drop(tape, x);
    return mpl_return(result);
}

/* result + lora_B(lora_A(dropout(x.to(dtype of lora_A)))) * scaling, in the dtype of result */
static struct mpl_tensor *over_linear(struct mpl_tape *tape, const struct mpl_network *network,
                                      const struct mpl_linear *linear, struct mpl_tensor *argument)
{
    const struct mpl_adapter *adapter = network->parameters[linear->weight].adapter;
    struct mpl_tensor *result = mpl_hold(base_layer(tape, network, linear, argument)), *x;
    const enum mpl_dtype dtype = (enum mpl_dtype)result->dtype;

    mpl_scope_read(tape, layer_number(adapter), adapter->a); /* lora_A.weight.dtype */
    x = mpl_hold(mpl_op_to(tape, argument, adapter_dtype(network, adapter)));

    if (adapter->magnitude != MPL_NO_PARAMETER)
        mpl_rebind(tape, &result, mpl_dora_call(tape, network, linear, result, x));
    else
        mpl_rebind(
            tape, &result,
            mpl_op_add(tape, result, low_rank(tape, network, adapter, dropout(tape, network, x))));
    mpl_rebind(tape, &result, mpl_op_to(tape, result, dtype));
    mpl_drop(tape, x);
    return mpl_return(result);
}

struct mpl_tensor *mpl_adapter_call(struct mpl_tape *tape, const struct mpl_network *network,
                                    const struct mpl_linear *linear, struct mpl_tensor *x)
{
    const bool is_peft = network->plan->training.lora.code == MPL_ADAPTER_PEFT;
    const uint64_t number = layer_number(network->parameters[linear->weight].adapter);
    struct mpl_tensor *argument = mpl_hold(mpl_scope_enter(tape, number, x)), *out;

    if (!is_peft)
        out = plain(tape, network, linear, argument);
    else if (network->parameters[linear->weight].quantized)
        out = over_4bit(tape, network, linear, argument);
    else
        out = over_linear(tape, network, linear, argument);
    out = mpl_scope_leave(tape, number, out);
    mpl_drop(tape, argument);
    return out;
}

/* A copy stands behind its original: forward's tensors change places. */
void mpl_adapters_set(struct mpl_network *network, bool are_enabled)
{
    if (network->are_adapters_off == !are_enabled)
        return;
    network->are_adapters_off = !are_enabled;
    for (uint32_t i = 1; i < network->parameter_count; i++) {
        struct mpl_parameter *copy = &network->parameters[i], *original = copy - 1;
        struct mpl_tensor *tensor = copy->tensor;

        if (!copy->is_copy)
            continue;
        copy->tensor = original->tensor;
        original->tensor = tensor;
    }
}

/* ---- names that fit nothing -------------------------------------------------------------------
 */

/* Does a module of that name own a parameter? */
static bool is_module(const struct mpl_network *network, const char *wanted)
{
    char tail[2][80];

    snprintf(tail[0], sizeof(tail[0]), ".%s.weight", wanted);
    snprintf(tail[1], sizeof(tail[1]), ".%s.bias", wanted);
    for (uint32_t i = 0; i < network->parameter_count; i++)
        for (int k = 0; k < 2; k++) {
            const char *name = network->parameters[i].name;
            const size_t len = strlen(name), end = strlen(tail[k]);

            if (len >= end && !strcmp(name + len - end, tail[k]))
                return true;
        }
    return false;
}

enum memplan_status mpl_adapter_check(const struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_lora *lora = &network->plan->training.lora;

    if (!lora->r)
        return MEMPLAN_OK;
    for (uint32_t i = 0; i < lora->targets.count; i++)
        if (!(network->targets_met >> i & 1) && is_module(network, lora->targets.of[i]))
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/lora/target_modules",
                            "training.lora.target_modules: \"%s\" is no linear layer; adapters of "
                            "other modules are not modelled",
                            lora->targets.of[i]);
    if (!network->targets_met)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/lora/target_modules",
                        "training.lora.target_modules: no linear layer of the model has one of "
                        "these names");
    for (uint32_t i = 0; i < lora->saved.count; i++)
        if (!(network->saved_met >> i & 1))
            return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/lora/modules_to_save",
                            "training.lora.modules_to_save: \"%s\" is no module with parameters of "
                            "its own",
                            lora->saved.of[i]);
    return MEMPLAN_OK;
}
