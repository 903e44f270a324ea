/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: gradients on their way to this rank's partitions.
 *
 * source: deepspeed/runtime/zero/stage3.py (reduce_independent_p_g_buckets_and_remove_grads,
 * __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, __avg_scatter_grads, partition_grads,
 * _offload_grad_partition_at_boundary), deepspeed/runtime/comm/coalesced_collectives.py
 * (reduce_scatter_coalesced)
 */
#include "base/bytes.h"
#include "parallel/zero3.h"

static void keep(struct mpl_zero3 *zero, struct mpl_tensor *tensor)
{
    zero->locals[zero->local_count++] = tensor;
}

static void drop_locals(struct mpl_tape *tape, struct mpl_zero3 *zero, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        mpl_drop(tape, zero->locals[i]);
        zero->locals[i] = NULL;
    }
    if (to == zero->local_count)
        zero->local_count = from;
}

static struct mpl_tensor *take(struct mpl_tape *tape, const struct mpl_zero3 *zero, const char *op,
                               enum mpl_dtype dtype, uint64_t numel)
{
    return mpl_take_flat(tape, zero->reduce_stream, MPL_CATEGORY_COMMUNICATION, op, dtype, numel);
}

static struct mpl_zero3_weight *weight_at(const struct mpl_zero3 *zero, uint32_t i)
{
    return &zero->weights[zero->bucket_weights[i]];
}

/* Elements that the ranks' chunks of a gradient lack: a chunk is padded by a tensor of its own. */
static void keep_padding(struct mpl_tape *tape, struct mpl_zero3 *zero, uint64_t rank)
{
    for (uint32_t i = 0; i < zero->bucket_count; i++) {
        const struct mpl_zero3_weight *weight = weight_at(zero, i);
        const uint64_t end = mpl_mul(rank + 1, weight->partition);
        const uint64_t over = end > weight->numel ? end - weight->numel : 0;

        if (over)
            keep(zero, take(tape, zero, "empty.memory_format", zero->sent_dtype,
                            over < weight->partition ? over : weight->partition));
    }
}

/* reduce_scatter_coalesced: shape [ranks * partitions], of which this rank's part is the result;
 * the gradient itself where it is one that divides. Held. */
static struct mpl_tensor *reduce_scatter(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    const struct mpl_zero3_weight *first = weight_at(zero, 0);
    const uint32_t before = zero->local_count;
    uint64_t partitions = 0;
    struct mpl_tensor *flat;

    if (zero->bucket_count == 1 && first->numel % zero->ranks == 0)
        return mpl_hold(before ? zero->locals[0] : first->parameter->tensor->grad);
    for (uint64_t rank = 0; rank < zero->ranks; rank++)
        keep_padding(tape, zero, rank);
    for (uint32_t i = 0; i < zero->bucket_count; i++)
        partitions = mpl_add(partitions, weight_at(zero, i)->partition);
    flat = take(tape, zero, "cat.default", zero->sent_dtype, mpl_mul(partitions, zero->ranks));
    drop_locals(tape, zero, before, zero->local_count);
    return flat;
}

#define LEAST_SWAPPED  (1024 * 1024) /* bytes: MIN_AIO_BYTES, and aio.block_size's default */
#define SWAP_ALIGNMENT 256           /* elements: AIO_ALIGNED_BYTES over float32 */

/* _swappable_optimizer_subgroup */
static bool is_swapped(const struct mpl_zero3 *zero, const struct mpl_zero3_weight *weight)
{
    uint32_t weights;

    return zero->swaps_states &&
           mpl_dtype_bytes(MPL_FLOAT32, mpl_zero3_numel_of(zero, weight->sub_group, &weights)) >=
               LEAST_SWAPPED;
}

/* A partition of gradients for the host: back on the device for its norm in float64 and for its
 * float32 copy. Shape [partition]. */
static void offload(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                    struct mpl_zero3_weight *weight)
{
    struct mpl_tensor *back =
        take(tape, zero, "_to_copy.default", zero->kept_dtype, weight->partition);
    struct mpl_tensor *wide;

    if (zero->is_boundary) {
        mpl_drop(tape, take(tape, zero, "_to_copy.default", MPL_FLOAT64, weight->partition));
        mpl_rebind(tape, &weight->norm,
                   mpl_return(take(tape, zero, "pow.Tensor_Scalar", MPL_FLOAT64, 1)));
        wide = zero->kept_dtype == MPL_FLOAT32
                   ? mpl_hold(back)
                   : take(tape, zero, "_to_copy.default", MPL_FLOAT32, weight->partition);
        if (is_swapped(zero, weight))
            mpl_rebind(tape, &weight->wide, mpl_return(wide));
        else
            mpl_drop(tape, wide);
    }
    mpl_drop(tape, back);
}

/* swap_out_gradients: a small one waits on the card for the step, and so does all of one with a
 * rest that does not fill the alignment. */
