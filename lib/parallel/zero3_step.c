/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: the constructor of its optimizer, and a step, one sub-group of weights
 * after the other.
 *
 * source: deepspeed/runtime/zero/stage3.py (_create_fp16_partitions_with_defragmentation,
 * _create_fp32_partitions, initialize_optimizer_states, _setup_for_real_optimizer,
 * create_reduce_and_remove_grad_hooks, has_overflow, get_grad_norm_direct,
 * _prepare_fp32_grad_for_sub_group, _post_step, step), utils.py (defragment)
 */
#include "base/bytes.h"
#include "optim/optim.h"
#include "parallel/zero3.h"

static struct mpl_tensor *take(struct mpl_tape *tape, enum mpl_category category, const char *op,
                               enum mpl_dtype dtype, uint64_t numel)
{
    return mpl_take_flat(tape, MPL_STREAM_DEFAULT, category, op, dtype, numel);
}

uint64_t mpl_zero3_numel_of(const struct mpl_zero3 *zero, uint32_t sub_group, uint32_t *weights)
{
    uint64_t numel = 0;

    *weights = 0;
    for (uint32_t i = 0; i < zero->trained_count; i++)
        if (zero->trained[i]->sub_group == sub_group) {
            numel = mpl_add(numel, zero->trained[i]->partition);
            ++*weights;
        }
    return numel;
}

static uint64_t all_partitions(const struct mpl_zero3 *zero)
{
    uint64_t numel = 0;

    for (uint32_t i = 0; i < zero->trained_count; i++)
        numel = mpl_add(numel, zero->trained[i]->partition);
    return numel;
}

/* ---- the constructor --------------------------------------------------------------------------
 */

/* defragment(): partitions go through the host into one flat tensor [all partitions]. */
static void flatten(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    if (zero->offloads_weights)
        return;
    for (uint32_t i = 0; i < zero->trained_count; i++) {
        mpl_drop(tape, zero->trained[i]->made);
        zero->trained[i]->made = NULL;
    }
    mpl_tape_empty_cache(tape);
    zero->flat = take(tape, MPL_CATEGORY_PARAMETERS, "_to_copy.default", zero->trained_dtype,
                      all_partitions(zero));
}

/* Float32 copies of sub-groups, each cloned once more. Those for the host are cast on the card. */
static void make_masters(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    const bool is_cast = zero->trained_dtype != MPL_FLOAT32;
    struct mpl_tensor *converted = NULL;
    uint32_t weights;

    for (uint32_t i = 0; i < zero->sub_group_count; i++) {
        const uint64_t numel = mpl_zero3_numel_of(zero, i, &weights);

        if (zero->offloads_states) {
            if (zero->flat && is_cast)
                mpl_drop(tape, take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", MPL_FLOAT32,
                                    numel));
            continue;
        }
        if (!mpl_zero3_has_flat(zero, i)) { /* _swap_in_sub_group_to_flat_buffer */
            zero->masters[i] =
                take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "empty.memory_format", MPL_FLOAT32, numel);
            continue;
        }
        if (is_cast || !zero->flat)
            mpl_rebind(tape, &converted,
                       mpl_return(take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "_to_copy.default",
                                       MPL_FLOAT32, numel)));
        zero->masters[i] =
            take(tape, MPL_CATEGORY_OPTIMIZER_STATE, "clone.default", MPL_FLOAT32, numel);
    }
    mpl_drop(tape, converted);
}

/* The optimizer's parameters: the first leaf of a sub-group stands for all of it. */
static void make_leaves(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < zero->trained_count; i++) {
        struct mpl_zero3_weight *weight = zero->trained[i];
        const bool is_first = weight->sub_group == next;
        struct mpl_tensor *master = is_first ? zero->masters[next] : NULL;

        weight->parameter->shard = mpl_hold(master ? master : mpl_alias(tape, zero->empty[0]));
        if (!weight->parameter->shard->is_void)
            weight->parameter->shard->requires_grad = true;
        next += is_first;
    }
}

