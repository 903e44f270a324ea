/* SPDX-License-Identifier: MIT */
/* A model on the tape: its parameters, its modules, its forward. */
#include "step/network.h"

#include <string.h>

#include "base/join.h"
#include "op/linear_4bit.h"

uint32_t mpl_network_add(struct mpl_network *network, const char *name, struct mpl_shape shape)
{
    struct mpl_parameter *p;

    if (network->parameter_count >= network->parameter_cap)
        return UINT32_MAX;
    p = &network->parameters[network->parameter_count];
    mpl_join(p->name, sizeof(p->name), &name, 1);
    p->shape = shape;
    p->dtype = p->loaded_dtype = network->plan->training.parameter_dtype;
    p->is_trainable = !network->plan->training.lora.r; /* peft freezes what it finds */
    return network->parameter_count++;
}

/* peft's model holds the model that it was given. */
static bool is_wrapped(const struct mpl_plan *plan)
{
    return plan->training.lora.r && plan->training.lora.code == MPL_ADAPTER_PEFT;
}

/* With adapters a layer of two parameters becomes one of five. */
uint32_t mpl_network_room(const struct mpl_plan *plan, uint32_t count)
{
    return plan->training.lora.r ? 4 * count : count;
}

/* source: peft 0.21.2, tuners/tuners_utils.py (check_target_module_exists) */
bool mpl_name_ends_with(const char *name, const char *wanted)
{
    const size_t len = strlen(name), end = strlen(wanted);

    return len >= end && !strcmp(name + len - end, wanted) &&
           (len == end || name[len - end - 1] == '.');
}

/* The same without regard to dots.
 * source: peft 0.21.2, utils/other.py (_set_trainable) */
static bool ends_anyhow(const char *name, const char *wanted)
{
    const size_t len = strlen(name), end = strlen(wanted);

    return len >= end && !strcmp(name + len - end, wanted);
}

bool mpl_network_lists(const struct mpl_network *network, const char *name,
                       const struct mpl_names *names, uint32_t *met)
{
    const bool is_loose = names == &network->plan->training.lora.saved;
    char path[sizeof(network->parameters[0].name)];
    bool is_listed = false;

    mpl_join(path, sizeof(path), (const char *[]){network->prefix, name}, 2);
    for (uint32_t i = 0; i < names->count; i++)
        if (is_loose ? ends_anyhow(path, names->of[i]) : mpl_name_ends_with(path, names->of[i])) {
            *met |= UINT32_C(1) << i;
            is_listed = true;
        }
    return is_listed;
}

static uint32_t add_named(struct mpl_network *network, const char *name, const char *wrapper,
                          const char *suffix, struct mpl_shape shape)
{
    char path[sizeof(network->parameters[0].name)];

    mpl_join(path, sizeof(path),
             (const char *[]){is_wrapped(network->plan) ? "base_model.model." : "", network->prefix,
                              name, wrapper, suffix},
             5);
    return mpl_network_add(network, path, shape);
}

/* source: peft 0.21.2, utils/other.py (ModulesToSaveWrapper): the copy has the original's dtype */
uint32_t mpl_network_add_under(struct mpl_network *network, const char *name, const char *suffix,
                               struct mpl_shape shape)
{
    const struct mpl_lora *lora = &network->plan->training.lora;
    uint32_t index;

    if (!lora->r || !mpl_network_lists(network, name, &lora->saved, &network->saved_met))
        return add_named(network, name, "", suffix, shape);
    add_named(network, name, ".original_module", suffix, shape);
    index = add_named(network, name, ".modules_to_save.default", suffix, shape);
    if (index != UINT32_MAX) {
        network->parameters[index].is_adapter = true;
        network->parameters[index].is_copy = true;
        network->parameters[index].is_trainable = true;
    }
    return index;
}

void mpl_network_set_dtype(struct mpl_network *network, uint32_t i, enum mpl_dtype dtype)
{
    if (i != UINT32_MAX)
        network->parameters[i].dtype = network->parameters[i].loaded_dtype = dtype;
}

uint32_t mpl_network_add_buffer(struct mpl_network *network, const char *name,
                                struct mpl_shape shape)
{
    const uint32_t index = mpl_network_add(network, name, shape);

