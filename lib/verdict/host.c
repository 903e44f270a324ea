/* SPDX-License-Identifier: MIT */
/* Memory of one node's host, beside the card's: never part of a verdict. */
#include "verdict/host.h"

#include "base/bytes.h"

/* What the lines are made of: whole model, in bytes. */
struct sizes {
    uint64_t ranks, shards;
    uint64_t weights;                /* as loaded */
    uint64_t trained, trained_count; /* those with a gradient; parameters of them */
    uint64_t states;                 /* of the optimizer, where it is one whose states are known */
};

static void add(struct mpl_host_sum *sum, const char *name, uint64_t bytes, uint32_t when,
                const char *source)
{
    if (!bytes || sum->count == MPL_MAX_HOST_LINES)
        return;
    sum->lines[sum->count++] = (struct mpl_host_line){name, source, bytes, when};
    if (when & MPL_HOST_LOADING)
        sum->loading_bytes = mpl_add(sum->loading_bytes, bytes);
    if (when & MPL_HOST_TRAINING)
        sum->training_bytes = mpl_add(sum->training_bytes, bytes);
    if (when & MPL_HOST_SAVING)
        sum->saving_bytes = mpl_add(sum->saving_bytes, bytes);
}

/* Tensors like the parameter that an optimizer keeps of it; -1: not known here. */
static int states_of(const struct mpl_optimizer_spec *o)
{
    switch (o->name) {
    case MPL_ADAMW:
    case MPL_ADAM:
    case MPL_ADAMW_CPU_OFFLOAD:
        return o->amsgrad ? 3 : 2;
    case MPL_SGD:
        return o->momentum > 0 ? 1 : 0;
    case MPL_LION:
        return 1;
    default:
        return -1;
    }
}

static struct sizes sizes_of(const struct mpl_plan *plan, const struct mpl_estimate *e)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const uint64_t world = p->strategy == MPL_STRATEGY_NONE ? 1 : (uint64_t)p->world_size;
    const uint64_t node = p->gpus_per_node > 0 ? (uint64_t)p->gpus_per_node : 8;
    const int states = states_of(&plan->training.optimizer);
    struct sizes s = {.ranks = world < node ? world : node,
                      .shards = world / (uint64_t)p->replicate};

    s.weights = mpl_dtype_bytes(plan->training.parameter_dtype, e->parameters);
    s.trained = mpl_dtype_bytes(plan->training.parameter_dtype, e->trainable_parameters);
    s.trained_count = e->trainable_parameters;
    s.states = states > 0 ? mpl_mul(s.trained, (uint64_t)states) : 0;
    return s;
}

/* shape: the whole model, for each rank that loads it; unit: bytes of a node */
static void add_loading(const struct mpl_plan *plan, const struct sizes *s,
                        struct mpl_host_sum *sum)
{
    switch (plan->host.loading) {
    case MPL_LOADING_UNSET:
    case MPL_LOADING_EVERY_RANK:
        add(sum, "weights, loading", mpl_mul(s->ranks, s->weights), MPL_HOST_LOADING,
            "every rank reads the whole model before it goes to its card");
        break;
    case MPL_LOADING_RANK0:
        add(sum, "weights, loading", s->weights, MPL_HOST_LOADING,
            "rank 0 reads the model, the others have it on meta (sync_module_states, accelerate's "
            "cpu_ram_efficient_loading)");
        break;
    case MPL_LOADING_MMAP:
        add(sum, "weights, page cache", s->weights, 0,
            "safetensors maps the file straight to the card: page cache, once a node");
        break;
    case MPL_LOADING_META:
        break;
    }
}

/* Swap buffers (offload_optimizer.buffer_count is 4), one sub-group each in float32, and gradients
 * of a partition in 16 bits or as the plan keeps them. */
static uint64_t swap_buffers(const struct mpl_plan *plan, const struct sizes *s)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const uint64_t partition = mpl_ceil_div(s->trained_count, s->shards);
    const uint64_t most = (uint64_t)p->sub_group_size;
    const enum mpl_dtype kept = p->grad_accum_dtype != MPL_DTYPE_NONE
                                    ? p->grad_accum_dtype
                                    : plan->training.parameter_dtype;

    return mpl_add(mpl_mul(4 * 4, partition < most ? partition : most),
                   mpl_dtype_bytes(kept, partition));
}

/* Elements of a rank's flat buffer of trained partitions on the host, beside which nvme begins:
 * offload_param_max_in_cpu of them where there are more. */
static uint64_t flat_on_host(const struct mpl_plan *plan, const struct sizes *s)
{
    const uint64_t partition = mpl_ceil_div(s->trained_count, s->shards);
    const uint64_t most = (uint64_t)plan->parallelism.offload_param_max_in_cpu;

    return partition < most ? partition : most;
}

/* DeepSpeed's offload_param. Pinned buffers for nvme: buffer_count of buffer_size elements, and one
 * of the largest sub-group on its way back; unit: bytes of a node */
