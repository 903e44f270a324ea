/* SPDX-License-Identifier: MIT */
/*
 * DDP: its constructor, what it does before and after the model's forward, and when a gradient
 * came.
 *
 * source: torch/nn/parallel/distributed.py (__init__, _pre_forward, _post_forward, _DDPSink),
 * torch/csrc/distributed/c10d/reducer.cpp (autograd_hook, delay_all_reduce, finalize_backward),
 * release 2.13
 */
#include "parallel/ddp.h"

#include "base/fail.h"

/* ---- gradients --------------------------------------------------------------------------------
 */

static bool may_rebuild(const struct mpl_ddp *ddp)
{
    return (ddp->is_static || !ddp->finds_unused) && !ddp->has_rebuilt;
}

static bool is_delayed(const struct mpl_ddp *ddp)
{
    return ddp->is_static && ddp->iterations == 1;
}

/* autograd_hook */
static void gradient_came(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_ddp_member *member = leaf->grad_hook_context;
    struct mpl_ddp *ddp = member->ddp;

    if (!ddp->is_reducing || is_delayed(ddp) || tape->is_stopped)
        return;
    if (may_rebuild(ddp) && !member->has_come) {
        member->has_come = ddp->has_changed = true;
        ddp->arrivals[ddp->arrival_count++] = (uint32_t)(member - ddp->members);
    }
    mpl_ddp_move_gradient(tape, member);
    ddp->buckets[member->bucket].pending--;
    for (; ddp->next_bucket < ddp->bucket_count && !ddp->buckets[ddp->next_bucket].pending;
         ddp->next_bucket++)
        mpl_ddp_reduce(tape, ddp, ddp->next_bucket);
}

/* finalize_backward; in the first step of a static graph all gradients are reduced only here. */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_ddp *ddp = context;

    for (uint32_t i = 0; i < ddp->count && is_delayed(ddp); i++)
        if (ddp->members[i].parameter->tensor->grad)
            mpl_ddp_move_gradient(tape, &ddp->members[i]);
    for (uint32_t b = 0; b < ddp->bucket_count && is_delayed(ddp); b++)
        mpl_ddp_reduce(tape, ddp, b);
    ddp->has_changed |= is_delayed(ddp);
    ddp->has_delayed |= is_delayed(ddp);
    ddp->is_reducing = false;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *pre_forward(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input)
{
    struct mpl_ddp *ddp = wrapper;

    if (tape->is_stopped)
        return input;
    ddp->iterations += ddp->is_syncing;
    if (may_rebuild(ddp) && ddp->arrival_count == ddp->count)
        mpl_ddp_rebuild_buckets(tape, ddp);
    if (ddp->broadcasts)
        mpl_ddp_broadcast_network(tape, ddp->network, true);
    return input;
}

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    struct mpl_ddp *ddp = wrapper;

    (void)outputs;
    (void)count;
    ddp->broadcasts = ddp->is_syncing && ddp->network->plan->parallelism.broadcast_buffers;
    if (!ddp->is_syncing || tape->is_stopped)
        return;
    ddp->is_reducing = true;
    ddp->next_bucket = 0;
    for (uint32_t b = 0; b < ddp->bucket_count; b++)
        ddp->buckets[b].pending = ddp->buckets[b].count;
    mpl_queue_callback(tape, finish_backward, ddp);
}

static void sink_backward(struct mpl_tape *tape, struct mpl_node *node,
                          struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    (void)tape;
    for (int i = 0; i < node->edge_count; i++)
        if (grads_out[i] && mpl_needs(node, i))
            grads_in[i] = mpl_hold(grads_out[i]);
}

