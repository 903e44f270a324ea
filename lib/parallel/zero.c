/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stages 1 and 2: its constructor, its gradient hooks, the end of a backward and
 * the step.
 *
 * source: deepspeed/runtime/zero/stage_1_and_2.py (DeepSpeedZeroOptimizer: __init__,
 * process_gradients, setup_buckets, independent_gradient_partition_epilogue, step)
 */
#include "parallel/zero.h"

#include "base/bytes.h"
#include "base/fail.h"
#include "op/linear_4bit.h"
#include "op/op.h"
#include "optim/optim.h"
#include "parallel/ranks.h"
#include "spec/text.h"

#define ALIGNMENT 2 /* elements of each rank: nccl_start_alignment_factor */

/* ---- the constructor --------------------------------------------------------------------------
 */

/* The optimizer's one parameter: the first member's leaf stands for the whole partition. */
static void make_leaves(struct mpl_tape *tape, struct mpl_zero *zero)
{
    const struct mpl_shape none = mpl_shape1(mpl_dim(0));

    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_parameter *p = zero->members[i].parameter;

        p->shard =
            i || !zero->master ? mpl_hold(mpl_alias_shaped(tape, zero->flat, &none)) : zero->master;
        if (!p->shard->is_void)
            p->shard->requires_grad = true;
    }
}

/* This rank's partition as a float32 copy, and the zeros that were to make the optimizer's states:
 * shape [partition]; unit: elements */
static void make_master(struct mpl_tape *tape, struct mpl_zero *zero)
{
    zero->master = mpl_zero_take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "clone.default", zero->dtype,
                                 zero->partition_numel);
    if (zero->dtype != MPL_FLOAT32)
        mpl_rebind(tape, &zero->master,
                   mpl_return(mpl_zero_take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "_to_copy.default",
                                            MPL_FLOAT32, zero->partition_numel)));
    mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_GRADIENTS, "zeros.default", MPL_FLOAT32,
                                 zero->partition_numel));
}

/* The same on the host; on the device room for the largest gradient, shape [elements of it]. */
static void make_host_master(struct mpl_tape *tape, struct mpl_zero *zero)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < zero->count; i++)
        if (zero->members[i].numel > largest)
            largest = zero->members[i].numel;
    mpl_drop(tape, mpl_zero_take(tape, MPL_CATEGORY_TEMPORARY, "clone.default", zero->dtype,
                                 zero->partition_numel));
    zero->offload =
        mpl_zero_take(tape, MPL_CATEGORY_COMMUNICATION, "zeros.default", zero->dtype, largest);
}

static void gradient_came(struct mpl_tape *tape, struct mpl_tensor *leaf);

/* module.bfloat16(): adapters and other weights in float32 get the format of the rest, one after
 * the other; source: deepspeed/runtime/engine.py (_configure_distributed_model) */
static void unify(struct mpl_tape *tape, struct mpl_network *network, enum mpl_dtype dtype)
{
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *p = &network->parameters[i];
        struct mpl_tensor *cast;

        if (p->is_buffer || p->quantized || p->dtype == dtype || tape->is_stopped)
            continue;
        tape->category = MPL_CATEGORY_PARAMETERS;
        cast = mpl_hold(mpl_empty(tape, "_to_copy.default", dtype, &p->shape));
        tape->category = MPL_CATEGORY_TEMPORARY;
        cast->requires_grad = p->is_trainable;
        mpl_drop(tape, p->tensor);
        p->tensor = cast;
        p->dtype = dtype;
    }
}

static void construct(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_zero *zero = network->wrapped;

    unify(tape, network, zero->dtype);
    zero->flat =
        mpl_zero_take(tape, MPL_CATEGORY_PARAMETERS, "cat.default", zero->dtype, zero->numel);
    for (uint32_t i = 0; i < zero->count && !tape->is_stopped; i++) {
        struct mpl_tensor *leaf = zero->members[i].parameter->tensor;

        mpl_set_data(tape, leaf, zero->flat);
        leaf->grad_hook = gradient_came;
        leaf->grad_hook_context = &zero->members[i];
    }
    if (zero->offloads)
        make_host_master(tape, zero);
    else
        make_master(tape, zero);
    make_leaves(tape, zero);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* The gradients of the partition's parameters: those of this backward, or added to earlier ones. */
static void keep_own(struct mpl_zero *zero)
{
    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_zero_member *member = &zero->members[i];
        struct mpl_tensor *leaf = member->parameter->tensor;

        if (zero->offloads || !mpl_zero_owns(member) || !leaf->grad || member->averaged)
            continue;
        member->averaged = leaf->grad;
        leaf->grad = NULL;
    }
}

