/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: which weights a module owns, and how a model is made under
 * deepspeed.zero.Init().
 *
 * source: deepspeed/runtime/zero/partition_parameters.py (Init, _partition_param),
 * parameter_offload.py (mark_persistent_parameters), stage3.py (_create_fp16_sub_groups)
 */
#include "parallel/zero3.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fail.h"
#include "parallel/zero.h"
#include "spec/plan.h"

/* ---- making the model -------------------------------------------------------------------------
 */

/* This rank's partition is copied, and the whole goes: shape [partition], which with offload_param
 * lies on the host. */
static void partition(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                      struct mpl_zero3_weight *weight)
{
    if (!zero->offloads_weights)
        weight->made =
            mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                          mpl_zero3_dtype(weight), weight->partition);
    mpl_zero3_give_up(tape, weight);
}

/* A weight is made whole; adapters stay so until the engine is made. */
static void make_weight(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                        struct mpl_zero3_weight *weight)
{
    struct mpl_parameter *p = weight->parameter;

    tape->category = MPL_CATEGORY_PARAMETERS;
    p->tensor = mpl_hold(mpl_empty(tape, "empty.memory_format", p->dtype, &p->shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    if (!p->tensor->is_void)
        p->tensor->requires_grad = weight->is_trained;
    if (!p->is_adapter)
        partition(tape, zero, weight);
}

/* A head's own weight goes again when the head is tied to the embedding. */
static void make_tied_head(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                           const struct mpl_zero3_weight *weight)
{
    struct mpl_tensor *whole =
        mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                      mpl_zero3_dtype(weight), weight->numel);
    struct mpl_tensor *partition = NULL;

    if (!zero->offloads_weights)
        partition =
            mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS, "empty.memory_format",
                          mpl_zero3_dtype(weight), weight->partition);
    mpl_drop(tape, whole);
    mpl_drop(tape, partition);
}

static void materialize(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_zero3 *zero = network->wrapped;
    uint32_t next = 0;

    for (int f = 0; f < MPL_ZERO3_FORMATS; f++)
        zero->empty[f] = mpl_take_flat(tape, MPL_STREAM_DEFAULT, MPL_CATEGORY_PARAMETERS,
                                       "empty.memory_format", zero->dtypes[f], 0);
    for (uint32_t i = 0; i < network->parameter_count && !tape->is_stopped; i++)
        if (network->parameters[i].is_buffer)
            mpl_network_materialize_one(tape, network, i);
        else if (!zero->weights[next++].parameter->is_adapter)
            make_weight(tape, zero, &zero->weights[next - 1]);
    for (uint32_t i = 0; i < zero->count; i++)
        if (zero->weights[i].parameter->is_tied)
            make_tied_head(tape, zero, &zero->weights[i]);
    for (uint32_t i = 0; i < zero->count && !tape->is_stopped; i++)
        if (zero->weights[i].parameter->is_adapter)
            make_weight(tape, zero, &zero->weights[i]);
}

static void construct(struct mpl_tape *tape, struct mpl_network *network)
{
    struct mpl_zero3 *zero = network->wrapped;

    for (uint32_t i = 0; i < zero->count; i++) /* _convert_to_zero_parameters */
        if (zero->weights[i].parameter->is_adapter)
            partition(tape, zero, &zero->weights[i]);
    mpl_zero3_make_optimizer(tape, zero);
    tape->scopes = &mpl_zero3_scopes;
    tape->scopes_wrapper = network->wrapped;
}

/* ---- around the model -------------------------------------------------------------------------
 */

/* The model; with adapters PeftModel and LoraModel around it. */
static int modules_at_root(const struct mpl_zero3 *zero)
{
    return zero->network->plan->training.lora.r ? 3 : 1;
}

static uint64_t root_of(const struct mpl_zero3 *zero)
{
    return mpl_module_around(0, zero->network->parameter_count - 1);
}

