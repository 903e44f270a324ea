/* SPDX-License-Identifier: MIT */
/*
 * Shampoo without blocks: for each side of a tensor, of whatever length, a square of statistics and
 * its inverse root, and the last update: rule 4 (m n + 2 m^2 + 2 n^2) bytes for [m, n] in float32,
 * so a vocabulary's side decides. Roots come from a decomposition in each step. What cuSOLVER takes
 * for itself is not booked.
 *
 * source: pytorch_optimizer/optimizer/shampoo.py (Shampoo.init_group, step),
 * pytorch_optimizer/optimizer/utils/matrix.py (compute_power_svd), 4.1.0
 */
#include "op/op.h"
#include "optim/optim.h"

enum { UPDATE, STATISTICS, ROOTS = STATISTICS + 2 };

static struct mpl_tensor *square(struct mpl_tape *tape, const char *op, int64_t n)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(n), mpl_dim(n));

    return mpl_hold(mpl_empty(tape, op, MPL_FLOAT32, &shape));
}

static void init_state(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i,
                       const struct mpl_tensor *leaf)
{
    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    for (int k = 0; k < leaf->shape.ndim && k < 2; k++) {
        const int64_t n = leaf->shape.dim[k].n;

        optim->states[i].tensors[STATISTICS + k] = square(tape, "eye.default", n);
        optim->states[i].tensors[ROOTS + k] = square(tape, "empty.memory_format", n);
    }
    tape->category = MPL_CATEGORY_TEMPORARY;
}

/* ((u * s) @ vh) of a decomposition, copied into the state: its factors are locals */
static void renew_root(struct mpl_tape *tape, int64_t n)
{
    const struct mpl_shape values = mpl_shape1(mpl_dim(n));
    struct mpl_tensor *u, *s, *vh, *scaled, *root;

    u = square(tape, "_linalg_svd.default", n);
    s = mpl_hold(mpl_empty(tape, "_linalg_svd.default", MPL_FLOAT32, &values));
    vh = square(tape, "_linalg_svd.default", n);
    scaled = square(tape, "mul.Tensor", n);
    mpl_cublas_workspace(tape);
    root = square(tape, "mm.default", n);
    mpl_drop(tape, scaled);
    mpl_drop(tape, u);
    mpl_drop(tape, s);
    mpl_drop(tape, vh);
    mpl_drop(tape, root);
}

/* grad is multiplied by the root of each side in turn, for the second one from a transposed copy.
 * The last product stays as the state. */
static void update_one(struct mpl_tape *tape, struct mpl_optim_state *state,
                       const struct mpl_tensor *leaf)
{
    struct mpl_tensor *grad = NULL, *copy = NULL;

    for (int k = 0; k < leaf->shape.ndim && k < 2; k++) {
        if (k) {
            copy = mpl_hold(mpl_optim_like(tape, "clone.default", leaf));
            mpl_optim_unbind(tape, &grad);
        }
        renew_root(tape, leaf->shape.dim[k].n);
        mpl_cublas_workspace(tape);
        tape->category =
            k + 1 == leaf->shape.ndim ? MPL_CATEGORY_OPTIMIZER_STATE : MPL_CATEGORY_TEMPORARY;
        mpl_rebind(tape, &grad, mpl_optim_like(tape, "mm.default", leaf));
        tape->category = MPL_CATEGORY_TEMPORARY;
    }
    mpl_drop(tape, state->tensors[UPDATE]);
    state->tensors[UPDATE] = grad;
    mpl_drop(tape, copy);
}

void mpl_shampoo_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++)
        if (mpl_optim_leaf(optim, i) && mpl_optim_is_new(optim, i))
            init_state(tape, optim, i, mpl_optim_leaf(optim, i));
    for (uint32_t i = 0; i < optim->count && !tape->is_stopped; i++)
        if (mpl_optim_leaf(optim, i))
            update_one(tape, &optim->states[i], mpl_optim_leaf(optim, i));
}
