/* SPDX-License-Identifier: MIT */
/*
 * The drafter's memory before the first step: whole parameters, and shards of them.
 *
 * source: speculators/train/trainer.py (setup_model), train/utils.py (apply_fully_sharded),
 * speculators/model.py, releases 0.3.0 to 0.6.0.2; torch/distributed/fsdp/_fully_shard (fully_shard
 * moves the group to the device), torch/distributed/_state_dict_utils.py (_broadcast_state_dict)
 */
#include "arch/eagle3.h"

static struct mpl_tensor *take(struct mpl_tape *tape, const struct mpl_network *network, uint32_t i)
{
    const struct mpl_parameter *p = &network->parameters[i];

    return mpl_hold(mpl_empty(tape, "empty.memory_format", p->dtype, &p->shape));
}

/* Whole parameters are on the device before they are sharded; the verifier's head is read in full,
 * [vocab, hidden] float32, and cut to the draft vocabulary. */
static void load_verifier(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor **head_out,
                          struct mpl_tensor **verifier_head_out)
{
    const struct mpl_network *network = e->network;
    struct mpl_tensor *whole = take(tape, network, e->embed);
    struct mpl_tensor *cut = take(tape, network, e->head);

    mpl_drop(tape, whole);
    *head_out = take(tape, network, e->head);
    *verifier_head_out = take(tape, network, e->verifier_head);
    mpl_drop(tape, cut);
}

static void give_memory(struct mpl_tape *tape, struct mpl_network *network, uint32_t first,
                        uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        mpl_network_materialize_one(tape, network, i);
}

/* Before 0.5.0: the root's parameters are on the device, the layer's are made as shards. */
static void shard_loaded(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_eagle3 *e = network->family;
    const struct mpl_module *layer = &network->modules[1];
    const uint32_t after = layer->first_parameter + layer->parameter_count;
    struct mpl_tensor *whole[6] = {NULL};

    give_memory(tape, network, e->selectors[0], 2);
    load_verifier(tape, e, &whole[0], &whole[1]);
    whole[2] = take(tape, network, e->fc);
    whole[3] = take(tape, network, e->norm);
    whole[4] = take(tape, network, e->embed);
    if (e->sizes.release->has_verifier_norm)
        whole[5] = take(tape, network, e->verifier_norm);
    give_memory(tape, network, e->inverse_frequency, 1);
    give_memory(tape, network, e->fc, 1);
    give_memory(tape, network, e->norm, 1);
    give_memory(tape, network, e->embed, network->parameter_count - e->embed);
    for (int i = 0; i < 6; i++)
        mpl_drop(tape, whole[i]);
    give_memory(tape, network, layer->first_parameter, after - layer->first_parameter);
}

static bool is_of(const struct mpl_module *layer, uint32_t i)
{
    return i >= layer->first_parameter && i < layer->first_parameter + layer->parameter_count;
}

static bool is_of_group(const struct mpl_network *network, const struct mpl_module *group,
                        uint32_t i)
{
    if (group)
        return is_of(group, i);
    for (uint32_t m = 1; m < network->module_count; m++)
        if (is_of(&network->modules[m], i))
            return false;
    return true;
}

/* The group's parameters come whole, then each is cut, and the whole ones go. group NULL: the
 * root's. */
static void shard_group(struct mpl_tape *tape, struct mpl_network *network,
                        const struct mpl_module *group)
{
    struct mpl_tensor *whole[MPL_EAGLE3_PARAMETERS] = {NULL};
    uint32_t members[MPL_EAGLE3_PARAMETERS], count = 0;

    for (uint32_t i = 0; i < network->parameter_count && count < MPL_EAGLE3_PARAMETERS; i++) {
        if (!is_of_group(network, group, i))
            continue;
        if (network->parameters[i].is_buffer) {
            mpl_network_materialize_one(tape, network, i);
        } else {
            members[count] = i;
            whole[count++] = take(tape, network, i);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        mpl_network_materialize_one(tape, network, members[i]);
    for (uint32_t i = 0; i < count; i++)
        mpl_drop(tape, whole[i]);
}

/* Rank 0 sends its state dict: each tensor lies on the device whole, one after the other. */
static void broadcast(struct mpl_tape *tape, const struct mpl_network *network)
{
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (!mpl_name_ends_with(network->parameters[i].name, "rotary_emb.inv_freq"))
            mpl_drop(tape, take(tape, network, i));
}

void mpl_eagle3_load_shards(struct mpl_tape *tape, struct mpl_network *network)
{
    for (uint32_t m = 1; m < network->module_count; m++)
        shard_group(tape, network, &network->modules[m]);
    shard_group(tape, network, NULL);
    broadcast(tape, network);
}

void mpl_eagle3_load(struct mpl_tape *tape, struct mpl_network *network)
{
    const struct mpl_eagle3 *e = network->family;

    if (!network->sharding) {
        mpl_network_materialize(tape, network);
        return;
    }
    if (e->sizes.release->freezes_head)
        mpl_eagle3_load_shards(tape, network);
    else
        shard_loaded(tape, network);
}