static struct mpl_tensor *pre_forward(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input)
{
    const struct mpl_zero3 *zero = wrapper;

    if (!tape->is_stopped)
        mpl_zero3_reset_step(tape, wrapper);
    for (int i = 0; i < modules_at_root(zero); i++)
        mpl_scope_enter(tape, root_of(zero), NULL);
    return input;
}

static void post_forward(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count)
{
    (void)tape;
    (void)wrapper;
    (void)outputs;
    (void)count;
}

/* A weight that no module fetched was read where DeepSpeed would have had to gather it on the fly.
 */
static void check_owners(struct mpl_tape *tape, const struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->count && zero->mode == MPL_ZERO3_RECORD; i++)
        if (zero->weights[i].status == MPL_ZERO3_PARTITIONED && !zero->weights[i].was_fetched)
            mpl_tape_fail(tape, MEMPLAN_ERR_UNSUPPORTED,
                          "parallelism.strategy: zero3 with weights that no module reads alone is "
                          "not modelled");
}

/* The engine's hooks come on top of the root's. */
static void replace_outputs(struct mpl_tape *tape, void *wrapper, struct mpl_tensor **outputs,
                            int count)
{
    const struct mpl_zero3 *zero = wrapper;

    if (tape->is_stopped)
        return;
    check_owners(tape, zero);
    for (int i = 0; i < count; i++) {
        struct mpl_tensor *old;

        if (!outputs[i])
            continue;
        for (int k = 0; k < modules_at_root(zero); k++) {
            old = outputs[i];
            outputs[i] = mpl_hold(mpl_scope_leave(tape, root_of(zero), old));
            mpl_drop(tape, old);
        }
        mpl_zero_watch_output(tape, zero->network, outputs[i]);
    }
}

static const struct mpl_hooks zero3_hooks = {.cast_input = mpl_hook_pass,
                                             .pre_forward = pre_forward,
                                             .post_forward = post_forward,
                                             .replace_outputs = replace_outputs};

static void set_boundary(struct mpl_network *network, bool is_last)
{
    struct mpl_zero3 *zero = network->wrapped;

    zero->is_boundary = is_last;
}

/* Bytes of this rank's partitions: one buffer for what trains, and frozen ones one by one. */
static uint64_t parameter_bytes(const struct mpl_network *network)
{
    const struct mpl_zero3 *zero = network->wrapped;
    uint64_t numel = 0, frozen = 0;

    for (uint32_t i = 0; i < zero->count && !zero->offloads_weights; i++) {
        const struct mpl_zero3_weight *weight = &zero->weights[i];

        if (weight->is_trained)
            numel = mpl_add(numel, weight->partition);
        else
            frozen = mpl_add(
                frozen,
                mpl_round_up(mpl_dtype_bytes(mpl_zero3_dtype(weight), weight->partition), 512));
    }
    return mpl_add(frozen, mpl_round_up(mpl_dtype_bytes(zero->trained_dtype, numel), 512));
}

static const struct mpl_wrapper zero3_wrapper = {.materialize = materialize,
                                                 .construct = construct,
                                                 .set_boundary = set_boundary,
                                                 .scale_loss = mpl_zero_scale_loss,
                                                 .step = mpl_zero3_step,
                                                 .save = mpl_zero3_save,
                                                 .resume = mpl_zero3_resume,
                                                 .parameter_bytes = parameter_bytes};

/* ---- set-up -----------------------------------------------------------------------------------
 */

/* mark_persistent_parameters */
static void find_persistent(struct mpl_zero3 *zero)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < zero->count; i++) {
        struct mpl_zero3_weight *weight = &zero->weights[i];

        weight->persists =
            mpl_add(weight->numel, sum) <= (uint64_t)p->stage3_model_persistence_threshold &&
            weight->numel <= (uint64_t)p->stage3_param_persistence_threshold;
        sum += weight->persists ? weight->numel : 0;
    }
}

