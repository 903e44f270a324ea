/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO-Infinity: partitions of weights on NVMe, and the buffers on the host through which
 * they come. The card sees them as it sees partitions on the host; but what lies on NVMe is not
 * gathered ahead before it was read.
 *
 * source: deepspeed/runtime/swap_tensor/partitioned_param_swapper.py
 * (AsyncPartitionedParameterSwapper), zero/stage3.py (_create_fp16_partitions_with_defragmentation,
 * _create_param_groups_fp16_flat_cpu_memory), partitioned_param_coordinator.py
 * (__prefetch_nvme_param_partitions), release 0.19.6
 */
#include "base/bytes.h"
#include "base/fail.h"
#include "parallel/zero3.h"
#include "spec/plan.h"

#define LEAST_SWAPPED (1024 * 1024) /* bytes: MIN_AIO_BYTES, and aio.block_size's default */

bool mpl_zero3_has_flat(const struct mpl_zero3 *zero, uint32_t sub_group)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;
    const uint64_t most = p->offload_param_max_in_cpu ? (uint64_t)p->offload_param_max_in_cpu : 1;
    uint64_t numel = 0;

    if (!zero->swaps_weights)
        return true;
    for (uint32_t i = 0; i < zero->trained_count; i++)
        if (zero->trained[i]->sub_group <= sub_group)
            numel = mpl_add(numel, zero->trained[i]->partition);
    return numel <= most;
}

enum memplan_status mpl_zero3_find_swapped(struct mpl_zero3 *zero, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;

    zero->free_buffers = (uint32_t)p->offload_param_buffer_count;
    for (uint32_t i = 0; i < zero->count && zero->swaps_weights; i++) {
        struct mpl_zero3_weight *weight = &zero->weights[i];

        if (mpl_dtype_bytes(mpl_zero3_dtype(weight), weight->partition) < LEAST_SWAPPED)
            continue;
        if (weight->partition > (uint64_t)p->offload_param_buffer_size)
            return mpl_fail(err, MEMPLAN_ERR_VALUE, "/parallelism/offload_param_buffer_size",
                            "parallelism.offload_param_buffer_size: found %lld elements, the "
                            "partition of \"%s\" has %llu",
                            (long long)p->offload_param_buffer_size, weight->parameter->name,
                            (unsigned long long)weight->partition);
        weight->is_swapped = !weight->is_trained || !mpl_zero3_has_flat(zero, weight->sub_group);
    }
    return MEMPLAN_OK;
}

void mpl_zero3_swap_in(struct mpl_tape *tape, struct mpl_zero3_weight *weight)
{
    struct mpl_zero3 *zero = weight->zero;

    if (!weight->is_swapped || weight->has_buffer)
        return;
    if (!zero->free_buffers) {
        mpl_tape_fail(tape, MEMPLAN_ERR_VALUE,
                      "parallelism.offload_param_buffer_count: DeepSpeed stops when no buffer is "
                      "free for a partition from NVMe; more of them are needed");
        return;
    }
    zero->free_buffers--;
    weight->has_buffer = true;
}

void mpl_zero3_release_buffer(struct mpl_zero3_weight *weight)
{
    weight->zero->free_buffers += weight->has_buffer;
    weight->has_buffer = false;
}

void mpl_zero3_read_ahead(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    const uint32_t room = zero->free_buffers;
    uint64_t in_flight = 0, considered = 0;
    uint32_t count = 0;

    if (!zero->swaps_weights)
        return;
    for (uint32_t i = 0; i < zero->count; i++)
        in_flight = mpl_add(in_flight, zero->weights[i].gather ? zero->weights[i].numel : 0);
    for (size_t k = zero->next_use; k < zero->use_count; k++) {
        struct mpl_zero3_weight *weight = zero->uses[k].weight;

        if (considered > mpl_mul(2, in_flight) || count >= room)
            break;
        if (weight->is_swapped && !weight->has_buffer)
            zero->list[count++] = weight;
        considered = mpl_add(considered, weight->numel);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (zero->list[i]->has_buffer)
            mpl_tape_fail(tape, MEMPLAN_ERR_VALUE,
                          "parallelism.offload_param: DeepSpeed stops when a weight on NVMe is "
                          "read ahead for two uses; a smaller stage3_prefetch_bucket_size avoids "
                          "it");
        mpl_zero3_swap_in(tape, zero->list[i]);
    }
}
