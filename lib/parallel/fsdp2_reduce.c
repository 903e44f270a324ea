/* SPDX-License-Identifier: MIT */
/*
 * FSDP2: what happens to gradients after a group's backward.
 *
 * source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (post_backward),
 * _fsdp_collectives.py (foreach_reduce), _fsdp_param.py (accumulated gradients)
 */
#include "parallel/fsdp2_group.h"

/* Without synchronisation a gradient waits, unsharded, in the reduce dtype; the cast comes after
 * the parameters are gone (to_accumulated_grad_if_needed). */
static void keep_unsharded(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *leaf = p->parameter->tensor;

        if (!leaf || !leaf->grad || group->reduce_dtype == MPL_DTYPE_NONE ||
            leaf->grad->dtype == group->reduce_dtype)
            continue;
        tape->category = MPL_CATEGORY_GRADIENTS;
        p->accumulated = mpl_hold(
            mpl_empty_like(tape, "_to_copy.default", group->reduce_dtype, leaf->grad, NULL));
        tape->category = MPL_CATEGORY_TEMPORARY;
        mpl_drop(tape, leaf->grad);
        leaf->grad = NULL;
    }
}

/* Moves gradients from the unsharded leaves to the list; how many there are. */
static uint32_t collect(struct mpl_fsdp2_group *group)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *leaf = p->parameter->tensor;

        if (!leaf)
            continue;
        if (p->accumulated) {
            p->gradient = p->accumulated;
            p->accumulated = NULL;
        } else {
            p->gradient = leaf->grad;
            leaf->grad = NULL;
        }
        found += p->gradient != NULL;
    }
    return found;
}

/* Adds what arrived since to the gradient that waits, in place. */
static void accumulate(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *leaf = p->parameter->tensor;

        if (!p->accumulated || !leaf || !leaf->grad)
            continue;
        mpl_drop(tape, leaf->grad);
        leaf->grad = NULL;
    }
}

/* Elements of this rank's part of the reduce-scatter: padded shards, one after another. */
static int64_t reduced_numel(const struct mpl_fsdp2_group *group)
{
    uint64_t numel = 0;

    for (uint32_t i = 0; i < group->count; i++)
        if (group->parameters[i].gradient)
            numel = mpl_add(numel, (uint64_t)group->parameters[i].shard_numel);
    return numel > INT64_MAX ? INT64_MAX : (int64_t)numel;
}

/* The first parameter with a gradient, which there is: all of them have the same formats. */
static const struct mpl_fsdp2_parameter *first_reduced(const struct mpl_fsdp2_group *group)
{
    const struct mpl_fsdp2_parameter *p = group->parameters;

    while (!p->gradient)
        p++;
    return p;
}

/* Lets go of the gradients once they are copied; the last one is still a loop variable, which is
 * returned, when there was a loop (more than one shard). */
static struct mpl_tensor *drop_gradients(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_tensor *last = NULL;

    for (uint32_t i = 0; i < group->count && group->fsdp->shards > 1; i++)
        if (group->parameters[i].gradient)
            last = group->parameters[i].gradient;
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];

        if (p->gradient != last)
            mpl_drop(tape, p->gradient);
    }
    return last;
}

/* Views of the flat output become the shards' gradients, or are added to them in place. */
static void hand_out(struct mpl_tape *tape, struct mpl_fsdp2_group *group,
                     const struct mpl_tensor *output)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct mpl_fsdp2_parameter *p = &group->parameters[i];
        struct mpl_tensor *shard = p->parameter->shard;

        if (!p->gradient)
            continue;
        p->gradient = NULL;
        if (tape->is_stopped || output->is_void || shard->grad || group->fsdp->offloads)
            continue;
        shard->grad = mpl_hold(mpl_alias_shaped(tape, output, &shard->shape));
        if (shard->grad->is_void)
            shard->grad = NULL;
        else if (output->storage->bytes)
            tape->timeline->requests.data[output->storage->request].category =
                MPL_CATEGORY_GRADIENTS;
    }
}

/* foreach_reduce: input [shards * numel] on the current stream; output [numel] on its own. */
static void reduce(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;
    const enum mpl_dtype dtype = group->reduce_dtype != MPL_DTYPE_NONE
                                     ? group->reduce_dtype
                                     : (enum mpl_dtype)first_reduced(group)->gradient->dtype;
    const enum mpl_dtype shard_dtype = first_reduced(group)->parameter->dtype;
    const enum mpl_stream last_stream =
        fsdp->is_replicated ? MPL_STREAM_ALL_REDUCE : MPL_STREAM_REDUCE_SCATTER;
    const int64_t numel = reduced_numel(group);
    const uint64_t whole = mpl_mul((uint64_t)numel, (uint64_t)fsdp->shards);
    struct mpl_tensor *output, *last;

    mpl_drop(tape, group->all_reduced);
    group->all_reduced = NULL;
    fsdp->reduce_input =
        mpl_fsdp2_take(tape, tape->stream, MPL_CATEGORY_COMMUNICATION, "empty.memory_format", dtype,
                       whole > INT64_MAX ? INT64_MAX : (int64_t)whole);
    mpl_fsdp2_book_copy_in(tape, group, dtype);
    last = drop_gradients(tape, group);
    output = mpl_fsdp2_take(tape, MPL_STREAM_REDUCE_SCATTER, MPL_CATEGORY_COMMUNICATION,
                            "empty.memory_format", dtype, numel);
    if (fsdp->is_replicated) /* the all-reduce works in it, and it is kept until that is over */
        group->all_reduced = mpl_hold(output);
    if (dtype != shard_dtype)
        mpl_rebind(tape, &output,
                   mpl_return(mpl_fsdp2_take(tape, last_stream, MPL_CATEGORY_COMMUNICATION,
                                             "_to_copy.default", shard_dtype, numel)));
    hand_out(tape, group, output);
    mpl_drop(tape, output);
    mpl_drop(tape, last);
}

void mpl_fsdp2_post_backward(struct mpl_tape *tape, struct mpl_fsdp2_group *group)
{
    struct mpl_fsdp2 *fsdp = group->fsdp;
    uint32_t found;

    if (tape->is_stopped)
        return;
    group->activity = MPL_FSDP2_POST_BACKWARD;
    accumulate(tape, group);
    if (!fsdp->is_syncing) {
        mpl_fsdp2_reshard(tape, group);
        keep_unsharded(tape, group);
        return;
    }
    found = collect(group);
    mpl_fsdp2_reshard(tape, group);
    mpl_drop(tape, fsdp->reduce_input); /* that of the group before */
    fsdp->reduce_input = NULL;
    if (found)
        reduce(tape, group);
}
