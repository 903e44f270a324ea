/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: all-gathers of weights, and what is left of a weight without one.
 *
 * source: deepspeed/runtime/zero/partition_parameters.py (AllGatherHandle,
 * AllGatherCoalescedHandle, all_gather_coalesced, _allgather_params_coalesced, free_param)
 */
#include "base/bytes.h"
#include "parallel/zero3.h"

/* The weight looks at a tensor that nobody else names from now on. */
static void point_at(struct mpl_tape *tape, struct mpl_zero3_weight *weight,
                     struct mpl_tensor *tensor)
{
    mpl_set_data(tape, weight->parameter->tensor, tensor);
    mpl_drop(tape, tensor);
}

/* Partitions come from the host for the time of a copy: shape [partition] each. */
static void stage(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                  struct mpl_zero3_gather *gather)
{
    if (!zero->offloads_weights)
        return;
    if (!gather->is_flat) { /* the collective's input, until it is waited for */
        gather->staging =
            mpl_take_flat(tape, zero->gather_stream, MPL_CATEGORY_COMMUNICATION, "_to_copy.default",
                          mpl_zero3_dtype(gather->first), gather->first->partition);
        return;
    }
    for (struct mpl_zero3_weight *w = gather->first; w; w = w->sibling)
        w->made = mpl_take_flat(tape, zero->gather_stream, MPL_CATEGORY_COMMUNICATION,
                                "_to_copy.default", mpl_zero3_dtype(w), w->partition);
    for (struct mpl_zero3_weight *w = gather->first; w; w = w->sibling) {
        mpl_drop(tape, w->made);
        w->made = NULL;
    }
}

static struct mpl_zero3_gather *new_gather(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    struct mpl_zero3_gather *gather = zero->free_gathers;

    if (gather)
        zero->free_gathers = gather->next_free;
    else
        gather = mpl_arena_alloc(&tape->arena, sizeof(*gather));
    if (gather)
        *gather = (struct mpl_zero3_gather){0};
    else
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
    return gather;
}

/* Weights in the order of their making. */
static void sort(struct mpl_zero3_weight **list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct mpl_zero3_weight *weight = list[i];
        uint32_t k = i;

        for (; k && list[k - 1]->order > weight->order; k--)
            list[k] = list[k - 1];
        list[k] = weight;
    }
}

/* shape [ranks * partition]; unit: elements of the weights' format */
static struct mpl_tensor *take_whole(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                                     int format, uint64_t partition)
{
    return mpl_take_flat(tape, zero->gather_stream, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                         zero->dtypes[format], mpl_mul(partition, zero->ranks));
}

/* __all_gather_params_ of the zero->list: one weight into itself, several into a flat tensor of all
 * their partitions for each format (sort_dtypes: the smaller one first). */
void mpl_zero3_begin_gather(struct mpl_tape *tape, struct mpl_zero3 *zero, uint32_t count)
{
    struct mpl_zero3_gather *gather = count ? new_gather(tape, zero) : NULL;
    uint64_t partitions[MPL_ZERO3_FORMATS] = {0};

    if (!gather)
        return;
    sort(zero->list, count);
    for (uint32_t i = count; i--;) {
        struct mpl_zero3_weight *weight = zero->list[i];

        mpl_zero3_swap_in(tape, weight);
        partitions[weight->format] = mpl_add(partitions[weight->format], weight->partition);
        zero->available += (int64_t)weight->numel;
        weight->status = MPL_ZERO3_IN_FLIGHT;
        weight->gather = gather;
        weight->sibling = gather->first;
        gather->first = weight;
    }
    gather->waiting = count;
    gather->is_flat = count > 1;
    for (int f = 0; f < MPL_ZERO3_FORMATS; f++)
        if (partitions[f])
            gather->flat[f] = take_whole(tape, zero, f, partitions[f]);
    stage(tape, zero, gather);
    for (struct mpl_zero3_weight *w = gather->first; w; w = w->sibling)
        if (w->persists) /* it never comes from NVMe again */
            mpl_zero3_release_buffer(w);
    if (gather->is_flat)
        return;
    point_at(tape, gather->first, gather->flat[gather->first->format]);
    gather->flat[gather->first->format] = NULL;
}

/* handle.wait(): shape [numel] of each weight */
static void wait_for(struct mpl_tape *tape, struct mpl_zero3_gather *gather, enum mpl_stream stream)
{
    if (gather->is_complete)
        return;
    gather->is_complete = true;
    mpl_drop(tape, gather->staging);
    for (struct mpl_zero3_weight *w = gather->first; w; w = w->sibling) {
        w->status = MPL_ZERO3_AVAILABLE;
        if (gather->is_flat)
            point_at(tape, w,
                     mpl_take_flat(tape, stream, MPL_CATEGORY_PARAMETERS, "cat.default",
                                   mpl_zero3_dtype(w), w->numel));
    }
}

/* registry.pop(weight).wait(): the flat tensor goes with the last weight. */
void mpl_zero3_ask_for(struct mpl_tape *tape, struct mpl_zero3_weight *weight,
                       enum mpl_stream stream)
{
    struct mpl_zero3 *zero = weight->zero;
    struct mpl_zero3_gather *gather = weight->gather;

    if (!gather)
        return;
    weight->gather = NULL;
    wait_for(tape, gather, stream);
    if (--gather->waiting)
        return;
    for (int f = 0; f < MPL_ZERO3_FORMATS; f++)
        mpl_drop(tape, gather->flat[f]);
    gather->next_free = zero->free_gathers;
    zero->free_gathers = gather;
}

/* _allgather_params_coalesced, or of one weight _allgather_params_sequential: partitions that come
 * from the host stay for the collective. Shape [partition] each. */
static void stage_now(struct mpl_tape *tape, struct mpl_zero3_weight *const *weights,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        weights[i]->staged =
            mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_COMMUNICATION, "_to_copy.default",
                          mpl_zero3_dtype(weights[i]), weights[i]->partition);
}

void mpl_zero3_gather_now(struct mpl_tape *tape, struct mpl_zero3 *zero,
                          struct mpl_zero3_weight *const *weights, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        mpl_zero3_swap_in(tape, weights[i]);
    if (zero->offloads_weights && count > 1)
        stage_now(tape, weights, count);
    for (uint32_t i = 0; i < count; i++)
        weights[i]->made =
            mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                          mpl_zero3_dtype(weights[i]), mpl_mul(weights[i]->partition, zero->ranks));
    if (zero->offloads_weights && count == 1)
        stage_now(tape, weights, count);
    for (uint32_t i = 0; i < count; i++) {
        weights[i]->status = MPL_ZERO3_AVAILABLE;
        point_at(tape, weights[i], weights[i]->made);
        weights[i]->made = NULL;
        mpl_drop(tape, weights[i]->staged);
        weights[i]->staged = NULL;
    }
}

void mpl_zero3_give_up(struct mpl_tape *tape, struct mpl_zero3_weight *weight)
{
    weight->status = MPL_ZERO3_PARTITIONED;
    mpl_zero3_release_buffer(weight);
    mpl_set_data(tape, weight->parameter->tensor, weight->zero->empty[weight->format]);
}
