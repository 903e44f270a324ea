/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: what a group's hooks do around a module's forward and backward.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fsdp_state.py (_pre_forward, _post_forward,
 * _pre_backward, _root_post_backward_final_callback), _fsdp_param_group.py (pre_forward,
 * post_forward, pre_backward, _backward_prefetch)
 */
#include "parallel/fsdp2.h"

#include <string.h>

#include "base/fail.h"
#include "op/op.h"
#include "parallel/fsdp2_group.h"

/* ---- forward ----------------------------------------------------------------------------------
 */

static struct mpl_tensor *cast_input(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input)
{
    const struct mpl_fsdp2_group *group = wrapper;
    const enum mpl_dtype dtype = group->policy.param_dtype;
    struct mpl_tensor *cast;

    if (tape->is_stopped || !group->policy.cast_forward_inputs || dtype == MPL_DTYPE_NONE ||
        !mpl_dtype_is_floating((enum mpl_dtype)input->dtype) || input->dtype == dtype)
        return input;
    cast = mpl_hold(mpl_op_to(tape, input, dtype));
    mpl_drop(tape, input);
    return cast;
}

static void post_backward_rule(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **grads_out, struct mpl_tensor **grads_in)
{
    mpl_fsdp2_post_backward(tape, node->context);
    if (grads_out[0])
        grads_in[0] = mpl_hold(grads_out[0]);
}

/* RegisterPostBackwardFunction: a node on the input, whose backward comes when everything behind
 * it in this module is done. */
static struct mpl_tensor *watch_input(struct mpl_tape *tape, struct mpl_fsdp2_group *group,
                                      struct mpl_tensor *input)
{
    struct mpl_tensor *watched;
    struct mpl_node *node = mpl_node_new(tape, "RegisterPostBackwardFunctionBackward",
                                         post_backward_rule, &input, 1, 1, 0);

    if (!node)
        return input;
    node->context = group;
    watched = mpl_hold(mpl_alias(tape, input));
    mpl_set_history(tape, watched, node, 0);
    mpl_drop(tape, input);
    return watched;
}

/* On a tape that has stopped nothing is gathered, and forwards still read their weights. */
static void stand_in(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (!group->parameters[i].parameter->tensor)
            group->parameters[i].parameter->tensor = mpl_hold(tape->void_tensor);
}

static struct mpl_tensor *pre_forward(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input)
{
    struct mpl_fsdp2_group *group = wrapper;
    bool is_entering;

    if (tape->is_stopped) {
        stand_in(tape, group);
        return input;
    }
    if (group->state_activity == MPL_FSDP2_PRE_BACKWARD) { /* a recomputation */
        mpl_fsdp2_unshard(tape, group);
        mpl_fsdp2_wait(tape, group);
        return input;
    }
    group->state_activity = MPL_FSDP2_FORWARD;
    is_entering = group->activity != MPL_FSDP2_FORWARD;
    group->activity = MPL_FSDP2_FORWARD;
    mpl_fsdp2_unshard(tape, group);
    mpl_fsdp2_wait(tape, group);
    return input && is_entering ? watch_input(tape, group, input) : input;
}

/* _record_post_forward */
static void record_use(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (fsdp->use_count == fsdp->use_cap) {
        const size_t cap = fsdp->use_cap ? 2 * fsdp->use_cap : 64;
        struct mpl_fsdp2_use *uses = mpl_arena_alloc(&tape->arena, cap * sizeof(*uses));

        if (!uses) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        if (fsdp->use_count)
            memcpy(uses, fsdp->uses, fsdp->use_count * sizeof(*uses));
        fsdp->uses = uses;
        fsdp->use_cap = cap;
    }
    fsdp->uses[fsdp->use_count] = (struct mpl_fsdp2_use){group, group->last_use};
    group->last_use = (int64_t)fsdp->use_count++;
}

static void pre_backward(struct mpl_tape *tape, void *context);

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    struct mpl_fsdp2_group *group = wrapper;
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (tape->is_stopped || group->state_activity == MPL_FSDP2_PRE_BACKWARD)
        return;
    if (!tape->is_in_backward) {
        if (group->is_resharded_after_forward)
            mpl_fsdp2_reshard_after_forward(tape, group);
        if (group->count) /* a root that owns nothing is no group */
            record_use(tape, group);
    }
    group->activity = group->state_activity = MPL_FSDP2_IDLE;
    for (int i = 0; i < count && tape->is_grad_enabled; i++)
        if (outputs[i])
            mpl_add_pre_hook(tape, outputs[i], pre_backward, group);
    /* The root of this forward, which a layer that runs again with re-entrance is itself: no group
     * after it will free the last buffer. */
    if (group == fsdp->groups || tape->is_in_backward) {
        mpl_drop(tape, fsdp->last_gather);
        fsdp->last_gather = NULL;
    }
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* The root's callback: groups whose inputs had no gradient come now, last buffers go. */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp2 *fsdp = context;

    for (uint32_t i = 0; i < fsdp->count; i++) {
        struct mpl_fsdp2_group *group = &fsdp->groups[i];

        if (group->activity != MPL_FSDP2_POST_BACKWARD)
            mpl_fsdp2_post_backward(tape, group);
        group->activity = group->state_activity = MPL_FSDP2_IDLE;
        mpl_drop(tape, group->all_reduced);
        group->all_reduced = NULL;
        mpl_drop(tape, group->gather); /* gathered for a backward that never came */
        group->gather = NULL;
        group->is_pending = false;
        group->last_use = -1;
    }
    fsdp->use_count = 0;
    mpl_drop(tape, fsdp->reduce_input);
    fsdp->reduce_input = NULL;
    fsdp->is_final_queued = false;
}

/* _backward_prefetch: the group that ran before this use of this one is gathered next. */
static void prefetch(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;
    const int64_t use = group->last_use;

    if (use < 0)
        return;
    group->last_use = fsdp->uses[use].previous_use;
    if (use > 0)
        mpl_fsdp2_unshard(tape, fsdp->uses[use - 1].group);
}

static void pre_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_fsdp2_group *group = context;
    struct mpl_fsdp2 *fsdp = group->fsdp;

    if (tape->is_stopped)
        return;
    group->state_activity = MPL_FSDP2_PRE_BACKWARD;
    if (!fsdp->is_final_queued) {
        fsdp->is_final_queued = true;
        mpl_queue_callback(tape, finish_backward, fsdp);
    }
    if (group->activity == MPL_FSDP2_PRE_BACKWARD)
        return;
    group->activity = MPL_FSDP2_PRE_BACKWARD;
    mpl_fsdp2_unshard(tape, group);
    mpl_fsdp2_wait(tape, group);
    prefetch(tape, group);
}

const struct mpl_hooks mpl_fsdp2_hooks = {
    .cast_input = cast_input, .pre_forward = pre_forward, .post_forward = post_forward};

static void no_post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                            int count)
{
    (void)tape;
    (void)wrapper;
    (void)outputs;
    (void)count;
}

const struct mpl_hooks mpl_fsdp2_first_hooks = {
    .cast_input = cast_input, .pre_forward = pre_forward, .post_forward = no_post_forward};
const struct mpl_hooks mpl_fsdp2_last_hooks = {
    .cast_input = mpl_hook_pass, .pre_forward = mpl_hook_pass, .post_forward = post_forward};