static void swap_out(struct mpl_tape *tape, const struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->bucket_count; i++) {
        struct mpl_zero3_weight *weight = weight_at(zero, i);

        if (!weight->wide || mpl_dtype_bytes(MPL_FLOAT32, weight->partition) < LEAST_SWAPPED ||
            weight->partition % SWAP_ALIGNMENT)
            continue;
        mpl_drop(tape, weight->wide);
        weight->wide = NULL;
    }
}

/* partition_grads: into the buffer of kept gradients; those of the model go. */
static void partition_gradients(struct mpl_tape *tape, const struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->bucket_count && !tape->is_stopped; i++) {
        struct mpl_zero3_weight *weight = weight_at(zero, i);
        struct mpl_tensor *leaf = weight->parameter->tensor;

        if (zero->offloads_states && mpl_mul(weight->partition, zero->rank) < weight->numel)
            offload(tape, zero, weight);
        mpl_drop(tape, leaf->grad);
        leaf->grad = NULL;
    }
    swap_out(tape, zero);
}

static void sort_bucket(struct mpl_zero3 *zero)
{
    for (uint32_t i = 1; i < zero->bucket_count; i++) {
        const uint32_t weight = zero->bucket_weights[i];
        uint32_t k = i;

        for (; k && zero->bucket_weights[k - 1] > weight; k--)
            zero->bucket_weights[k] = zero->bucket_weights[k - 1];
        zero->bucket_weights[k] = weight;
    }
}

/* Partitions in the format that they are kept in: shape [partition] each. The result of the
 * reduction goes, then the gradients in the format of the collective. */
static void cast_partitions(struct mpl_tape *tape, struct mpl_zero3 *zero,
                            struct mpl_tensor **result)
{
    const uint32_t before = zero->local_count;

    if (zero->sent_dtype == zero->kept_dtype) {
        drop_locals(tape, zero, 0, before);
        return;
    }
    for (uint32_t i = 0; i < zero->bucket_count; i++)
        keep(zero,
             take(tape, zero, "_to_copy.default", zero->kept_dtype, weight_at(zero, i)->partition));
    mpl_drop(tape, *result);
    *result = NULL;
    drop_locals(tape, zero, 0, before);
}

/* Gradients in the format of the collective; those in the bucket have it. */
static void keep_casts(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->bucket_count; i++) {
        struct mpl_tensor *grad = weight_at(zero, i)->parameter->tensor->grad;

        if (zero->sent_dtype == zero->trained_dtype)
            return;
        keep(zero, (enum mpl_dtype)grad->dtype == zero->sent_dtype
                       ? mpl_hold(grad)
                       : take(tape, zero, "_to_copy.default", zero->sent_dtype,
                              weight_at(zero, i)->numel));
    }
}

/* __reduce_and_partition_ipg_grads */
static void reduce(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    struct mpl_tensor *result;

    if (!zero->bucket_count || tape->is_stopped)
        return;
    sort_bucket(zero);
    keep_casts(tape, zero);
    result = reduce_scatter(tape, zero);
    cast_partitions(tape, zero, &result);
    partition_gradients(tape, zero);
    drop_locals(tape, zero, 0, zero->local_count);
    mpl_drop(tape, result);
    zero->bucket_count = 0;
    zero->bucket_numel = 0;
}

/* independent_gradient_partition_epilogue, then the engine's */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_zero3 *zero = context;

    zero->is_queued = false;
    reduce(tape, zero);
    mpl_zero3_release_leftovers(tape, zero);
}

/* reduce_leaf_module_grads: zeros for a weight that nothing came for */
void mpl_zero3_reduce_leaf(struct mpl_tape *tape, const struct mpl_zero3_module *module)
{
    for (uint32_t i = 0; i < module->count && !tape->is_stopped; i++) {
        const struct mpl_zero3_weight *weight = module->weights[i];
        struct mpl_tensor *leaf = weight->parameter->tensor;

        if (!weight->is_trained)
            continue;
        if (!leaf->grad)
            leaf->grad = mpl_hold(
                mpl_empty(tape, "zeros_like.default", mpl_zero3_dtype(weight), &leaf->shape));
        mpl_zero3_gradient_came(tape, leaf);
    }
}

void mpl_zero3_gradient_came(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_zero3_weight *weight = leaf->grad_hook_context;
    struct mpl_zero3 *zero = weight->zero;
    const uint64_t most = (uint64_t)zero->network->plan->parallelism.reduce_bucket_size;
    struct mpl_tensor *view;

    if (tape->is_stopped)
        return;
    if (!zero->is_queued) {
        zero->is_queued = true;
        mpl_queue_callback(tape, finish_backward, zero);
    }
    if (mpl_add(zero->bucket_numel, weight->numel) > most)
        reduce(tape, zero);
    if (zero->bucket && mpl_add(zero->bucket_numel, weight->numel) <= most) {
        view = mpl_hold(mpl_alias_shaped(tape, zero->bucket, &leaf->shape));
        if (view->is_void)
            return;
        mpl_drop(tape, leaf->grad);
        leaf->grad = view;
    }
    zero->bucket_numel = mpl_add(zero->bucket_numel, weight->numel);
    zero->bucket_weights[zero->bucket_count++] = (uint32_t)(weight - zero->weights);
}
