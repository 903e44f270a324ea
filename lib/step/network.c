/* SPDX-License-Identifier: MIT */
/* A model on the tape: its parameters, its modules, its forward. */
#include "step/network.h"

#include <stdio.h>

uint32_t mpl_network_add(struct mpl_network *network, const char *name, struct mpl_shape shape)
{
    struct mpl_parameter *p;

    if (network->parameter_count >= network->parameter_cap)
        return UINT32_MAX;
    p = &network->parameters[network->parameter_count];
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->shape = shape;
    p->dtype = network->plan->training.parameter_dtype;
    p->is_trainable = true;
    return network->parameter_count++;
}

uint32_t mpl_network_add_under(struct mpl_network *network, const char *name, const char *suffix,
                               struct mpl_shape shape)
{
    char path[sizeof(network->parameters[0].name)];

    snprintf(path, sizeof(path), "%s%s%s", network->prefix, name, suffix);
    return mpl_network_add(network, path, shape);
}

uint32_t mpl_network_add_buffer(struct mpl_network *network, const char *name,
                                struct mpl_shape shape)
{
    const uint32_t index = mpl_network_add(network, name, shape);

    if (index != UINT32_MAX) {
        network->parameters[index].dtype = MPL_FLOAT32;
        network->parameters[index].is_trainable = false;
        network->parameters[index].is_buffer = true;
    }
    return index;
}

uint32_t mpl_network_add_buffer_under(struct mpl_network *network, const char *name,
                                      const char *suffix, struct mpl_shape shape)
{
    char path[sizeof(network->parameters[0].name)];

    snprintf(path, sizeof(path), "%s%s%s", network->prefix, name, suffix);
    return mpl_network_add_buffer(network, path, shape);
}

uint64_t mpl_parameter_numel(const struct mpl_parameter *parameter)
{
    uint64_t numel = 1;

    for (int i = 0; i < parameter->shape.ndim; i++)
        numel = mpl_mul(numel, (uint64_t)parameter->shape.dim[i].n);
    return numel;
}

/* Rows of the first chunk: shards are cut along dimension 0 (torch.chunk). */
static int64_t shard_rows(const struct mpl_parameter *parameter)
{
    return (parameter->shape.dim[0].n + parameter->shards - 1) / parameter->shards;
}

uint64_t mpl_parameter_local_numel(const struct mpl_parameter *parameter)
{
    struct mpl_parameter local = *parameter;

    if (parameter->shards)
        local.shape.dim[0].n = shard_rows(parameter);
    return mpl_parameter_numel(&local);
}

/* A leaf of its own on the device. */
static struct mpl_tensor *new_leaf(struct mpl_tape *tape, const struct mpl_parameter *p,
                                   const char *op, const struct mpl_shape *shape)
{
    struct mpl_tensor *leaf;

    tape->category = p->is_buffer ? MPL_CATEGORY_BUFFERS : MPL_CATEGORY_PARAMETERS;
    leaf = mpl_hold(mpl_empty(tape, op, p->dtype, shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    if (!leaf->is_void)
        leaf->requires_grad = p->is_trainable;
    return leaf;
}

/* Shards get their memory from model.to_empty(), which comes to a tied weight twice: it makes a new
 * one, then frees the old one (torch/nn/modules/module.py, _apply). */
static void remake_tied(struct mpl_tape *tape, struct mpl_network *network)
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

void mpl_network_materialize_one(struct mpl_tape *tape, struct mpl_network *network, uint32_t i)
{
    struct mpl_parameter *p = &network->parameters[i];
    struct mpl_shape shape = p->shape;

    if (p->shards) {
        shape.dim[0].n = shard_rows(p);
        p->shard = new_leaf(tape, p, "empty_like.default", &shape);
    } else {
        p->tensor = new_leaf(tape, p, "empty.memory_format", &shape);
    }
}

void mpl_network_materialize(struct mpl_tape *tape, struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++)
        mpl_network_materialize_one(tape, network, i);
    remake_tied(tape, network);
    if (network->plan->training.from_config && !network->sharding)
        make_and_tie(tape, network);
}

struct mpl_tensor *mpl_network_call(struct mpl_tape *tape, struct mpl_network *network,
                                    const struct mpl_batch *batch, struct mpl_tensor **logits_out)
{
    const struct mpl_module *root = &network->modules[0];
    struct mpl_tensor *loss;

    if (root->hooks)
        root->hooks->pre_forward(tape, root->wrapper, NULL);
    loss = network->forward(tape, network, batch, logits_out);
    if (root->hooks) {
        struct mpl_tensor *outputs[2] = {loss, *logits_out};

        root->hooks->post_forward(tape, root->wrapper, outputs, 2);
    }
    return loss;
}
