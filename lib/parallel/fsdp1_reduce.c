/* SPDX-License-Identifier: MIT */
/*
 * FSDP1: what happens to a flat gradient after a unit's backward, and to its reduced part until the
 * next forward.
 *
 * source: torch/distributed/fsdp/_runtime_utils.py (_post_backward_hook, _reduce_grad,
 * _reduce_grad_no_shard, _accumulate_sharded_grad, _finalize_params), _flat_param.py
 * (prepare_gradient_for_backward, _use_sharded_grad_views, _reset_flat_param_grad_info_if_needed)
 */
#include "base/bytes.h"
#include "parallel/fsdp1_unit.h"

#define SIDE MPL_STREAM_POST_BACKWARD

/* The gradient in another format, when it has another one; held. */
static struct mpl_tensor *cast(struct mpl_tape *tape, enum mpl_stream stream,
                               struct mpl_tensor *gradient, enum mpl_dtype dtype)
{
    if (gradient->is_void || gradient->dtype == dtype)
        return mpl_hold(gradient);
    return mpl_take_flat(tape, stream, MPL_CATEGORY_COMMUNICATION, "_to_copy.default", dtype,
                         (uint64_t)mpl_numel(gradient));
}

static void mark_gradient(struct mpl_tape *tape, const struct mpl_tensor *gradient)
{
    if (!gradient->is_void && gradient->storage->bytes)
        tape->timeline->requests.data[gradient->storage->request].category = MPL_CATEGORY_GRADIENTS;
}

/* reduce-scatter of whole [numel], padded to a multiple of the ranks, into [numel / ranks]; then
 * the all-reduce between replicas works in place. */
static void reduce_scatter(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit,
                           struct mpl_tensor *whole)
{
    const struct mpl_fsdp1 *fsdp = unit->fsdp;
    const uint64_t padded_numel = mpl_mul(unit->shard_numel, fsdp->shards);
    struct mpl_tensor *padded = mpl_hold(whole), *output, *result;

    if (padded_numel != unit->numel) {
        mpl_drop(tape, padded);
        padded = mpl_take_flat(tape, SIDE, MPL_CATEGORY_COMMUNICATION, "constant_pad_nd.default",
                               unit->reduce_dtype, padded_numel);
    }
    output = mpl_take_flat(tape, SIDE, MPL_CATEGORY_COMMUNICATION, "empty_like.default",
                           unit->reduce_dtype, unit->shard_numel);
    result = cast(tape, fsdp->is_replicated ? MPL_STREAM_ALL_REDUCE : SIDE, output, unit->dtype);
    mpl_drop(tape, output);
    if (unit->saved) { /* added in place */
        mpl_drop(tape, result);
    } else {
        unit->saved = result;
        mark_gradient(tape, result);
    }
    mpl_drop(tape, padded);
}

void mpl_fsdp1_reduce(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_tensor *computed = unit->leaf->grad, *whole;

    unit->leaf->grad = NULL;
    whole = cast(tape, SIDE, computed, unit->reduce_dtype);
    if (unit->fsdp->shards > 1) {
        reduce_scatter(tape, unit, whole);
    } else {
        unit->saved = cast(tape, SIDE, whole, unit->dtype);
        mark_gradient(tape, unit->saved);
    }
    mpl_drop(tape, whole);
    mpl_drop(tape, computed);
}

/* ---- between backward and the next one --------------------------------------------------------
 */

/* Without use_orig_params the first parameter's leaf stands for the flat one. */
static struct mpl_tensor **holder_of(struct mpl_fsdp1_unit *unit)
{
    return unit->fsdp->uses_originals ? &unit->gradient : &unit->pieces[0].parameter->shard->grad;
}

void mpl_fsdp1_take_back_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    struct mpl_tensor **holder = holder_of(unit);

    if (!*holder || tape->is_stopped)
        return;
    if (unit->fsdp->shards > 1) {
        unit->saved = *holder;
        *holder = NULL;
    } else if (!unit->leaf->grad) {
        unit->leaf->grad = *holder;
        *holder = NULL;
    }
}

void mpl_fsdp1_hand_out_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    if (!unit->saved || tape->is_stopped)
        return;
    if (unit->fsdp->offloads) { /* the host has a copy */
        mpl_drop(tape, unit->saved);
        unit->saved = NULL;
        return;
    }
    *holder_of(unit) = unit->saved;
    for (uint32_t i = 0; i < unit->count && unit->fsdp->uses_originals; i++) {
        struct mpl_parameter *p = unit->pieces[i].parameter;

        if (!p || !p->is_trainable || !mpl_numel(p->shard))
            continue;
        mpl_drop(tape, p->shard->grad);
        p->shard->grad = mpl_hold(mpl_alias_shaped(tape, unit->saved, &p->shard->shape));
        if (p->shard->grad->is_void)
            p->shard->grad = NULL;
    }
    unit->saved = NULL;
}

void mpl_fsdp1_reset_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit)
{
    for (uint32_t i = 0; i < unit->count; i++)
        if (unit->pieces[i].parameter && unit->pieces[i].parameter->shard->grad)
            return;
    mpl_drop(tape, unit->gradient);
    unit->gradient = NULL;
}