static void add_offloaded_weights(const struct mpl_plan *plan, const struct sizes *s,
                                  struct mpl_host_sum *sum)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const enum mpl_dtype dtype = plan->training.parameter_dtype;
    const uint32_t when = MPL_HOST_TRAINING | MPL_HOST_SAVING;
    const uint64_t all = mpl_ceil_div(s->weights, s->shards);
    const uint64_t partition = mpl_ceil_div(s->trained_count, s->shards);
    const uint64_t flat = flat_on_host(plan, s), kept = mpl_dtype_bytes(dtype, flat);
    const uint64_t most = (uint64_t)p->sub_group_size;
    uint64_t buffers = mpl_mul((uint64_t)p->offload_param_buffer_count,
                               mpl_round_up((uint64_t)p->offload_param_buffer_size, 512));

    if (p->offload_param == MPL_OFFLOAD_CPU)
        add(sum, "offloaded weights", mpl_mul(s->ranks, all), when,
            "DeepSpeed's offload_param: a partition of the weights (stage3.py)");
    if (p->offload_param != MPL_OFFLOAD_NVME)
        return;
    if (flat < partition)
        buffers = mpl_add(buffers, partition < most ? partition : most);
    add(sum, "offloaded weights", mpl_mul(s->ranks, kept), when,
        "DeepSpeed's offload_param to NVMe: what max_in_cpu leaves on the host (stage3.py)");
    add(sum, "swap buffers, weights", mpl_mul(s->ranks, mpl_dtype_bytes(dtype, buffers)), when,
        "DeepSpeed's offload_param to NVMe: pinned buffers of it, one sub-group on its way back "
        "(partitioned_param_swapper.py)");
    add(sum, "weights, on NVMe", mpl_mul(s->ranks, all > kept ? mpl_sub(all, kept) : 0),
        MPL_HOST_NVME,
        "DeepSpeed's offload_param to NVMe: a file for each partition of 1 MiB and more, smaller "
        "ones stay on the host");
}

/* What stays on the host while training runs; pinned blocks of PyTorch's host allocator are rounded
 * up to a power of two, which is not counted. */
static void add_offloads(const struct mpl_plan *plan, const struct sizes *s,
                         struct mpl_host_sum *sum)
{
    const struct mpl_parallelism *p = &plan->parallelism;
    const uint32_t when = MPL_HOST_TRAINING | MPL_HOST_SAVING;

    if (p->cpu_offload) {
        add(sum, "offloaded shards",
            mpl_mul(s->ranks, mpl_ceil_div(mpl_add(s->weights, s->trained), s->shards)), when,
            "FSDP2's CPUOffloadPolicy: weights and gradients, pinned (_fsdp_param.py)");
        add(sum, "offloaded states", mpl_mul(s->ranks, mpl_ceil_div(s->states, s->shards)), when,
            "the optimizer steps on the host: states like the shards");
    }
    if (p->offload_optimizer == MPL_OFFLOAD_CPU)
        add(sum, "offloaded optimizer",
            mpl_mul(s->ranks, mpl_mul(mpl_ceil_div(s->trained_count, s->shards), 4 * 4)), when,
            "DeepSpeed's offload_optimizer: float32 masters, two states and gradients of a "
            "partition (stage_1_and_2.py)");
    if (p->offload_optimizer == MPL_OFFLOAD_NVME)
        add(sum, "swap buffers", mpl_mul(s->ranks, swap_buffers(plan, s)), when,
            "DeepSpeed's offload_optimizer to NVMe: four pinned buffers, gradients of a partition "
            "(optimizer_utils.py, stage3.py)");
    if (p->offload_optimizer == MPL_OFFLOAD_NVME)
        add(sum, "optimizer, on NVMe",
            mpl_mul(s->ranks, mpl_mul(mpl_ceil_div(s->trained_count, s->shards), 4 * 4)),
            MPL_HOST_NVME,
            "DeepSpeed's offload_optimizer to NVMe: files of masters, two states and gradients in "
            "float32");
    add_offloaded_weights(plan, s, sum);
    if (plan->training.optimizer.name == MPL_ADAMW_CPU_OFFLOAD)
        add(sum, "offloaded optimizer",
            mpl_mul(s->ranks, mpl_add(mpl_mul(2, s->trained), s->states)), when,
            "torchao's CPUOffloadOptimizer: pinned copies of weights and gradients, states");
}

static uint64_t power_of_two(uint64_t bytes)
{
    uint64_t power = 512;

    while (power < bytes && power <= UINT64_MAX / 2)
        power *= 2;
    return power;
}

/* shape: [batch, sequence] int64 ids and labels, and a mask with padding; unit: bytes of a node */
static void add_batches(const struct mpl_plan *plan, const struct sizes *s,
                        struct mpl_host_sum *sum)
{
    const struct mpl_training *t = &plan->training;
    const uint64_t tensors = t->padding ? 3 : 2;
    const uint64_t tensor =
        mpl_mul(mpl_mul((uint64_t)t->micro_batch_size, (uint64_t)t->sequence_length), 8);
    const uint64_t ahead =
        mpl_mul((uint64_t)plan->host.dataloader_workers, (uint64_t)plan->host.prefetch_factor);
    const uint32_t when = MPL_HOST_TRAINING | MPL_HOST_SAVING;

