/* SPDX-License-Identifier: MIT */
/*
 * Master weights: the optimizer updates float32 copies of the weights. A step makes float32
 * gradients of all of them, clips those, and copies the new weights back one after the other.
 *
 * source: SpecForge specforge/optimizer.py (BF16Optimizer.__init__, step), as of 0.1 and 0.2
 */
#include "base/bytes.h"
#include "base/fail.h"
#include "optim/optim.h"

enum memplan_status mpl_masters_init(struct mpl_optim *optim, struct mpl_arena *arena,
                                     struct memplan_error *err)
{
    const size_t count = optim->count + 1;

    optim->masters = mpl_arena_zalloc(arena, count * sizeof(*optim->masters));
    optim->models = mpl_arena_zalloc(arena, count * sizeof(*optim->models));
    if (!optim->masters || !optim->models)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while making the optimizer");
    for (uint32_t i = 0; i < optim->count; i++) {
        optim->models[i] = optim->parameters[i];
        optim->masters[i] = *optim->models[i];
        optim->masters[i].dtype = MPL_FLOAT32;
        optim->masters[i].shard = NULL;
        optim->parameters[i] = &optim->masters[i];
    }
    return MEMPLAN_OK;
}

/* A float32 copy of a tensor that is of another format; held. */
static struct mpl_tensor *widened(struct mpl_tape *tape, const struct mpl_tensor *tensor)
{
    return mpl_hold(mpl_empty(tape, "_to_copy.default", MPL_FLOAT32, &tensor->shape));
}

/* shape: of the parameter, float32; p.detach().clone().to(float32): the clone is the copy where
 * nothing is to be converted */
void mpl_masters_create(struct mpl_tape *tape, struct mpl_optim *optim)
{
    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);
        struct mpl_tensor *clone = mpl_hold(mpl_optim_like(tape, "clone.default", leaf));

        if (leaf->dtype == MPL_FLOAT32) {
            optim->masters[i].tensor = clone;
            continue;
        }
        optim->masters[i].tensor = widened(tape, leaf);
        mpl_drop(tape, clone);
    }
    tape->category = MPL_CATEGORY_TEMPORARY;
}

/* A float32 gradient is shared, not copied. */
void mpl_masters_begin(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);
        struct mpl_tensor *master = optim->masters[i].tensor;

        if (leaf->grad)
            master->grad = leaf->grad->dtype == MPL_FLOAT32 ? mpl_hold(mpl_alias(tape, leaf->grad))
                                                            : widened(tape, leaf->grad);
    }
}

/* p.data.copy_(master.to(p.dtype)), p.grad = None */
void mpl_masters_end(struct mpl_tape *tape, struct mpl_optim *optim)
{
    mpl_optim_zero_grad(tape, optim, true);
    for (uint32_t i = 0; i < optim->count; i++) {
        struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);

        if (leaf->dtype != MPL_FLOAT32)
            mpl_consume(tape, mpl_optim_like(tape, "_to_copy.default", leaf));
        mpl_optim_unbind(tape, &leaf->grad);
    }
}

static struct mpl_tensor *number(struct mpl_tape *tape, const char *op)
{
    const struct mpl_shape scalar = {0};

    return mpl_hold(mpl_empty(tape, op, MPL_FLOAT32, &scalar));
}

/* grad.float().square().sum() of each gradient: a list of numbers; how many */
static int64_t sum_squares(struct mpl_tape *tape, const struct mpl_optim *optim,
                           struct mpl_tensor **sums)
{
    int64_t count = 0;

    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_parameter_leaf(optim->models[i]);
        struct mpl_tensor *wide, *square;

        if (!leaf->grad)
            continue;
        wide = widened(tape, leaf->grad);
        square = mpl_hold(mpl_empty(tape, "pow.Tensor_Scalar", MPL_FLOAT32, &leaf->grad->shape));
        mpl_drop(tape, wide);
        sums[i] = number(tape, "sum.default");
        mpl_drop(tape, square);
        count++;
    }
    return count;
}

/* _grad_norm_and_clip_coefficient; both held */
static struct mpl_tensor *clip_coefficient(struct mpl_tape *tape, struct mpl_optim *optim,
                                           struct mpl_tensor **norm_out)
{
    struct mpl_tensor **sums = mpl_optim_list(tape, optim), *stack, *square, *plus, *inverse,
                      *product, *clamped;
    struct mpl_shape shape;

    shape = mpl_shape1(mpl_dim(sums ? sum_squares(tape, optim, sums) : 0));
    stack = mpl_hold(mpl_empty(tape, "stack.default", MPL_FLOAT32, &shape));
    for (uint32_t i = 0; sums && i < optim->count; i++)
        mpl_drop(tape, sums[i]);
    square = number(tape, "sum.default");
    mpl_drop(tape, stack);
    *norm_out = number(tape, "sqrt.default");
    plus = number(tape, "add.Tensor");
    inverse = number(tape, "reciprocal.default");
    product = number(tape, "mul.Tensor");
    mpl_drop(tape, inverse);
    mpl_drop(tape, plus);
    clamped = number(tape, "clamp.default");
    mpl_drop(tape, product);
    mpl_drop(tape, square);
    return clamped;
}

/* As of 0.2; 0.1 clipped the float32 gradients with clip_grad_norm_. */
void mpl_masters_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct mpl_tensor *norm, *coefficient = clip_coefficient(tape, optim, &norm);

    mpl_optim_begin(tape, optim);
    mpl_drop(tape, optim->last_norm);
    optim->last_norm = norm;
    mpl_optim_step(tape, optim);
    mpl_drop(tape, coefficient);
}

uint64_t mpl_masters_bytes(const struct mpl_optim *optim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; optim->masters && i < optim->count; i++) {
        const struct mpl_tensor *master = optim->masters[i].tensor;

        if (master && !master->is_void)
            sum = mpl_add(sum, mpl_round_up(master->storage->bytes, 512));
    }
    return sum;
}