/* independent_gradient_partition_epilogue; stage 1 reduces here what stage 2 did on the way, and
 * only when the accumulation is over. */
static void finish_backward(struct mpl_tape *tape, void *context)
{
    struct mpl_zero *zero = context;
    const bool is_late = !zero->partitions_gradients && !zero->overlaps;

    zero->is_queued = false;
    if (!zero->partitions_gradients && !zero->is_boundary)
        return;
    for (uint32_t i = 0; i < zero->count && is_late; i++)
        if (zero->members[i].parameter->tensor->grad)
            mpl_zero_put(tape, &zero->members[i]);
    mpl_zero_flush(tape, zero);
    keep_own(zero);
    for (int b = 0; b < 2; b++) {
        mpl_drop(tape, zero->bucket.buffers[b]);
        zero->bucket.buffers[b] = NULL;
    }
    mpl_drop(tape, zero->own);
    zero->own = NULL;
    zero->is_ready = false;
    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_tensor *leaf = zero->members[i].parameter->tensor;

        mpl_drop(tape, leaf->grad);
        leaf->grad = NULL;
    }
}

/* process_gradients: the first gradient of a backward makes the bucket's memory. */
static void gradient_came(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_zero_member *member = leaf->grad_hook_context;
    struct mpl_zero *zero = member->zero;

    if (tape->is_stopped)
        return;
    if (!zero->is_queued) {
        zero->is_queued = true;
        mpl_queue_callback(tape, finish_backward, zero);
    }
    for (int b = 0; b < (zero->overlaps ? 2 : 1) && !zero->is_ready; b++)
        zero->bucket.buffers[b] =
            mpl_zero_take(tape, MPL_CATEGORY_COMMUNICATION, "empty.memory_format", zero->dtype,
                          zero->bucket_numel);
    zero->is_ready = true;
    if (zero->partitions_gradients || zero->overlaps)
        mpl_zero_put(tape, member);
}

/* ---- the step ---------------------------------------------------------------------------------
 */

/* Gradients of both groups are views of one buffer (copy_grads_in_partition): those of the second
 * hold it while the first is stepped. NULL: there is no such group, or buffer. */
static struct mpl_tensor *hold_second_group(const struct mpl_zero *zero)
{
    struct mpl_tensor *held = NULL;
    bool has_second = false;

    if (!zero->network->plan->parallelism.decay_groups || !zero->partitions_gradients)
        return NULL;
    for (uint32_t i = 0; i < zero->count; i++) {
        has_second |= zero->members[i].parameter->shape.ndim < 2;
        if (!held)
            held = zero->members[i].averaged;
    }
    return has_second && held ? mpl_hold(held) : NULL;
}

static void step(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    struct mpl_zero *zero = network->wrapped;
    struct mpl_tensor *waiting = hold_second_group(zero);

    mpl_zero_prepare_step(tape, zero);
    mpl_optim_step(tape, optim);
    mpl_optim_zero_grad(tape, optim, true);
    mpl_drop(tape, waiting);
}

static struct mpl_tensor *divide(struct mpl_tape *tape, struct mpl_tensor *grad)
{
    struct mpl_tensor *divided =
        mpl_hold(mpl_empty_like(tape, "div.Tensor", (enum mpl_dtype)grad->dtype, grad, NULL));

    mpl_drop(tape, grad);
    return divided;
}

void mpl_zero_watch_output(struct mpl_tape *tape, const struct mpl_network *network,
                           struct mpl_tensor *output)
{
    if (!mpl_version_at_least(&network->plan->deepspeed, 0, 19, 6))
        mpl_add_grad_hook(tape, output, divide);
}

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    const struct mpl_zero *zero = wrapper;

    for (int i = 0; i < count; i++)
        if (outputs[i])
            mpl_zero_watch_output(tape, zero->network, outputs[i]);
}

static const struct mpl_hooks zero_hooks = {
    .cast_input = mpl_hook_pass, .pre_forward = mpl_hook_pass, .post_forward = post_forward};

struct mpl_tensor *mpl_zero_scale_loss(struct mpl_tape *tape, struct mpl_tensor *loss)
{
    return mpl_hold(mpl_op_div_scalar(tape, loss));
}

