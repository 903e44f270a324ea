/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: state dicts of whole tensors, one parameter or state after the other.
 *
 * source: torch/distributed/checkpoint/state_dict.py (get_model_state_dict,
 * get_optimizer_state_dict), torch/distributed/_state_dict_utils.py (_gather_state_dict,
 * _iterate_state_dict), torch/distributed/tensor/placement_types.py (Shard._to_replicate_tensor),
 * torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (_register_state_dict_hooks), release
 * 2.14
 */
#include "base/bytes.h"
#include "optim/optim.h"
#include "parallel/fsdp2_group.h"

/* What stays on the card until the state dicts are dropped. */
struct gathering {
    struct mpl_tape *tape;
    const struct mpl_fsdp2 *fsdp;
    struct mpl_tensor **kept;
    uint32_t count;
    bool offloads;
};

/* CPUOffloadPolicy: a shard comes to the card to be gathered: shape [this rank's rows, the rest].
 */
static struct mpl_tensor *bring_shard(const struct gathering *g,
                                      const struct mpl_parameter *parameter, enum mpl_dtype dtype)
{
    const int64_t rows = parameter->shape.dim[0].n, shards = g->fsdp->shards;
    const int64_t each = (rows + shards - 1) / shards, before = each * g->fsdp->shard_index;
    const int64_t own = rows > before ? rows - before : 0;
    struct mpl_shape shape = parameter->shape;

    if (!g->fsdp->offloads)
        return NULL;
    shape.dim[0].n = own < each ? own : each;
    return mpl_hold(mpl_empty(g->tape, "_to_copy.default", dtype, &shape));
}

/* redistribute() to Replicate(): the shard, padded if it is a short one, is gathered.
 * shape: [ranks x rows of the largest shard, the rest], in the format of the shard */
static void gather_one(struct gathering *g, const struct mpl_parameter *parameter,
                       enum mpl_dtype dtype)
{
    const struct mpl_fsdp2 *fsdp = g->fsdp;
    const int64_t rows = parameter->shape.dim[0].n;
    struct mpl_shape shape = parameter->shape;
    struct mpl_tensor *shard = bring_shard(g, parameter, dtype), *padded = NULL, *whole;

    shape.dim[0].n = (rows + fsdp->shards - 1) / fsdp->shards;
    if (mpl_parameter_is_short(parameter))
        padded = mpl_hold(mpl_empty(g->tape, "constant_pad_nd.default", dtype, &shape));
    shape.dim[0].n = (int64_t)mpl_mul((uint64_t)shape.dim[0].n, (uint64_t)fsdp->shards);
    g->tape->category = MPL_CATEGORY_COMMUNICATION;
    whole = mpl_hold(mpl_empty(g->tape, "all_gather_into_tensor.default", dtype, &shape));
    g->tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_drop(g->tape, padded);
    mpl_drop(g->tape, shard);
    if (g->offloads)
        mpl_drop(g->tape, whole);
    else
        g->kept[g->count++] = whole;
}

/* A tied weight has two names in the state dict, and each is gathered. */
static void gather_weights(struct gathering *g, const struct mpl_network *network)
{
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < network->parameter_count; i++) {
            const struct mpl_parameter *p = &network->parameters[i];

            if (!p->is_buffer && p->shards && (!again || p->is_tied))
                gather_one(g, p, p->dtype);
        }
}

/* A number of steps is no sharded tensor. */
static bool is_like_shard(const struct mpl_tensor *state, const struct mpl_tensor *leaf)
{
    return state && state->shape.ndim && mpl_numel(state) == mpl_numel(leaf);
}

/* States on the host are no tensors of the tape. */
static int states_on_host(const struct mpl_optimizer_spec *o)
{
    if (o->name == MPL_SGD)
        return o->momentum > 0;
    return o->amsgrad ? 3 : 2;
}

static void gather_from_host(struct gathering *g, const struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++)
        for (int k = 0; k < states_on_host(optim->spec) && optim->parameters[i]->shards; k++)
            gather_one(g, optim->parameters[i], optim->parameters[i]->dtype);
}

static void gather_states(struct gathering *g, const struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++)
        for (int k = 0; k < MPL_MAX_STATES; k++) {
            const struct mpl_tensor *state = optim->states[i].tensors[k];

            if (optim->parameters[i]->shards &&
                is_like_shard(state, mpl_parameter_leaf(optim->parameters[i])))
                gather_one(g, optim->parameters[i], (enum mpl_dtype)state->dtype);
        }
}

void mpl_fsdp2_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const struct mpl_checkpoint_spec *c = &network->plan->checkpoint;
    struct mpl_fsdp2 *fsdp = network->sharding;
    const size_t room = 2 * network->parameter_count + (size_t)optim->count * MPL_MAX_STATES + 1;
    struct gathering g = {.tape = tape, .fsdp = fsdp, .offloads = c->offloads};

    for (uint32_t i = 0; i < fsdp->count; i++)
        mpl_fsdp2_reshard(tape, &fsdp->groups[i]); /* each module's hook before state_dict() */
    if (c->save != MPL_SAVE_FULL)
        return; /* shards as they are, each copied to the host */
    g.kept = mpl_arena_zalloc(&tape->arena, room * sizeof(*g.kept));
    if (!g.kept) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    gather_weights(&g, network);
    if (c->has_states && fsdp->offloads)
        gather_from_host(&g, optim);
    else if (c->has_states)
        gather_states(&g, optim);
    for (uint32_t i = 0; i < g.count; i++)
        mpl_drop(tape, g.kept[i]);
}
