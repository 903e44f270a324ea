/* SPDX-License-Identifier: MIT */
/*
 * SOAP: two moments of the parameter's shape, and for each side of a matrix of at most
 * max_precondition_dim a square of statistics and one of their eigenvectors: rule 8 (m n + m^2 +
 * n^2) bytes for [m, n] in float32. The first step makes the states and updates nothing. Fresh
 * eigenvectors come every precondition_frequency steps; they are booked in each, so that few steps
 * show the peak of a long run. What cuSOLVER takes for itself is not booked.
 *
 * source: pytorch_optimizer/optimizer/soap.py (init_group, step, project, update_pre_conditioner,
 * get_orthogonal_matrix, get_orthogonal_matrix_qr), 4.1.0
 */
#include "op/op.h"
#include "optim/optim.h"

enum { EXP_AVG, EXP_AVG_SQ, STATISTICS, VECTORS = STATISTICS + 2 };

/* Python locals of the step; each lives until it is bound again. */
struct locals {
    struct mpl_tensor *projected, *root, *average, *update, *exp_avg_sq;
};

static struct mpl_tensor *square(struct mpl_tape *tape, const char *op, int64_t n)
{
    const struct mpl_shape shape = mpl_shape2(mpl_dim(n), mpl_dim(n));

    return mpl_empty(tape, op, MPL_FLOAT32, &shape);
}

static struct mpl_tensor *line(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                               int64_t n)
{
    const struct mpl_shape shape = mpl_shape1(mpl_dim(n));

    return mpl_empty(tape, op, dtype, &shape);
}

/* Elements of side k when it is preconditioned, else 0. */
static int64_t side(const struct mpl_optim *optim, const struct mpl_tensor *leaf, int k)
{
    if (leaf->shape.ndim != 2 || leaf->shape.dim[k].n > optim->spec->max_precondition_dim)
        return 0;
    return leaf->shape.dim[k].n;
}

/* The gradient's products with itself go into the statistics; the last one is held. */
static struct mpl_tensor *add_statistics(struct mpl_tape *tape, const struct mpl_optim *optim,
                                         const struct mpl_tensor *leaf)
{
    struct mpl_tensor *outer = NULL;

    for (int k = 0; k < 2; k++)
        if (side(optim, leaf, k)) {
            mpl_cublas_workspace(tape);
            mpl_rebind(tape, &outer, square(tape, "mm.default", side(optim, leaf, k)));
        }
    return outer;
}

/* ---- first step -------------------------------------------------------------------------------
 */

/* eigh(m + 1e-30 * eye): the vectors are flipped, the values a local of the caller's loop */
static struct mpl_tensor *eigenvectors(struct mpl_tape *tape, int64_t n, struct mpl_tensor **values)
{
    struct mpl_tensor *sum = NULL, *vectors, *flipped;

    mpl_rebind(tape, &sum, square(tape, "eye.default", n));
    mpl_rebind(tape, &sum, square(tape, "mul.Tensor", n));
    mpl_rebind(tape, &sum, square(tape, "add.Tensor", n));
    {
        struct mpl_tensor *fresh = line(tape, "_linalg_eigh.default", MPL_FLOAT32, n);

        vectors = mpl_hold(square(tape, "_linalg_eigh.default", n));
        mpl_drop(tape, sum);
        mpl_rebind(tape, values, fresh);
    }
    tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
    flipped = mpl_hold(square(tape, "flip.default", n));
    tape->category = MPL_CATEGORY_TEMPORARY;
    mpl_drop(tape, vectors);
    return flipped;
}

static void init_state(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i)
{
    const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
    struct mpl_tensor **tensors = optim->states[i].tensors, *outer, *values = NULL;

    tensors[EXP_AVG] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    tensors[EXP_AVG_SQ] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    for (int k = 0; k < 2; k++) {
        const struct mpl_dim n = mpl_dim(side(optim, leaf, k));
        const struct mpl_shape shape = mpl_shape2(n, n);

        if (n.n)
            tensors[STATISTICS + k] =
                mpl_optim_new_state_shaped(tape, "zeros.default", MPL_FLOAT32, &shape);
    }
    outer = add_statistics(tape, optim, leaf);
    for (int k = 0; k < 2; k++)
        if (side(optim, leaf, k))
            tensors[VECTORS + k] = eigenvectors(tape, side(optim, leaf, k), &values);
    mpl_drop(tape, values);
    mpl_drop(tape, outer);
}

/* ---- later steps ------------------------------------------------------------------------------
 */

/* Locals of one round of power iteration, bound again for the second side. */
struct power {
    struct mpl_tensor *product, *estimate, *order, *iterate, *rest, *vectors[2];
};