static void set_boundary(struct mpl_network *network, bool is_last)
{
    struct mpl_zero *zero = network->wrapped;

    zero->is_boundary = is_last;
}

/* The flat buffer of what trains, and the frozen weights as they are. */
static uint64_t parameter_bytes(const struct mpl_network *network)
{
    const struct mpl_zero *zero = network->wrapped;
    uint64_t sum = mpl_round_up(mpl_dtype_bytes(zero->dtype, zero->numel), 512);

    for (uint32_t i = 0; i < network->parameter_count; i++) {
        const struct mpl_parameter *p = &network->parameters[i];

        if (!p->is_buffer && !p->is_trainable)
            sum = mpl_add(
                sum, p->quantized
                         ? mpl_quantized_bytes(p->quantized)
                         : mpl_round_up(mpl_dtype_bytes(p->dtype, mpl_parameter_numel(p)), 512));
    }
    return sum;
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static const struct mpl_wrapper zero_wrapper = {.construct = construct,
                                                .set_boundary = set_boundary,
                                                .scale_loss = mpl_zero_scale_loss,
                                                .step = step,
                                                .parameter_bytes = parameter_bytes};

/* Members one after another; the end is padded to a multiple of two elements a rank. */
static enum memplan_status lay_out(struct mpl_zero *zero, struct memplan_error *err)
{
    struct mpl_network *network = zero->network;
    const struct mpl_parallelism *p = &network->plan->parallelism;

    zero->dtype = network->plan->training.parameter_dtype;
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *parameter = &network->parameters[i];

        if (parameter->is_buffer || !parameter->is_trainable)
            continue;
        zero->members[zero->count++] = (struct mpl_zero_member){
            zero, parameter, zero->numel, mpl_parameter_numel(parameter), NULL};
        zero->numel = mpl_add(zero->numel, mpl_parameter_numel(parameter));
    }
    if (!zero->count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/frozen",
                        "training.frozen: found no trained weight, which DeepSpeed refuses");
    zero->numel = mpl_round_up(zero->numel, mpl_mul(ALIGNMENT, (uint64_t)p->world_size));
    zero->partition_numel = zero->numel / (uint64_t)p->world_size;
    zero->low = mpl_mul(zero->partition_numel, p->rank > 0 ? (uint64_t)p->rank : 0);
    zero->high = mpl_add(zero->low, zero->partition_numel);
    return MEMPLAN_OK;
}

enum memplan_status mpl_zero_wrap(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;
    const size_t room = network->parameter_count + 1;
    struct mpl_zero *zero = mpl_arena_zalloc(network->arena, sizeof(*zero));

    if (zero) {
        zero->members = mpl_arena_zalloc(network->arena, room * sizeof(*zero->members));
        zero->bucket.members =
            mpl_arena_zalloc(network->arena, room * sizeof(*zero->bucket.members));
    }
    if (!zero || !zero->members || !zero->bucket.members)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while wrapping the model");
    zero->network = network;
    zero->partitions_gradients = p->strategy == MPL_STRATEGY_ZERO2;
    zero->overlaps = p->overlap_comm == MPL_TRUE;
    zero->offloads = p->offload_optimizer == MPL_OFFLOAD_CPU;
    zero->bucket_numel = (uint64_t)p->reduce_bucket_size;
    zero->is_boundary = true;
    network->modules->hooks = &zero_hooks;
    network->modules->wrapper = zero;
    network->wrapper = &zero_wrapper;
    network->wrapped = zero;
    return lay_out(zero, err);
}

/* A rank keeps the gradients of the members that its partition touches as wholes. */
void mpl_zero_sign(const struct mpl_network *network, struct mpl_rank_signs *signs)
{
    const struct mpl_zero *zero = network->wrapped;

    for (uint32_t i = 0; i < zero->count; i++) {
        const struct mpl_zero_member *m = &zero->members[i];
        const uint64_t last = mpl_sub(mpl_add(m->start, m->numel), 1) / zero->partition_numel;

        for (uint64_t s = m->start / zero->partition_numel; s <= last && s < signs->shards; s++) {
            const uint64_t low = mpl_mul(s, zero->partition_numel);

            mpl_rank_sign(signs, s, mpl_dtype_bytes(zero->dtype, m->numel),
                          m->start > low ? m->start - low : 0);
        }
    }
}
