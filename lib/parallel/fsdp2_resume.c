/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: a checkpoint of whole tensors, or of shards, is loaded before the first step.
 *
 * source: torch/distributed/checkpoint/state_dict.py (set_model_state_dict,
 * set_optimizer_state_dict, _init_optim_state), torch/distributed/_state_dict_utils.py
 * (_distribute_state_dict, _broadcast_state_dict), torch/distributed/tensor/placement_types.py
 * (Shard._shard_tensor), release 2.14
 */
#include "base/bytes.h"
#include "optim/optim.h"
#include "parallel/fsdp2_group.h"
#include "step/around.h"

enum { EXP_AVG, EXP_AVG_SQ, STEP = 3 }; /* as optim/adam.c has them */

struct loading {
    struct mpl_tape *tape;
    const struct mpl_fsdp2 *fsdp;
    enum mpl_resume how;
};

/* shape: [rows of the largest shard, the rest] */
static struct mpl_tensor *take_shard(const struct loading *l, const struct mpl_parameter *parameter,
                                     enum mpl_category category, const char *op)
{
    const int64_t rows = parameter->shape.dim[0].n;
    struct mpl_shape shape = parameter->shape;
    struct mpl_tensor *shard;

    shape.dim[0].n = (rows + l->fsdp->shards - 1) / l->fsdp->shards;
    l->tape->category = category;
    shard = mpl_hold(mpl_empty(l->tape, op, parameter->dtype, &shape));
    l->tape->category = MPL_CATEGORY_TEMPORARY;
    return shard;
}

/* distribute_tensor(): the whole is split for a scatter; of parts that are short, padded copies. */
static struct mpl_tensor *scatter(const struct loading *l, const struct mpl_parameter *parameter,
                                  enum mpl_category category)
{
    const int64_t rows = parameter->shape.dim[0].n, shards = l->fsdp->shards;
    const int64_t each = (rows + shards - 1) / shards;
    const int64_t padded = rows ? shards - rows / each : 0; /* the others have all their rows */
    struct mpl_tensor **parts =
        mpl_arena_zalloc(&l->tape->arena, ((size_t)padded + 1) * sizeof(*parts));
    struct mpl_tensor *shard;

    for (int64_t i = 0; parts && i < padded; i++)
        parts[i] = take_shard(l, parameter, MPL_CATEGORY_COMMUNICATION, "constant_pad_nd.default");
    shard = take_shard(l, parameter, category, "empty_like.default");
    for (int64_t i = 0; parts && i < padded; i++)
        mpl_drop(l->tape, parts[i]);
    return shard;
}

/* One whole tensor comes to the card, unless it lies there, and becomes a shard of its own (held),
 * or is copied into the one that is there (NULL). */
static struct mpl_tensor *load_one(const struct loading *l, const struct mpl_parameter *parameter,
                                   enum mpl_category category)
{
    struct mpl_tensor *whole = NULL, *shard = NULL;

    if (l->how != MPL_RESUME_CUDA) {
        l->tape->category = MPL_CATEGORY_COMMUNICATION;
        whole =
            mpl_hold(mpl_empty(l->tape, "_to_copy.default", parameter->dtype, &parameter->shape));
        l->tape->category = MPL_CATEGORY_TEMPORARY;
    }
    if (l->how != MPL_RESUME_BROADCAST)
        shard = scatter(l, parameter, category);
    mpl_drop(l->tape, whole);
    return shard;
}

/* The state dict's entries become the new shards, which live as long as the checkpoint's names. A
 * tied weight has two of them. */
static struct mpl_tensor **load_weights(const struct loading *l, const struct mpl_network *network)
{
    struct mpl_tensor **shards =
        mpl_arena_zalloc(&l->tape->arena, (2 * network->parameter_count + 1) * sizeof(*shards));

    if (!shards)
        mpl_tape_fail(l->tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    for (uint32_t i = 0; shards && i < 2 * network->parameter_count; i++) {
        const bool is_again = i >= network->parameter_count;
        const struct mpl_parameter *p =
            &network->parameters[is_again ? i - network->parameter_count : i];

        if (!p->is_buffer && p->shards && (!is_again || p->is_tied))
            shards[i] = load_one(l, p, MPL_CATEGORY_PARAMETERS);
    }
    return shards;
}

/* _init_optim_state: a step with gradients of zero makes the states that are loaded into. */
static void make_states(struct mpl_tape *tape, const struct mpl_fsdp2 *fsdp,
                        struct mpl_optim *optim)
{
    if (fsdp->offloads)
        return;
    tape->category = MPL_CATEGORY_GRADIENTS;
    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->parameters[i]);

        leaf->grad = mpl_hold(
            mpl_empty_like(tape, "zeros_like.default", (enum mpl_dtype)leaf->dtype, leaf, NULL));
    }
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_optim_step(tape, optim);
    mpl_optim_zero_grad(tape, optim, true);
}

/* optimizer.load_state_dict() takes shards as they are, and lets go of the old states at the end.
 */
static void load_states(const struct loading *l, struct mpl_optim *optim)
{
    struct mpl_tensor **loaded =
        mpl_arena_zalloc(&l->tape->arena, (2 * (size_t)optim->count + 1) * sizeof(*loaded));

    if (!loaded) {
        mpl_tape_fail(l->tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (uint32_t i = 0; i < 2 * optim->count; i++)
        loaded[i] = load_one(l, optim->parameters[i / 2], MPL_CATEGORY_OPTIMIZER_STATE);
    for (uint32_t i = 0; i < 2 * optim->count; i++)
        if (loaded[i] && l->fsdp->offloads) /* they go to the host, where the parameters are */
            mpl_drop(l->tape, loaded[i]);
        else if (loaded[i])
            mpl_rebind(l->tape, &optim->states[i / 2].tensors[i % 2 ? EXP_AVG_SQ : EXP_AVG],
                       mpl_return(loaded[i]));
}

void mpl_fsdp2_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    const struct loading l = {tape, network->sharding, network->plan->checkpoint.resume};
    struct mpl_whole_checkpoint whole = {0};
    struct mpl_tensor **shards;

    if (l.how == MPL_RESUME_SHARDED) { /* read on the host, copied into what is there */
        make_states(tape, l.fsdp, optim);
        return;
    }
    if (l.how == MPL_RESUME_CUDA && !mpl_whole_load(tape, network, optim, &whole))
        return;
    shards = load_weights(&l, network);
    mpl_whole_drop(tape, &whole, true);
    make_states(tape, l.fsdp, optim);
    load_states(&l, optim);
    for (uint32_t i = 0; shards && i < 2 * network->parameter_count; i++)
        mpl_drop(tape, shards[i]);
    mpl_whole_drop(tape, &whole, false);
}