/* A gradient of zeros, as large as the largest sub-group, to no further end. */
static void make_first_gradient(struct mpl_tape *tape, const struct mpl_zero3 *zero)
{
    uint64_t largest = 0;
    uint32_t weights;

    if (zero->offloads_states)
        return;
    for (uint32_t i = 0; i < zero->sub_group_count; i++) {
        const uint64_t numel = mpl_zero3_numel_of(zero, i, &weights);

        largest = numel > largest ? numel : largest;
    }
    mpl_drop(tape, take(tape, MPL_CATEGORY_TEMPORARY, "zeros.default", MPL_FLOAT32, largest));
}

void mpl_zero3_make_optimizer(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    const struct mpl_parallelism *p = &zero->network->plan->parallelism;

    if (!zero->offloads_states)
        zero->tracker = take(tape, MPL_CATEGORY_TEMPORARY, "zeros.default", MPL_BOOL, 1);
    flatten(tape, zero);
    make_masters(tape, zero);
    make_first_gradient(tape, zero);
    if (zero->is_contiguous)
        zero->bucket = take(tape, MPL_CATEGORY_COMMUNICATION, "empty.memory_format",
                            zero->sent_dtype, (uint64_t)p->reduce_bucket_size);
    if (!zero->offloads_states)
        zero->kept = take(tape, MPL_CATEGORY_GRADIENTS, "zeros.default", zero->kept_dtype,
                          all_partitions(zero));
    make_leaves(tape, zero);
    for (uint32_t i = 0; i < zero->trained_count && !tape->is_stopped; i++) { /* to hang hooks on */
        struct mpl_zero3_weight *weight = zero->trained[i];

        mpl_zero3_gather_now(tape, zero, &weight, 1);
        mpl_zero3_give_up(tape, weight);
        if (!weight->owners[0] || !weight->owners[0]->is_leaf)
            weight->parameter->tensor->grad_hook = mpl_zero3_gradient_came;
        weight->parameter->tensor->grad_hook_context = weight;
    }
}

/* ---- the step ---------------------------------------------------------------------------------
 */

/* has_overflow, of float16: shape [all partitions]; absolute values, and a flag for each element */
static void check_overflow(struct mpl_tape *tape, const struct mpl_zero3 *zero)
{
    const uint64_t numel = all_partitions(zero);
    struct mpl_tensor *absolute, *flags;

    if (zero->trained_dtype != MPL_FLOAT16 || zero->offloads_states)
        return;
    absolute = mpl_take_flat(tape, zero->reduce_stream, MPL_CATEGORY_TEMPORARY, "abs.default",
                             zero->kept_dtype, numel);
    flags = mpl_take_flat(tape, zero->reduce_stream, MPL_CATEGORY_TEMPORARY, "eq.Scalar", MPL_BOOL,
                          numel);
    mpl_drop(tape, absolute);
    mpl_drop(tape, flags);
    mpl_drop(tape, mpl_take_flat(tape, zero->reduce_stream, MPL_CATEGORY_TEMPORARY, "ne.Tensor",
                                 MPL_BOOL, numel));
}

/* get_grad_norm_direct: each gradient in float64, and a list of one number each */
static void take_norms(struct mpl_tape *tape, struct mpl_zero3 *zero)
{
    for (uint32_t i = 0; i < zero->trained_count && !zero->offloads_states; i++) {
        struct mpl_tensor *wide = take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default",
                                       MPL_FLOAT64, zero->trained[i]->partition);

        zero->locals[i] =
            take(tape, MPL_CATEGORY_TEMPORARY, "linalg_vector_norm.default", MPL_FLOAT64, 1);
        mpl_drop(tape, wide);
    }
    for (uint32_t i = 0; i < zero->trained_count && !zero->offloads_states; i++)
        mpl_drop(tape, zero->locals[i]);
}

/* _prepare_fp32_grad_for_sub_group: shape [numel]; a single gradient in float32 is no copy. Held.
 */