/* _DDPSink: copies of all outputs, so that those which the loss does not use have no gradient. */
static void replace_outputs(struct mpl_tape *tape, void *wrapper, struct mpl_tensor **outputs,
                            int count)
{
    const struct mpl_ddp *ddp = wrapper;
    struct mpl_tensor *copies[2] = {NULL, NULL};
    struct mpl_node *node;

    if (tape->is_stopped || (ddp->is_static ? ddp->has_delayed : !ddp->finds_unused) || count > 2)
        return;
    for (int i = 0; i < count; i++)
        if (outputs[i])
            copies[i] = mpl_hold(mpl_empty_like(
                tape, "clone.default", (enum mpl_dtype)outputs[i]->dtype, outputs[i], NULL));
    node = mpl_node_new(tape, "_DDPSinkBackward", sink_backward, outputs, count, count, 0);
    for (int i = 0; i < count; i++) {
        if (!copies[i])
            continue;
        mpl_set_history(tape, copies[i], node, i);
        mpl_drop(tape, outputs[i]);
        outputs[i] = copies[i];
    }
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static const struct mpl_hooks ddp_hooks = {.cast_input = mpl_hook_pass,
                                           .pre_forward = pre_forward,
                                           .post_forward = post_forward,
                                           .replace_outputs = replace_outputs};

/* The constructor: ranks are compared, weights and buffers sent, the reducer made. */
static void construct(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_ddp *ddp = network->wrapped;

    mpl_ddp_verify_parameters(tape, ddp);
    mpl_ddp_broadcast_network(tape, network, false);
    mpl_ddp_make_buckets(tape, ddp);
    if (ddp->finds_unused || ddp->is_static) {
        const struct mpl_shape shape = mpl_shape1(mpl_dim(ddp->count));

        tape->category = MPL_CATEGORY_COMMUNICATION;
        ddp->used_map = mpl_hold(mpl_empty(tape, "empty.memory_format", MPL_INT32, &shape));
        tape->category = MPL_CATEGORY_TEMPORARY;
    }
    for (uint32_t i = 0; i < ddp->count && !tape->is_stopped; i++) {
        struct mpl_tensor *leaf = ddp->members[i].parameter->tensor;

        leaf->grad_hook = gradient_came;
        leaf->grad_hook_context = &ddp->members[i];
    }
}

static void set_sync(struct mpl_network *network, bool is_wanted)
{
    struct mpl_ddp *ddp = network->wrapped;

    ddp->is_syncing = is_wanted;
}

static bool has_settled(struct mpl_network *network)
{
    struct mpl_ddp *ddp = network->wrapped;
    const bool has_changed = ddp->has_changed;

    ddp->has_changed = false;
    return !has_changed;
}

static const struct mpl_wrapper ddp_wrapper = {
    .construct = construct, .set_sync = set_sync, .has_settled = has_settled};

static bool make_room(struct mpl_ddp *ddp, struct mpl_arena *arena)
{
    const size_t room = ddp->network->parameter_count + 1;

    ddp->members = mpl_arena_zalloc(arena, room * sizeof(*ddp->members));
    ddp->buckets = mpl_arena_zalloc(arena, room * sizeof(*ddp->buckets));
    ddp->spare_buckets = mpl_arena_zalloc(arena, room * sizeof(*ddp->spare_buckets));
    ddp->arrivals = mpl_arena_zalloc(arena, room * sizeof(*ddp->arrivals));
    ddp->stale = mpl_arena_zalloc(arena, room * sizeof(*ddp->stale));
    ddp->sent = mpl_arena_zalloc(arena, room * sizeof(*ddp->sent));
    ddp->held = mpl_arena_zalloc(arena, room * sizeof(*ddp->held));
    return ddp->stale && ddp->sent && ddp->held && ddp->members && ddp->buckets &&
           ddp->spare_buckets && ddp->arrivals;
}

enum memplan_status mpl_ddp_wrap(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;
    struct mpl_ddp *ddp = mpl_arena_zalloc(network->arena, sizeof(*ddp));

    if (ddp)
        ddp->network = network;
    if (!ddp || !make_room(ddp, network->arena))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while wrapping the model");
    ddp->is_view = p->gradient_as_bucket_view;
    ddp->is_static = p->static_graph;
    ddp->finds_unused = p->find_unused_parameters;
    ddp->broadcasts = p->broadcast_buffers;
    ddp->is_syncing = true;
    for (uint32_t i = 0; i < network->parameter_count; i++)
        if (network->parameters[i].is_trainable)
            ddp->members[ddp->count++] =
                (struct mpl_ddp_member){.ddp = ddp, .parameter = &network->parameters[i]};
    if (!ddp->count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/strategy",
                        "parallelism.strategy: found ddp over a model without trained parameters, "
                        "which DDP refuses");
    network->modules->hooks = &ddp_hooks;
    network->modules->wrapper = ddp;
    network->wrapper = &ddp_wrapper;
    network->wrapped = ddp;
    return MEMPLAN_OK;
}