    mpl_network_set_dtype(network, index, MPL_FLOAT32);
    if (index != UINT32_MAX) {
        network->parameters[index].is_trainable = false;
        network->parameters[index].is_buffer = true;
    }
    return index;
}

uint32_t mpl_network_add_buffer_under(struct mpl_network *network, const char *name,
                                      const char *suffix, struct mpl_shape shape)
{
    char path[sizeof(network->parameters[0].name)];

    mpl_join(path, sizeof(path), (const char *[]){network->prefix, name, suffix}, 3);
    return mpl_network_add_buffer(network, path, shape);
}

uint64_t mpl_parameter_numel(const struct mpl_parameter *parameter)
{
    uint64_t numel = 1;

    for (int i = 0; i < parameter->shape.ndim; i++)
        numel = mpl_mul(numel, (uint64_t)parameter->shape.dim[i].n);
    return numel;
}

struct mpl_shape mpl_parameter_stored_shape(const struct mpl_parameter *parameter)
{
    return parameter->packed_numel ? mpl_shape2(mpl_dim(parameter->packed_numel), mpl_dim(1))
                                   : parameter->shape;
}

uint64_t mpl_parameter_stored_numel(const struct mpl_parameter *parameter)
{
    return parameter->packed_numel ? (uint64_t)parameter->packed_numel
                                   : mpl_parameter_numel(parameter);
}

/* Rows of the first chunk: shards are cut along dimension 0 (torch.chunk). */
static int64_t shard_rows(const struct mpl_parameter *parameter)
{
    return (mpl_parameter_stored_shape(parameter).dim[0].n + parameter->shards - 1) /
           parameter->shards;
}

/* Rows of this rank's own chunk: the last ranks have fewer, or none. */
static int64_t own_rows(const struct mpl_parameter *parameter)
{
    const int64_t rows = shard_rows(parameter);
    const int64_t left = parameter->shape.dim[0].n - parameter->shard_index * rows;

    return left >= rows ? rows : left > 0 ? left : 0;
}

bool mpl_parameter_is_short(const struct mpl_parameter *parameter)
{
    return parameter->shards && own_rows(parameter) < shard_rows(parameter);
}

uint64_t mpl_parameter_local_numel(const struct mpl_parameter *parameter)
{
    struct mpl_parameter local = *parameter;

    if (parameter->shards) {
        local.shape = mpl_parameter_stored_shape(parameter);
        local.shape.dim[0].n = shard_rows(parameter);
    }
    return mpl_parameter_numel(&local);
}

/* A leaf of its own on the device. */
static struct mpl_tensor *new_leaf(struct mpl_tape *tape, const struct mpl_parameter *p,
                                   const char *op, const struct mpl_shape *shape)
{
    struct mpl_tensor *leaf;

    tape->category = p->is_buffer ? MPL_CATEGORY_BUFFERS : MPL_CATEGORY_PARAMETERS;
    leaf = mpl_hold(mpl_empty(tape, op, p->loaded_dtype, shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    if (!leaf->is_void)
        leaf->requires_grad = p->is_trainable;
    return leaf;
}

void mpl_network_remake_tied(struct mpl_tape *tape, struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];
        struct mpl_tensor *old = p->shard;

        if (!p->is_tied || !old)
            continue;
        p->shard = new_leaf(tape, p, "empty_like.default", &old->shape);
        mpl_drop(tape, old);
    }
}

/* A model that is made in place makes the tied weight twice before it ties the two. */
static void make_and_tie(struct mpl_tape *tape, const struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        const struct mpl_parameter *p = &network->parameters[i];

        if (p->is_tied)
            mpl_drop(tape, mpl_hold(mpl_empty(tape, "empty.memory_format", p->dtype, &p->shape)));
    }
}

/* The leaf is the part of the padded shard that this rank has rows for. Takes the padded one. */
static void narrow(struct mpl_tape *tape, struct mpl_parameter *p, struct mpl_tensor *padded)
{
    struct mpl_shape shape = p->shape;

    shape.dim[0].n = own_rows(p);
    p->shard = mpl_hold(mpl_alias_shaped(tape, padded, &shape));
    if (!p->shard->is_void)
        p->shard->requires_grad = p->is_trainable;
    mpl_drop(tape, padded);
}

