/* SPDX-License-Identifier: MIT */
/*
 * GaLore: AdamW over the matrices inside the blocks in a subspace of some rank, and over the rest
 * as it is. A matrix [m, n] keeps the smaller factor of its gradient's singular vectors; moments
 * and projected gradient have rank columns, or rows. The decomposition comes at the first step and
 * every 200 after. What cuSOLVER takes for itself is not booked.
 *
 * source: galore_torch/adamw.py (AdamW.step), galore_torch/galore_projector.py (project,
 * project_back, get_orthogonal_matrix; proj_type std), 1.0
 */
#include "op/op.h"
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, FACTOR };

/* Python locals of the loop; each lives until it is bound again. */
struct locals {
    struct mpl_tensor *grad, *denom, *update;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct mpl_tensor *matrix(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                 int64_t rows, int64_t cols)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(rows), mpl_dim(cols));

    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

static struct mpl_tensor *product(struct mpl_tape *tape, const struct mpl_tensor *leaf,
                                  int64_t rows, int64_t cols)
{
    mpl_cublas_workspace(tape);
    return matrix(tape, "mm.default", (enum mpl_dtype)leaf->dtype, rows, cols);
}

/**
 * get_orthogonal_matrix: what the state keeps, held.
 *
 * shape   with k = min(m, n): U [m, k], s [k], Vh [k, n] of float32, and a product of rank rows or
 *         columns that nobody uses; kept is a view, so all of Vh (m >= n) or of U, or where the
 *         gradient is of another format a copy of rank rows or columns
 */
static struct mpl_tensor *decompose(struct mpl_tape *tape, const struct mpl_tensor *leaf,
                                    int64_t rank)
{
    const int64_t m = leaf->shape.dim[0].n, n = leaf->shape.dim[1].n, k = smaller(m, n);
    const enum mpl_dtype dtype = (enum mpl_dtype)leaf->dtype;
    const struct mpl_shape values = mpl_shape1(mpl_dim(k));
    const bool is_right = m >= n, is_half = dtype != MPL_FLOAT32;
    struct mpl_tensor *wide = NULL, *u, *s, *vh, *diagonal, *unused, *kept;

    if (is_half)
        wide = matrix(tape, "_to_copy.default", MPL_FLOAT32, m, n);
    u = matrix(tape, "_linalg_svd.default", MPL_FLOAT32, m, k);
    s = mpl_hold(mpl_empty(tape, "_linalg_svd.default", MPL_FLOAT32, &values));
    vh = matrix(tape, "_linalg_svd.default", MPL_FLOAT32, k, n);
    diagonal = matrix(tape, "diag_embed.default", MPL_FLOAT32, rank, rank);
    mpl_cublas_workspace(tape);
    unused = matrix(tape, "mm.default", MPL_FLOAT32, is_right ? m : rank, is_right ? rank : n);
    mpl_drop(tape, diagonal);
    kept = is_half
               ? matrix(tape, "_to_copy.default", dtype, is_right ? rank : m, is_right ? n : rank)
               : mpl_hold(is_right ? vh : u);
    mpl_drop(tape, unused);
    mpl_drop(tape, u);
    mpl_drop(tape, s);
    mpl_drop(tape, vh);
    mpl_drop(tape, wide);
    return kept;
}

/* The projected gradient, held; the factor first where there is none. */
static struct mpl_tensor *project(struct mpl_tape *tape, struct mpl_optim_state *state,
                                  const struct mpl_tensor *leaf, int64_t rank)
{
    const int64_t m = leaf->shape.dim[0].n, n = leaf->shape.dim[1].n;

    if (!state->tensors[FACTOR]) {
        tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
        state->tensors[FACTOR] = decompose(tape, leaf, rank);
        tape->category = MPL_CATEGORY_TEMPORARY;
    }
    return product(tape, leaf, m >= n ? m : rank, m >= n ? rank : n);
}

static void step_one(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i, struct locals *l)
{
    const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i), *like = leaf;
    const bool is_projected = mpl_muon_takes(optim->parameters[i]);
    struct mpl_optim_state *state = &optim->states[i];
    struct mpl_tensor *whole;

    mpl_optim_unbind(tape, &l->grad);
    if (is_projected) {
        const int64_t m = leaf->shape.dim[0].n, n = leaf->shape.dim[1].n;

        l->grad = project(tape, state, leaf, smaller(optim->spec->rank, smaller(m, n)));
        like = l->grad;
    }
    if (mpl_optim_is_new(optim, i)) {
        state->tensors[EXP_AVG] = mpl_optim_new_state(tape, "zeros_like.default", like);
        state->tensors[EXP_AVG_SQ] = mpl_optim_new_state(tape, "zeros_like.default", like);
    }
    mpl_rebind(tape, &l->denom, mpl_optim_like(tape, "sqrt.default", like));
    mpl_rebind(tape, &l->update, mpl_optim_like(tape, "div.Tensor", like));
    if (!is_projected)
        return;
    whole = product(tape, leaf, leaf->shape.dim[0].n, leaf->shape.dim[1].n);
    mpl_rebind(tape, &l->update, mpl_optim_like(tape, "mul.Tensor", leaf));
    mpl_drop(tape, whole);
}

/* The parameters that are not projected are the first group. */
void mpl_galore_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct locals l = {0};

    for (int group = 0; group < 2; group++)
        for (uint32_t i = 0; i < optim->count && !tape->is_stopped; i++)
            if (mpl_optim_leaf(optim, i) && mpl_muon_takes(optim->parameters[i]) == (group == 1))
                step_one(tape, optim, i, &l);
    mpl_drop(tape, l.grad);
    mpl_drop(tape, l.denom);
    mpl_drop(tape, l.update);
}
