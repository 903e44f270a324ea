/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stages 1 and 2: reductions, and what a step takes before the optimizer runs.
 *
 * source: deepspeed/runtime/zero/stage_1_and_2.py (reduce_independent_p_g_buckets_and_remove_grads,
 * reduce_ipg_grads, average_tensor, allreduce_and_scatter, copy_grads_in_partition, has_overflow,
 * get_grad_norm_direct, step)
 */
#include "base/bytes.h"
#include "parallel/strategy.h"
#include "parallel/zero.h"
#include "spec/text.h"

#define REDUCTION MPL_STREAM_REDUCE_SCATTER /* reduction_stream */

struct mpl_tensor *mpl_zero_take(struct mpl_tape *tape, enum mpl_category category, const char *op,
                                 enum mpl_dtype dtype, uint64_t numel)
{
    return mpl_take_flat(tape, tape->stream, category, op, dtype, numel);
}

/* ---- reductions -------------------------------------------------------------------------------
 */

/** Slices of one all-reduce; several are copied together first. */
struct slices {
    uint32_t count;
    uint64_t numel;
};

/* shape: [elements of all slices]; a single one is reduced where it lies */
static void all_reduce(struct mpl_tape *tape, const struct mpl_zero *zero, struct slices *slices)
{
    const enum mpl_stream old = tape->stream;

    if (zero->overlaps)
        tape->stream = REDUCTION;
    if (slices->count > 1)
        mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_COMMUNICATION, "cat.default", zero->dtype,
                                     slices->numel));
    tape->stream = old;
    *slices = (struct slices){0, 0};
}

static void add_slice(struct mpl_tape *tape, const struct mpl_zero *zero, struct slices *slices,
                      uint64_t numel)
{
    slices->count++;
    slices->numel = mpl_add(slices->numel, numel);
    if (slices->numel > zero->bucket_numel)
        all_reduce(tape, zero, slices);
}

/* average_tensor: the bucket is cut where partitions end; neighbours of one rank are one slice. */
static void average(struct mpl_tape *tape, const struct mpl_zero *zero)
{
    struct slices slices = {0, 0};
    uint64_t rank = UINT64_MAX, numel = 0;

    for (uint32_t i = 0; i < zero->bucket.count; i++) {
        const struct mpl_zero_member *member = &zero->members[zero->bucket.members[i]];
        const uint64_t end = member->start + member->numel;

        for (uint64_t at = member->start; at < end;) {
            const uint64_t owner = at / zero->partition_numel;
            const uint64_t border = mpl_mul(owner + 1, zero->partition_numel);
            const uint64_t next = border < end ? border : end;

            if (owner != rank && numel)
                add_slice(tape, zero, &slices, numel);
            numel = (owner == rank ? numel : 0) + (next - at);
            rank = owner;
            at = next;
        }
    }
    if (numel)
        add_slice(tape, zero, &slices, numel);
    all_reduce(tape, zero, &slices);
}

/* Elements of the parameters that this rank's partition touches, each as a whole. */
static uint64_t own_numel(const struct mpl_zero *zero)
{
    uint64_t numel = 0;

    for (uint32_t i = 0; i < zero->count; i++)
        if (mpl_zero_owns(&zero->members[i]))
            numel = mpl_add(numel, zero->members[i].numel);
    return numel;
}

static void point_gradient_at(struct mpl_tape *tape, struct mpl_tensor *leaf,
                              const struct mpl_tensor *buffer)
{
    struct mpl_tensor *view = mpl_hold(mpl_alias_shaped(tape, buffer, &leaf->shape));

    if (view->is_void)
        return;
    mpl_drop(tape, leaf->grad);
    leaf->grad = view;
}

/* copy_grads_in_partition: shape [own_numel]; unit: elements of the gradients' format */
static void keep(struct mpl_tape *tape, struct mpl_zero *zero, struct mpl_tensor *leaf)
{
    const enum mpl_stream old = tape->stream;

    tape->stream = zero->overlaps ? REDUCTION : old;
    if (!zero->own)
        zero->own = mpl_zero_take(tape, MPL_CATEGORY_GRADIENTS, "empty.memory_format", zero->dtype,
                                  own_numel(zero));
    tape->stream = old;
    point_gradient_at(tape, leaf, zero->own);
}

/* Elements of a member that lie in this rank's partition. */
static uint64_t overlap(const struct mpl_zero_member *member)
{
    const struct mpl_zero *zero = member->zero;
    const uint64_t end = member->start + member->numel;
    const uint64_t low = member->start > zero->low ? member->start : zero->low;
    const uint64_t high = end < zero->high ? end : zero->high;

    return high > low ? high - low : 0;
}

/* _has_inf_or_nan of [numel]: a float32 copy, absolute values, flags of one byte, and the flags
 * as float32. Release 0.19.6 looks at the largest and the smallest element instead. */