void mpl_network_materialize_one(struct mpl_tape *tape, struct mpl_network *network, uint32_t i)
{
    struct mpl_parameter *p = &network->parameters[i];
    struct mpl_shape shape = p->shape;

    if (p->shards) {
        shape = mpl_parameter_stored_shape(p);
        shape.dim[0].n = shard_rows(p);
        p->shard = new_leaf(tape, p, "empty_like.default", &shape);
        if (mpl_parameter_is_short(p))
            narrow(tape, p, p->shard);
    } else {
        if (p->packed_numel && p->quantized->absmax) /* packed, from the host */
            shape = mpl_parameter_stored_shape(p);
        p->tensor = new_leaf(tape, p, "empty.memory_format", &shape);
    }
}

void mpl_network_to_empty_one(struct mpl_tape *tape, struct mpl_parameter *p)
{
    struct mpl_shape shape = p->shape;

    shape.dim[0].n = own_rows(p);
    p->shard = new_leaf(tape, p, "empty_like.default", &shape);
}

void mpl_network_pad_one(struct mpl_tape *tape, struct mpl_parameter *p)
{
    struct mpl_tensor *old = p->shard;
    struct mpl_shape shape = p->shape;

    shape.dim[0].n = shard_rows(p);
    narrow(tape, p, new_leaf(tape, p, "new_zeros.default", &shape));
    mpl_drop(tape, old);
}

/* bias.data of a layer that bitsandbytes makes anew: in PyTorch's default format. */
static struct mpl_tensor *remade_bias(struct mpl_tape *tape, struct mpl_parameter *bias)
{
    struct mpl_tensor *old = bias->tensor;

    bias->dtype = bias->loaded_dtype = MPL_FLOAT32;
    bias->tensor = new_leaf(tape, bias, "_to_copy.default", &bias->shape);
    return old;
}

/* The weight that lies on the card becomes one in 4 bits; gives the old one, for the caller to
 * drop. */
static struct mpl_tensor *quantize(struct mpl_tape *tape, struct mpl_network *network, uint32_t i,
                                   bool is_copied)
{
    struct mpl_parameter *p = &network->parameters[i];
    struct mpl_tensor *old = p->tensor, *copy = NULL;

    if (is_copied) /* the new layer's weight comes from the host */
        copy = mpl_hold(mpl_empty(tape, "_to_copy.default", p->loaded_dtype, &p->shape));
    mpl_quantize_4bit(tape, p->quantized, &network->quantization_table);
    mpl_drop(tape, copy);
    p->tensor = p->quantized->packed;
    return old;
}

/* Layers of a model that lies on the card are replaced one after the other; the old ones live until
 * the last is, since the list of modules that the loop walks holds them. Then the cache is emptied.
 */
static void quantize_in_place(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_tensor **old =
        mpl_arena_zalloc(&tape->arena, (network->parameter_count + 1) * sizeof(*old));

    if (!old) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (p->quantized)
            old[i] = quantize(tape, network, i, true);
        else if (p->is_quantized_bias)
            old[i] = remade_bias(tape, p);
    }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        mpl_drop(tape, old[i]);
    mpl_tape_empty_cache(tape);
}

/* param.data = param.data.to(torch.float32), one after the other, then empty_cache(). */
static void prepare_for_kbit(struct mpl_tape *tape, struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];
        struct mpl_tensor *old = p->tensor;

        if (p->is_adapter || p->is_buffer || p->quantized || p->dtype == MPL_FLOAT32)
            continue;
        p->dtype = p->loaded_dtype = MPL_FLOAT32;
        p->tensor = new_leaf(tape, p, "_to_copy.default", &p->shape);
        mpl_drop(tape, old);
    }
    mpl_tape_empty_cache(tape);
}

/* TRL's peft_module_casting_to_bf16: modules of these names, unless they are norms. */
static void cast_embeddings(struct mpl_tape *tape, struct mpl_network *network)
{
    static const char *const names[] = {"lm_head", "embed_tokens", "wte", "wpe"};

    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];
        struct mpl_tensor *old = p->tensor;
        bool is_named = false;

        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
            is_named = is_named || strstr(p->name, names[n]);
        if (!is_named || strstr(p->name, "norm") || p->is_buffer || p->dtype != MPL_FLOAT32)
            continue;
        p->dtype = p->loaded_dtype = MPL_BFLOAT16;
        p->tensor = new_leaf(tape, p, "_to_copy.default", &p->shape);
        mpl_drop(tape, old);
    }
}