static struct mpl_tensor *make_gradient(struct mpl_tape *tape, const struct mpl_zero3 *zero,
                                        uint32_t sub_group)
{
    uint32_t weights;
    const uint64_t numel = mpl_zero3_numel_of(zero, sub_group, &weights);
    const struct mpl_shape shape =
        mpl_shape1(mpl_dim(numel > INT64_MAX ? INT64_MAX : (int64_t)numel));
    struct mpl_tensor *flat;

    flat = weights > 1 ? take(tape, MPL_CATEGORY_GRADIENTS, "cat.default", zero->kept_dtype, numel)
                       : mpl_hold(mpl_alias_shaped(tape, zero->kept, &shape));
    if (zero->kept_dtype != MPL_FLOAT32)
        mpl_rebind(
            tape, &flat,
            mpl_return(take(tape, MPL_CATEGORY_GRADIENTS, "_to_copy.default", MPL_FLOAT32, numel)));
    return flat;
}

/* _reassign_or_swap_out_partitioned_parameters: cast on the card on their way to the host, all at
 * once, or without a flat buffer there one by one. Shape [numel] or [partition]. */
static void send_back(struct mpl_tape *tape, const struct mpl_zero3 *zero, uint32_t sub_group)
{
    const bool is_flat = mpl_zero3_has_flat(zero, sub_group);
    uint32_t weights;
    const uint64_t numel = mpl_zero3_numel_of(zero, sub_group, &weights);

    if (!zero->offloads_weights || zero->trained_dtype == MPL_FLOAT32)
        return;
    if (is_flat)
        mpl_drop(tape, take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default", zero->trained_dtype,
                            numel));
    for (uint32_t i = 0; i < zero->trained_count && !is_flat; i++)
        if (zero->trained[i]->sub_group == sub_group)
            mpl_drop(tape, take(tape, MPL_CATEGORY_TEMPORARY, "_to_copy.default",
                                zero->trained_dtype, zero->trained[i]->partition));
}

static void step_sub_group(struct mpl_tape *tape, struct mpl_zero3 *zero, uint32_t sub_group,
                           struct mpl_optim *optim)
{
    struct mpl_tensor *master = zero->masters[sub_group];

    for (uint32_t i = 0; i < zero->trained_count; i++) /* swap_in_optimizer_state reads them */
        if (zero->trained[i]->sub_group == sub_group) {
            mpl_drop(tape, zero->trained[i]->wide);
            zero->trained[i]->wide = NULL;
        }
    if (zero->offloads_states || !master || master->is_void)
        return;
    master->grad = make_gradient(tape, zero, sub_group);
    if (master->grad->is_void)
        master->grad = NULL;
    mpl_optim_step(tape, optim);
    send_back(tape, zero, sub_group);
    mpl_drop(tape, master->grad);
    master->grad = NULL;
}

void mpl_zero3_step(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim)
{
    struct mpl_zero3 *zero = network->wrapped;
    struct mpl_tensor *total;
    uint32_t count = 0;

    mpl_zero3_release_all(tape, zero);
    check_overflow(tape, zero);
    take_norms(tape, zero);
    total = take(tape, MPL_CATEGORY_TEMPORARY, "linalg_vector_norm.default", MPL_FLOAT64, 1);
    mpl_rebind(tape, &zero->norm,
               mpl_return(take(tape, MPL_CATEGORY_TEMPORARY, "div.Tensor", MPL_FLOAT64, 1)));
    for (uint32_t i = 0; i < zero->sub_group_count && !tape->is_stopped; i++)
        step_sub_group(tape, zero, i, optim);
    for (uint32_t i = 0; i < zero->trained_count; i++) { /* reset_cpu_buffers */
        mpl_drop(tape, zero->trained[i]->norm);
        zero->trained[i]->norm = NULL;
    }
    for (uint32_t i = 0; i < zero->count; i++)
        if (zero->weights[i].persists)
            zero->list[count++] = &zero->weights[i];
    mpl_zero3_gather_now(tape, zero, zero->list, count);
    mpl_drop(tape, total);
}