/* Of the optimizer's groups: 1 is that of norms and biases, where it has one. */
static bool is_in_group(const struct mpl_zero3_weight *weight, int group)
{
    const bool has_groups = weight->zero->network->plan->parallelism.decay_groups;

    return (has_groups && weight->parameter->shape.ndim < 2) == (group == 1);
}

/* _create_fp16_sub_groups: each is closed behind the partition with which it is full, or at the end
 * of a group. */
static void find_sub_groups(struct mpl_zero3 *zero)
{
    const uint64_t most = (uint64_t)zero->network->plan->parallelism.sub_group_size;
    uint64_t numel = 0;

    zero->sub_group_count = 1;
    for (uint32_t i = 0; i < zero->trained_count; i++) {
        if (i && (numel >= most ||
                  is_in_group(zero->trained[i], 1) != is_in_group(zero->trained[i - 1], 1))) {
            zero->sub_group_count++;
            numel = 0;
        }
        zero->trained[i]->sub_group = zero->sub_group_count - 1;
        numel = mpl_add(numel, zero->trained[i]->partition);
    }
}

/* The optimizer's: all in one format, which one flat buffer needs. */
static enum memplan_status find_trained(struct mpl_zero3 *zero, struct memplan_error *err)
{
    uint32_t order = 0;

    for (int adapters = 0; adapters < 2; adapters++)
        for (uint32_t i = 0; i < zero->count; i++)
            if (zero->weights[i].parameter->is_adapter == (adapters == 1))
                zero->weights[i].order = order++;
    for (uint32_t k = 0; k < 2 * zero->count;
         k++) { /* one group of the optimizer, then the other */
        struct mpl_zero3_weight *weight = &zero->weights[k % zero->count];

        if (!weight->is_trained || !is_in_group(weight, k >= zero->count))
            continue;
        if (zero->trained_count && mpl_zero3_dtype(weight) != zero->trained_dtype)
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/lora/adapter_dtype",
                            "training.lora.adapter_dtype: zero3 keeps what trains in one buffer of "
                            "one format; \"%s\" has another",
                            weight->parameter->name);
        zero->trained_dtype = mpl_zero3_dtype(weight);
        zero->trained[zero->trained_count++] = weight;
    }
    if (!zero->trained_count)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, "/training/frozen",
                        "training.frozen: found no trained weight, which DeepSpeed refuses");
    return MEMPLAN_OK;
}

static enum memplan_status find_weights(struct mpl_zero3 *zero, struct memplan_error *err)
{
    const struct mpl_network *network = zero->network;

    zero->dtypes[0] = network->plan->training.parameter_dtype;
    zero->dtypes[1] = MPL_FLOAT32;
    for (uint32_t i = 0; i < network->parameter_count; i++) {
        struct mpl_parameter *parameter = &network->parameters[i];
        const uint64_t numel = mpl_parameter_numel(parameter);

        if (parameter->is_buffer)
            continue;
        if (parameter->dtype != zero->dtypes[0] && parameter->dtype != zero->dtypes[1])
            return mpl_fail(err, MEMPLAN_ERR_UNSUPPORTED, "/training/parameter_dtype",
                            "parallelism.strategy: zero3 with \"%s\" in a format of its own is not "
                            "modelled",
                            parameter->name);
        zero->weights[zero->count++] =
            (struct mpl_zero3_weight){.zero = zero,
                                      .parameter = parameter,
                                      .numel = numel,
                                      .partition = mpl_ceil_div(numel, zero->ranks),
                                      .format = parameter->dtype != zero->dtypes[0],
                                      .is_trained = parameter->is_trainable,
                                      .fetched_for = -1};
    }
    return find_trained(zero, err);
}

/* A gradient and its cast, and what pads the chunks of ranks beyond its end. */
static uint64_t most_locals(const struct mpl_zero3 *zero)
{
    uint64_t most = 2 * (uint64_t)zero->count + 1;

    for (uint32_t i = 0; i < zero->count; i++)
        most = mpl_add(most, zero->ranks - zero->weights[i].numel / zero->weights[i].partition);
    return most;
}