/* A parameter of a te.Linear. */
static bool is_te(const struct mpl_parameter *p)
{
    return p->te || p->is_te_bias;
}

/* accelerator.prepare() puts te.Linear in the place of nn.Linear: its parameters are made on the
 * card, before the rest of the model comes there. Where the model lies on the card already, the
 * optimizer and two dictionaries hold the old ones until all are replaced (accelerate 1.15.0:
 * accelerator.py, _prepare_te). */
static void make_te(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_tensor **old =
        mpl_arena_zalloc(&tape->arena, (network->parameter_count + 1) * sizeof(*old));

    if (!old) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (is_te(&network->parameters[i])) {
            old[i] = network->parameters[i].tensor;
            mpl_network_materialize_one(tape, network, i);
        }
    for (uint32_t i = 0; i < network->parameter_count; i++)
        mpl_drop(tape, old[i]);
}

static void make_all(struct mpl_tape *tape, struct mpl_network *network, bool are_adapters)
{
    const bool is_in_place = network->plan->training.from_config;

    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (p->is_adapter != are_adapters || (!is_in_place && is_te(p)))
            continue;
        mpl_network_materialize_one(tape, network, i);
        if (p->quantized && !is_in_place)
            mpl_drop(tape, quantize(tape, network, i, false));
    }
}

void mpl_network_quantize_to_host(struct mpl_tape *tape, struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];

        if (!p->quantized || tape->is_stopped)
            continue;
        mpl_network_materialize_one(tape, network, i);
        mpl_drop(tape, quantize(tape, network, i, false));
        mpl_drop(tape, p->tensor);
        p->tensor = p->quantized->packed = NULL;
    }
}

static bool is_quantized(const struct mpl_network *network)
{
    return network->plan->training.quantization.name != MPL_QUANTIZATION_NONE;
}

void mpl_network_materialize(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_training *t = &network->plan->training;

    if (network->te && !t->from_config)
        make_te(tape, network);
    make_all(tape, network, false);
    mpl_network_remake_tied(tape, network);
    if (t->from_config && !network->sharding)
        make_and_tie(tape, network);
    if (t->from_config && is_quantized(network))
        quantize_in_place(tape, network);
    if (network->te && t->from_config)
        make_te(tape, network);
    if (t->prepare_for_kbit)
        prepare_for_kbit(tape, network);
    make_all(tape, network, true);
    if (t->prepare_for_kbit && t->embeddings_to_bfloat16 && is_quantized(network) &&
        t->autocast == MPL_BFLOAT16)
        cast_embeddings(tape, network);
}

void mpl_network_leave(struct mpl_tape *tape, struct mpl_network *network,
                       struct mpl_tensor **outputs, int count)
{
    const struct mpl_module *root = &network->modules[0];

    if (network->has_left)
        return;
    network->has_left = true;
    if (!root->hooks)
        return;
    root->hooks->post_forward(tape, root->wrapper, outputs, count);
    if (root->hooks->replace_outputs)
        root->hooks->replace_outputs(tape, root->wrapper, outputs, count);
}

void mpl_network_convert_outputs(struct mpl_tape *tape, const struct mpl_training *training,
                                 struct mpl_tensor **logits)
{
    if (!training->outputs_to_float32 || training->autocast == MPL_DTYPE_NONE || !*logits ||
        (*logits)->is_void || tape->is_stopped)
        return;
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    mpl_rebind(tape, logits, mpl_op_to(tape, *logits, MPL_FLOAT32));
}

struct mpl_tensor *mpl_network_call(struct mpl_tape *tape, struct mpl_network *network,
                                    struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const struct mpl_module *root = &network->modules[0];
    struct mpl_tensor *outputs[2];

    if (root->hooks)
        root->hooks->pre_forward(tape, root->wrapper, NULL);
    network->has_left = !root->hooks;
    outputs[0] = mpl_hold(network->forward(tape, network, batch, logits_out));
    outputs[1] = *logits_out;
    if (!network->has_left) {
        if (root->hooks->replace_outputs) /* it gets what accelerate converted */
            mpl_network_convert_outputs(tape, &network->plan->training, &outputs[1]);
        mpl_network_leave(tape, network, outputs, 2);
        *logits_out = outputs[1];
    }
    return mpl_return(outputs[0]);
}