    add(sum, "batches of workers", mpl_mul(mpl_mul(s->ranks, ahead), mpl_mul(tensors, tensor)),
        when, "DataLoader: prefetch_factor batches for each worker, in shared memory");
    if (plan->host.pin_memory)
        add(sum, "pinned batches",
            mpl_mul(mpl_mul(s->ranks, ahead ? ahead : 1), mpl_mul(tensors, power_of_two(tensor))),
            when, "pin_memory: each tensor in a block of a power of two (CachingHostAllocator)");
}

/* engine.load_checkpoint(): each rank reads its masters and two states in float32, under ZeRO-1 and
 * 2 all weights, too; unit: bytes of a node */
static void add_partitions(const struct mpl_plan *plan, const struct sizes *s,
                           struct mpl_host_sum *sum)
{
    const bool is_stage3 = plan->parallelism.strategy == MPL_STRATEGY_ZERO3;
    const uint64_t partition = mpl_mul(mpl_ceil_div(s->trained_count, s->shards), 3 * 4);

    if (plan->checkpoint.save == MPL_SAVE_FULL && is_stage3)
        add(sum, "checkpoint, saving", s->weights, MPL_HOST_SAVING,
            "rank 0 gathers the weights on the host before it writes them "
            "(stage3_gather_16bit_weights_on_model_save)");
    if (plan->checkpoint.resume == MPL_RESUME_SHARDED)
        add(sum, "checkpoint, loading",
            mpl_mul(s->ranks, mpl_add(partition, is_stage3 ? 0 : s->weights)), MPL_HOST_LOADING,
            "engine.load_checkpoint(): a rank's own partition, with zero1 and zero2 all weights");
}

static void add_checkpoints(const struct mpl_plan *plan, const struct sizes *s,
                            struct mpl_host_sum *sum)
{
    const bool is_sharded = s->shards > 1 && plan->parallelism.strategy != MPL_STRATEGY_DDP;
    const bool is_deepspeed = plan->parallelism.strategy >= MPL_STRATEGY_ZERO1;
    const uint64_t all = mpl_add(s->weights, s->states);

    if (is_deepspeed) {
        add_partitions(plan, s, sum);
        return;
    }
    if (plan->checkpoint.save == MPL_SAVE_FULL && is_sharded && plan->checkpoint.offloads)
        add(sum, "checkpoint, saving", all, MPL_HOST_SAVING,
            "rank 0 gathers weights and states on the host before it writes them "
            "(full_state_dict, cpu_offload)");
    if (plan->checkpoint.save == MPL_SAVE_ASYNC)
        add(sum, "checkpoint, saving",
            mpl_mul(s->ranks, is_sharded ? mpl_ceil_div(all, s->shards) : all),
            MPL_HOST_TRAINING | MPL_HOST_SAVING,
            "torch.distributed.checkpoint.async_save: a copy of what each rank holds, kept");
    if (plan->checkpoint.resume == MPL_RESUME_CPU)
        add(sum, "checkpoint, loading", mpl_mul(s->ranks, all), MPL_HOST_LOADING,
            "torch.load(map_location=\"cpu\"): every rank reads weights and states");
    if (plan->checkpoint.resume == MPL_RESUME_BROADCAST)
        add(sum, "checkpoint, loading", all, MPL_HOST_LOADING,
            "broadcast_from_rank0: rank 0 reads weights and states");
}

static bool is_asked_for(const struct mpl_plan *plan)
{
    return plan->host.memory_bytes > 0 || plan->host.loading || plan->host.dataloader_workers ||
           plan->host.pin_memory || plan->checkpoint.save || plan->checkpoint.resume ||
           plan->parallelism.cpu_offload || plan->parallelism.offload_optimizer ||
           plan->parallelism.offload_param ||
           plan->training.optimizer.name == MPL_ADAMW_CPU_OFFLOAD;
}

void mpl_host_add_up(const struct mpl_plan *plan, const struct mpl_estimate *estimate,
                     struct mpl_host_sum *sum)
{
    const struct sizes s = sizes_of(plan, estimate);

    *sum = (struct mpl_host_sum){.ranks = (uint32_t)s.ranks, .is_asked_for = is_asked_for(plan)};
    add_loading(plan, &s, sum);
    add_offloads(plan, &s, sum);
    add_batches(plan, &s, sum);
    add_checkpoints(plan, &s, sum);
    sum->peak_bytes = sum->loading_bytes;
    if (sum->training_bytes > sum->peak_bytes)
        sum->peak_bytes = sum->training_bytes;
    if (sum->saving_bytes > sum->peak_bytes)
        sum->peak_bytes = sum->saving_bytes;
    sum->exceeds =
        plan->host.memory_bytes > 0 && sum->peak_bytes > (uint64_t)plan->host.memory_bytes;
}