static void check_overflow(struct mpl_tape *tape, const struct mpl_zero *zero, uint64_t numel)
{
    struct mpl_tensor *wide = NULL, *nan, *inf, *absolute, *both, *flags;

    if (mpl_version_at_least(&zero->network->plan->deepspeed, 0, 19, 6))
        return;
    if (zero->dtype != MPL_FLOAT32)
        wide = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", MPL_FLOAT32, numel);
    nan = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "ne.Tensor", MPL_BOOL, numel);
    absolute = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "abs.default", MPL_FLOAT32, numel);
    inf = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "eq.Scalar", MPL_BOOL, numel);
    mpl_drop(tape, absolute);
    both = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "logical_or.default", MPL_BOOL, numel);
    flags = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", MPL_FLOAT32, numel);
    mpl_drop(tape, flags);
    mpl_drop(tape, wide);
    mpl_drop(tape, nan);
    mpl_drop(tape, inf);
    mpl_drop(tape, both);
}

/* A gradient goes to the host: its norm in float64, its overflow check and its float32 copy come
 * before. Earlier ones of an accumulation are added on the way, in room that is there. */
static void offload(struct mpl_tape *tape, const struct mpl_zero *zero,
                    const struct mpl_zero_member *member)
{
    struct mpl_tensor *leaf = member->parameter->tensor;

    if (!zero->is_boundary)
        return;
    mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", MPL_FLOAT64,
                                 overlap(member)));
    check_overflow(tape, zero, member->numel);
    if (zero->dtype != MPL_FLOAT32)
        mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", MPL_FLOAT32,
                                     overlap(member)));
    mpl_drop(tape, leaf->grad);
    leaf->grad = NULL;
}

void mpl_zero_flush(struct mpl_tape *tape, struct mpl_zero *zero)
{
    struct mpl_zero_bucket *bucket = &zero->bucket;

    average(tape, zero);
    for (uint32_t i = 0; i < bucket->count && !tape->is_stopped; i++) {
        struct mpl_zero_member *member = &zero->members[bucket->members[i]];
        struct mpl_tensor *leaf = member->parameter->tensor;

        if (mpl_zero_owns(member) && zero->offloads) {
            offload(tape, zero, member);
        } else if (mpl_zero_owns(member)) {
            keep(tape, zero, leaf);
        } else if (zero->partitions_gradients) {
            mpl_drop(tape, leaf->grad);
            leaf->grad = NULL;
        }
    }
    bucket->count = 0;
    bucket->elements = 0;
}

void mpl_zero_put(struct mpl_tape *tape, struct mpl_zero_member *member)
{
    struct mpl_zero *zero = member->zero;
    struct mpl_zero_bucket *bucket = &zero->bucket;

    if (mpl_add(bucket->elements, member->numel) > zero->bucket_numel) {
        mpl_zero_flush(tape, zero);
        if (zero->overlaps) {
            struct mpl_tensor *swap = bucket->buffers[0];

            bucket->buffers[0] = bucket->buffers[1];
            bucket->buffers[1] = swap;
        }
    }
    if (member->numel <= zero->bucket_numel) /* larger ones are reduced where they lie */
        point_gradient_at(tape, member->parameter->tensor, bucket->buffers[0]);
    bucket->elements = mpl_add(bucket->elements, member->numel);
    bucket->members[bucket->count++] = (uint32_t)(member - zero->members);
}

/* ---- before the optimizer ---------------------------------------------------------------------
 */

void mpl_zero_prepare_step(struct mpl_tape *tape, struct mpl_zero *zero)
{
    struct mpl_tensor *flat = NULL, *gradient;
    uint32_t count = 0;

    if (zero->offloads) /* the host does it */
        return;
    for (uint32_t i = 0; i < zero->count; i++)
        if (overlap(&zero->members[i])) {
            check_overflow(tape, zero, overlap(&zero->members[i]));
            count++;
        }
    for (uint32_t i = 0; i < zero->count; i++) /* norms are taken in float64 */
        if (overlap(&zero->members[i]))
            mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default",
                                         MPL_FLOAT64, overlap(&zero->members[i])));
    mpl_drop(tape, zero->norm);
    zero->norm = mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "div.Tensor", MPL_FLOAT32, 1);
    if (count > 1)
        flat = mpl_zero_take(tape, MPL_CATEGORY_GRADIENTS, "cat.default", zero->dtype,
                             zero->partition_numel);
    gradient = flat;
    if (zero->dtype != MPL_FLOAT32 || !flat)
        gradient = mpl_zero_take(tape, MPL_CATEGORY_GRADIENTS, "_to_copy.default", MPL_FLOAT32,
                                 zero->partition_numel);
    if (gradient != flat)
        mpl_drop(tape, flat);
    for (uint32_t i = 0; i < zero->count; i++) {
        mpl_drop(tape, zero->members[i].averaged);
        zero->members[i].averaged = NULL;
    }
    if (!tape->is_stopped && !gradient->is_void)
        zero->master->grad = gradient;
}
