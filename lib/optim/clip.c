/* SPDX-License-Identifier: MIT */
/*
 * Clipping by the norm of all gradients: one scalar for each tensor, their stack, a coefficient.
 * Gradients are scaled in place.
 *
 * source: torch/nn/utils/clip_grad.py (_get_total_norm, _clip_grads_with_norm_)
 */
#include "op/scratch_book.h"
#include "optim/optim.h"

static bool is_sharded(const struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++)
        if (optim->parameters[i]->shards > 1) /* one shard is the whole */
            return true;
    return false;
}

/* Norms [count] of shards become norms of whole tensors: the sum over the ranks of their squares.
 * source: torch/distributed/tensor/_ops/_math_ops.py (_NormPartial) */
static struct mpl_tensor *reduce_norms(struct mpl_tape *tape, enum mpl_dtype dtype,
                                       const struct mpl_shape *shape)
{
    struct mpl_tensor *squares = mpl_hold(mpl_empty(tape, "pow.Tensor_Scalar", dtype, shape));
    struct mpl_tensor *sums = mpl_hold(mpl_empty(tape, "all_reduce.default", dtype, shape));
    struct mpl_tensor *norms = mpl_empty(tape, "pow.Tensor_Scalar", dtype, shape);

    mpl_drop(tape, squares);
    mpl_drop(tape, sums);
    return norms;
}

/* Partial sums of _foreach_norm over the gradients, all of one dtype; held, NULL off a card. */
static struct mpl_tensor *norm_buffer(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    enum mpl_dtype dtype = MPL_FLOAT32;
    int64_t tensors = 0, largest = 0;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        const int64_t numel = leaf ? mpl_numel(leaf->grad) : 0;

        tensors += leaf != NULL;
        largest = numel > largest ? numel : largest;
        if (leaf)
            dtype = (enum mpl_dtype)leaf->grad->dtype;
    }
    if (!tape->has_kernel_scratch || !tensors)
        return NULL;
    return mpl_book_buffer(tape, "_foreach_norm.Scalar",
                           mpl_scratch_foreach_norm(tensors, largest, dtype), MPL_CONSTANT);
}

/* total_norm; held */
static struct mpl_tensor *total_norm(struct mpl_tape *tape, struct mpl_optim *optim,
                                     struct mpl_tensor **norms)
{
    enum mpl_dtype dtype = MPL_FLOAT32;
    struct mpl_tensor *stack, *total, *buffer, *whole = NULL;
    struct mpl_shape shape;
    int64_t count = 0;

    buffer = norm_buffer(tape, optim);
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        norms[i] = NULL;
        if (!leaf)
            continue;
        dtype = (enum mpl_dtype)leaf->grad->dtype;
        norms[i] = mpl_hold_scalar(tape, "_foreach_norm.Scalar", dtype);
        count++;
    }
    mpl_drop(tape, buffer);
    shape = mpl_shape1(mpl_dim(count));
    stack = mpl_hold(mpl_empty(tape, "stack.default", dtype, &shape));
    if (is_sharded(optim))
        whole = mpl_hold(reduce_norms(tape, dtype, &shape));
    total = mpl_hold_scalar(tape, "linalg_vector_norm.default", dtype);
    mpl_drop(tape, whole);
    mpl_drop(tape, stack);
    mpl_optim_drop_list(tape, optim, norms);
    return total;
}

void mpl_clip_grad_norm(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor **norms, *total, *sum, *inverse, *product, *clamped;
    enum mpl_dtype dtype;

    norms = mpl_arena_alloc(&tape->arena, (optim->count + 1) * sizeof(*norms));
    if (!norms) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    total = total_norm(tape, optim, norms);
    dtype = (enum mpl_dtype)total->dtype;
    sum = mpl_hold_scalar(tape, "add.Tensor", dtype);
    inverse = mpl_hold_scalar(tape, "reciprocal.default", dtype);
    product = mpl_hold_scalar(tape, "mul.Tensor", dtype);
    mpl_drop(tape, inverse);
    mpl_drop(tape, sum);
    clamped = mpl_hold_scalar(tape, "clamp.default", dtype);
    mpl_drop(tape, product);
    mpl_drop(tape, clamped);
    mpl_drop(tape, total);
}
