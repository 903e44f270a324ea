/* SPDX-License-Identifier: MIT */
/*
 * Activation checkpointing with re-entrance: a call runs without a graph and keeps its input; its
 * node runs it again to the end, with a graph of its own, and that graph backward at once.
 *
 * source: torch/utils/checkpoint.py (CheckpointFunction), release 2.13.0.
 */
#include "tape/tape.h"

/* The node's ctx: it lives as long as the node. A tensor that was passed is saved, and goes with
 * what the node saved; a tuple of tensors, and what the called closure holds, stay. */
struct call {
    mpl_forward *forward;
    void *context;
    enum mpl_dtype autocast;
    bool is_saved; /* kwargs */
    struct mpl_tensor *kwargs[MPL_MAX_KWARGS];
};

/* saved: the input. The node owns what the call's closure holds. */
static void reentrant_backward(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **out, struct mpl_tensor **in)
{
    struct call *call = node->context;
    struct mpl_tensor *input = mpl_unpack(tape, &node->saved[0]), *leaf, *result;

    if (input->is_void)
        return;
    leaf = mpl_hold(mpl_alias(tape, input));
    leaf->requires_grad = input->requires_grad;
    tape->is_grad_enabled = true;
    tape->autocast = call->autocast;
    result = mpl_hold(call->forward(tape, call->context, leaf));
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    tape->is_grad_enabled = false;
    mpl_backward_inner(tape, result, out[0]);
    mpl_drop(tape, result);
    if (leaf->grad)
        in[0] = mpl_hold(leaf->grad);
    mpl_drop(tape, leaf);
    for (int i = MPL_PAIR_KWARGS; i < MPL_MAX_KWARGS && call->is_saved; i++) {
        mpl_drop(tape, call->kwargs[i]);
        call->kwargs[i] = NULL;
    }
}

static struct mpl_tensor *run_without_graph(struct mpl_tape *tape, const struct call *call,
                                            struct mpl_tensor *input)
{
    struct mpl_tensor *result;

    tape->is_grad_enabled = false;
    result = call->forward(tape, call->context, input);
    tape->is_grad_enabled = true;
    return result;
}

struct mpl_tensor *mpl_checkpoint_reentrant(struct mpl_tape *tape, mpl_forward *forward,
                                            void *context, struct mpl_tensor *input,
                                            struct mpl_tensor **const kwargs[MPL_MAX_KWARGS])
{
    struct mpl_tensor *argument = mpl_hold(input), *result;
    struct mpl_node *node =
        mpl_node_new(tape, "CheckpointFunctionBackward", reentrant_backward, &argument, 1, 1, 1);
    struct call *call = mpl_arena_zalloc(&tape->arena, sizeof(*call));

    if (!call) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return tape->void_tensor;
    }
    *call = (struct call){.forward = forward,
                          .context = context,
                          .autocast = tape->autocast,
                          .is_saved = tape->checkpoint.passes_kwargs};
    if (node) {
        node->context = call;
        node->owned = call->kwargs;
        for (int i = 0; i < MPL_MAX_KWARGS; i++)
            if (kwargs[i] && *kwargs[i])
                call->kwargs[i] = mpl_hold(*kwargs[i]);
    }
    mpl_save(tape, node, argument);
    result = run_without_graph(tape, call, argument);
    mpl_set_history(tape, result, node, 0);
    mpl_drop(tape, argument);
    return result;
}

/* ---- several arguments ------------------------------------------------------------------------
 */

struct many {
    mpl_forward *forward;
    void *context;
    enum mpl_dtype autocast;
    struct mpl_tensor **names[MPL_MAX_KWARGS];
    int count;
};

/* saved: the arguments. In backward the names mean leaves, which get the gradients. */
static void many_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct many *many = node->context;
    struct mpl_tensor *leaves[MPL_MAX_KWARGS], *result;

    for (int i = 0; i < many->count; i++) {
        const struct mpl_tensor *argument = mpl_unpack(tape, &node->saved[i]);

        leaves[i] = mpl_hold(mpl_alias(tape, argument));
        if (!leaves[i]->is_void)
            leaves[i]->requires_grad = argument->requires_grad;
        *many->names[i] = leaves[i];
    }
    tape->is_grad_enabled = true;
    tape->autocast = many->autocast;
    result = mpl_hold(many->forward(tape, many->context, leaves[0]));
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    tape->is_grad_enabled = false;
    if (!result->is_void)
        mpl_backward_inner(tape, result, out[0]);
    mpl_drop(tape, result);
    for (int i = 0; i < many->count; i++) {
        if (leaves[i]->grad && mpl_needs(node, i))
            in[i] = mpl_hold(leaves[i]->grad);
        mpl_drop(tape, leaves[i]);
    }
}

static struct mpl_tensor *many_reentrant(struct mpl_tape *tape, const struct many *call)
{
    struct mpl_tensor *arguments[MPL_MAX_KWARGS], *result;
    struct many *many = mpl_arena_zalloc(&tape->arena, sizeof(*many));
    struct mpl_node *node;

    if (!many) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return tape->void_tensor;
    }
    *many = *call;
    for (int i = 0; i < many->count; i++)
        arguments[i] = *many->names[i];
    node = mpl_node_new(tape, "CheckpointFunctionBackward", many_backward, arguments, many->count,
                        1, many->count);
    if (node)
        node->context = many;
    for (int i = 0; i < many->count; i++)
        mpl_save(tape, node, arguments[i]);
    tape->is_grad_enabled = false;
    result = many->forward(tape, many->context, arguments[0]);
    tape->is_grad_enabled = true;
    mpl_set_history(tape, result, node, 0);
    return result;
}

struct mpl_tensor *mpl_checkpoint_many(struct mpl_tape *tape, mpl_forward *forward, void *context,
                                       struct mpl_tensor **const names[MPL_MAX_KWARGS])
{
    struct many many = {.forward = forward, .context = context, .autocast = tape->autocast};
    struct mpl_tensor **others[MPL_MAX_KWARGS] = {NULL};

    if (tape->is_stopped)
        return tape->void_tensor;
    while (many.count < MPL_MAX_KWARGS && names[many.count] && *names[many.count]) {
        many.names[many.count] = names[many.count];
        if (many.count)
            others[many.count - 1] = names[many.count];
        many.count++;
    }
    return tape->checkpoint.is_reentrant
               ? many_reentrant(tape, &many)
               : mpl_checkpoint(tape, forward, context, *names[0], others);
}