static bool make_room(struct mpl_zero3 *zero, struct mpl_arena *arena)
{
    const size_t room = zero->network->parameter_count + 1;

    zero->module_count = 2 * (uint32_t)room;
    zero->weights = mpl_arena_zalloc(arena, room * sizeof(*zero->weights));
    zero->list = mpl_arena_zalloc(arena, room * sizeof(*zero->list));
    zero->trained = mpl_arena_zalloc(arena, room * sizeof(*zero->trained));
    zero->masters = mpl_arena_zalloc(arena, room * sizeof(*zero->masters));
    zero->bucket_weights = mpl_arena_zalloc(arena, room * sizeof(*zero->bucket_weights));
    zero->modules = mpl_arena_zalloc(arena, zero->module_count * sizeof(*zero->modules));
    zero->numel_before = mpl_arena_zalloc(arena, room * sizeof(*zero->numel_before));
    return zero->weights && zero->list && zero->trained && zero->masters && zero->bucket_weights &&
           zero->modules;
}

static void read_plan(struct mpl_zero3 *zero)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;

    zero->ranks = (uint64_t)p->world_size;
    zero->rank = p->rank > 0 ? (uint64_t)p->rank : 0;
    zero->overlaps = p->overlap_comm != MPL_FALSE;
    zero->gather_stream = zero->overlaps ? MPL_STREAM_ALL_GATHER : MPL_STREAM_DEFAULT;
    zero->reduce_stream = zero->overlaps ? MPL_STREAM_REDUCE_SCATTER : MPL_STREAM_DEFAULT;
    zero->is_contiguous = p->contiguous_gradients;
    zero->offloads_states = p->offload_optimizer != MPL_OFFLOAD_NONE;
    zero->swaps_states = p->offload_optimizer == MPL_OFFLOAD_NVME;
    zero->offloads_weights = p->offload_param != MPL_OFFLOAD_NONE;
    zero->swaps_weights = p->offload_param == MPL_OFFLOAD_NVME;
    zero->is_boundary = true;
}

enum memplan_status mpl_zero3_wrap(struct mpl_network *network, struct memplan_error *err)
{
    const struct mpl_parallelism *p = &network->plan->parallelism;
    struct mpl_zero3 *zero = mpl_arena_zalloc(network->arena, sizeof(*zero));
    enum memplan_status status;
    uint64_t locals;

    if (zero)
        zero->network = network;
    if (!zero || !make_room(zero, network->arena))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while wrapping the model");
    read_plan(zero);
    if ((status = find_weights(zero, err)))
        return status;
    zero->sent_dtype =
        p->communication_data_type != MPL_DTYPE_NONE ? p->communication_data_type : zero->dtypes[0];
    zero->kept_dtype =
        p->grad_accum_dtype != MPL_DTYPE_NONE ? p->grad_accum_dtype : zero->dtypes[0];
    if (!mpl_zero3_find_modules(zero, network->arena))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while wrapping the model");
    find_persistent(zero);
    find_sub_groups(zero);
    if ((status = mpl_zero3_find_swapped(zero, err)))
        return status;
    locals = most_locals(zero);
    if (locals > MPL_TAPE_MAX_REQUESTS)
        return mpl_fail(err, MEMPLAN_ERR_LIMIT, "/parallelism/world_size", MPL_TAPE_LIMIT_TEXT);
    zero->locals = mpl_arena_zalloc(network->arena, (size_t)locals * sizeof(*zero->locals));
    if (!zero->locals)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while wrapping the model");
    network->modules->hooks = &zero3_hooks;
    network->modules->wrapper = zero;
    network->wrapper = &zero3_wrapper;
    network->wrapped = zero;
    return MEMPLAN_OK;
}