static void sort_sides(struct mpl_tape *tape, int64_t n, struct power *p)
{
    struct mpl_tensor *scaled, *sorted, *order;

    mpl_cublas_workspace(tape);
    mpl_rebind(tape, &p->product, square(tape, "mm.default", n));
    scaled = mpl_hold(square(tape, "mul.Tensor", n));
    {
        struct mpl_tensor *sum = line(tape, "sum.dim_IntList", MPL_FLOAT32, n);

        mpl_drop(tape, scaled);
        mpl_rebind(tape, &p->estimate, sum);
    }
    sorted = mpl_hold(line(tape, "sort.default", MPL_FLOAT32, n));
    order = line(tape, "sort.default", MPL_INT64, n);
    mpl_drop(tape, sorted);
    mpl_rebind(tape, &p->order, order);
}

static void drop_power(struct mpl_tape *tape, struct power *p)
{
    mpl_drop(tape, p->product);
    mpl_drop(tape, p->estimate);
    mpl_drop(tape, p->order);
    mpl_drop(tape, p->iterate);
    mpl_drop(tape, p->rest);
}

/* get_orthogonal_matrix_qr: the second moment is put in order too, once for each side; the old one
 * is still a local of the step. */
static void renew_vectors(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i)
{
    const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
    struct mpl_tensor **tensors = optim->states[i].tensors;
    struct power p = {0};

    for (int k = 0; k < 2; k++) {
        const int64_t n = side(optim, leaf, k);
        struct mpl_tensor *rest;

        if (!n)
            continue;
        sort_sides(tape, n, &p);
        tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
        mpl_rebind(tape, &tensors[EXP_AVG_SQ], mpl_optim_like(tape, "index_select.default", leaf));
        tape->category = MPL_CATEGORY_TEMPORARY;
        mpl_rebind(tape, &p.iterate, square(tape, "index_select.default", n));
        tape->category = MPL_CATEGORY_OPTIMIZER_STATE;
        p.vectors[k] = mpl_hold(square(tape, "linalg_qr.default", n));
        tape->category = MPL_CATEGORY_TEMPORARY;
        rest = square(tape, "linalg_qr.default", n);
        mpl_rebind(tape, &p.rest, rest);
    }
    drop_power(tape, &p);
    for (int k = 0; k < 2; k++) {
        mpl_drop(tape, tensors[VECTORS + k]);
        tensors[VECTORS + k] = p.vectors[k];
    }
}

/* A tensor of the leaf's shape in the basis of the vectors, or back: one product for each side;
 * without one a view of it. Floating. */
static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_optim *optim,
                                  const struct mpl_tensor *leaf, struct mpl_tensor *tensor)
{
    struct mpl_tensor *result = mpl_hold(tensor);

    for (int k = 0; k < 2; k++)
        if (side(optim, leaf, k)) {
            mpl_cublas_workspace(tape);
            mpl_rebind(tape, &result, mpl_optim_like(tape, "mm.default", leaf));
        }
    return mpl_return(result);
}

static void update_one(struct mpl_tape *tape, struct mpl_optim *optim, uint32_t i, struct locals *l)
{
    const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
    struct mpl_tensor **tensors = optim->states[i].tensors, *quotient, *outer;

    mpl_rebind(tape, &l->projected, project(tape, optim, leaf, mpl_alias(tape, leaf->grad)));
    mpl_rebind(tape, &l->exp_avg_sq, mpl_alias(tape, tensors[EXP_AVG_SQ]));
    mpl_consume(tape, mpl_optim_like(tape, "pow.Tensor_Scalar", leaf));
    mpl_rebind(tape, &l->root, mpl_optim_like(tape, "sqrt.default", leaf));
    mpl_rebind(tape, &l->average, project(tape, optim, leaf, mpl_alias(tape, tensors[EXP_AVG])));
    quotient = mpl_optim_like(tape, "div.Tensor", leaf);
    mpl_rebind(tape, &l->update, project(tape, optim, leaf, quotient));
    outer = add_statistics(tape, optim, leaf);
    renew_vectors(tape, optim, i);
    mpl_drop(tape, outer);
}

void mpl_soap_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    struct locals l = {0};
    bool is_first = false;

    for (uint32_t i = 0; i < optim->count; i++)
        if (mpl_optim_leaf(optim, i) && mpl_optim_is_new(optim, i)) {
            init_state(tape, optim, i);
            is_first = true;
        }
    for (uint32_t i = 0; i < optim->count && !is_first && !tape->is_stopped; i++)
        if (mpl_optim_leaf(optim, i))
            update_one(tape, optim, i, &l);
    mpl_drop(tape, l.projected);
    mpl_drop(tape, l.root);
    mpl_drop(tape, l.average);
    mpl_drop(tape, l.update);
    mpl_drop(tape, l.exp_avg_sq);
}
