/* SPDX-License-Identifier: MIT */
/*
 * Adafactor: of a matrix's second moment a row and a column, of a vector's the whole. It loops by
 * default; foreach handles all matrices at once and all vectors at once.
 *
 * source: torch/optim/_adafactor.py (_init_group, _single_tensor_adafactor,
 * _multi_tensor_adafactor)
 */
#include "op/op.h"
#include "optim/optim.h"

enum { ROW_VAR, COL_VAR, VARIANCE };

static bool is_matrix(const struct mpl_tensor *leaf)
{
    return leaf->shape.ndim > 1;
}

/* The leaf's shape with one of its last two dimensions reduced to 1: back = 1 for the last. */
static struct mpl_shape reduced(const struct mpl_tensor *leaf, int back)
{
    struct mpl_shape shape = leaf->shape;

    shape.dim[shape.ndim - back] = mpl_dim(1);
    return shape;
}

/* shape: [.., m, 1] and [.., 1, n] of a matrix [.., m, n], [n] of a vector; the gradient's dtype */
static void init_states(struct mpl_tape *tape, struct mpl_optim *optim)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);
        struct mpl_optim_state *state = &optim->states[i];
        const int count = leaf && is_matrix(leaf) ? 2 : 0;

        if (!leaf || state->is_ready)
            continue;
        state->is_ready = true;
        for (int k = 0; k < count; k++) {
            const struct mpl_shape shape = reduced(leaf, k + 1);

            state->tensors[ROW_VAR + k] = mpl_optim_new_state_shaped(
                tape, "new_zeros.default", (enum mpl_dtype)leaf->dtype, &shape);
        }
        if (!count)
            state->tensors[VARIANCE] = mpl_optim_new_state(tape, "zeros_like.default", leaf);
    }
}

/* x.norm(2).item() */
static void norm_item(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    const struct mpl_shape scalar = {0};

    mpl_consume(
        tape, mpl_empty(tape, "linalg_vector_norm.default", (enum mpl_dtype)leaf->dtype, &scalar));
}

/* torch.norm(grad, dim=-back, keepdim=True) */
static struct mpl_tensor *norm_along(struct mpl_tape *tape, const struct mpl_tensor *leaf, int back)
{
    const struct mpl_shape shape = reduced(leaf, back);

    return mpl_empty(tape, "linalg_vector_norm.default", (enum mpl_dtype)leaf->dtype, &shape);
}

/* row_var.mean(dim=-2, keepdim=True): [.., 1, 1] */
static struct mpl_tensor *row_mean_of(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    struct mpl_shape shape = reduced(leaf, 1);

    shape.dim[shape.ndim - 2] = mpl_dim(1);
    return mpl_empty(tape, "mean.dim", (enum mpl_dtype)leaf->dtype, &shape);
}

/* row_var @ col_var: the outer product, of the parameter's shape */
static struct mpl_tensor *outer_product(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    mpl_cublas_workspace(tape);
    return mpl_optim_like(tape, "mm.default", leaf);
}

/* ---- one parameter after the other ------------------------------------------------------------
 */

/* Python locals of the loop; each lives until it is bound again. update is what var_estimate was:
 * the old one goes only when both names have moved on. */
struct locals {
    struct mpl_tensor *grad, *row_mean, *col_mean, *grad_squared, *var_estimate, *update;
};

static void estimate(struct mpl_tape *tape, struct locals *l, const struct mpl_tensor *leaf)
{
    if (!is_matrix(leaf)) {
        mpl_rebind(tape, &l->grad_squared, mpl_optim_like(tape, "mul.Tensor", leaf));
        mpl_rebind(tape, &l->var_estimate, mpl_optim_like(tape, "clone.default", leaf));
        return;
    }
    mpl_rebind(tape, &l->row_mean, norm_along(tape, leaf, 1));
    mpl_rebind(tape, &l->col_mean, norm_along(tape, leaf, 2));
    mpl_rebind(tape, &l->var_estimate, outer_product(tape, leaf));
    mpl_consume(tape, row_mean_of(tape, leaf));
}

static void single_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct locals l = {0};

    for (uint32_t i = 0; i < optim->count && !tape->is_stopped; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (!leaf)
            continue;
        mpl_optim_bind_gradient(tape, optim, leaf, false, &l.grad);
        norm_item(tape, leaf);
        estimate(tape, &l, leaf);
        mpl_rebind(tape, &l.update, l.var_estimate);
        norm_item(tape, leaf);
    }
    mpl_drop(tape, l.grad);
    mpl_drop(tape, l.row_mean);
    mpl_drop(tape, l.col_mean);
    mpl_drop(tape, l.grad_squared);
    mpl_drop(tape, l.var_estimate);
    mpl_drop(tape, l.update);
}

/* ---- all matrices, all vectors ----------------------------------------------------------------
 */

typedef struct mpl_tensor *make_entry(struct mpl_tape *tape, const struct mpl_tensor *leaf);

/* A list with one entry for each member of the group. */
static void take(struct mpl_tape *tape, const struct mpl_optim *optim, bool of_matrices,
                 make_entry *make, struct mpl_tensor **list)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (leaf && is_matrix(leaf) == of_matrices)
            list[i] = mpl_hold(make(tape, leaf));
    }
}

static void norm_items(struct mpl_tape *tape, const struct mpl_optim *optim, bool of_matrices)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (leaf && is_matrix(leaf) == of_matrices)
            norm_item(tape, leaf);
    }
}

static struct mpl_tensor *row_norm(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    return norm_along(tape, leaf, 1);
}

static struct mpl_tensor *col_norm(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    return norm_along(tape, leaf, 2);
}

static struct mpl_tensor *negated(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    return mpl_optim_like(tape, "_foreach_neg.default", leaf);
}

static struct mpl_tensor *squared(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    return mpl_optim_like(tape, "_foreach_mul.List", leaf);
}

static struct mpl_tensor *copied(struct mpl_tape *tape, const struct mpl_tensor *leaf)
{
    return mpl_optim_like(tape, "clone.default", leaf);
}

struct lists {
    struct mpl_tensor **grads, **means, **estimates;
};

static bool has_member(const struct mpl_optim *optim, bool of_matrices)
{
    for (uint32_t i = 0; i < optim->count; i++) {
        const struct mpl_tensor *leaf = mpl_optim_leaf(optim, i);

        if (leaf && is_matrix(leaf) == of_matrices)
            return true;
    }
    return false;
}

/* The estimates stay: the name is bound to those of the next group only when these are there. */
static void step_group(struct mpl_tape *tape, const struct mpl_optim *optim, bool of_matrices,
                       struct lists *l)
{
    mpl_optim_drop_list(tape, optim, l->grads);
    if (optim->spec->maximize)
        take(tape, optim, of_matrices, negated, l->grads);
    norm_items(tape, optim, of_matrices);
    if (of_matrices) {
        take(tape, optim, true, row_norm, l->means);
        mpl_optim_drop_list(tape, optim, l->means);
        take(tape, optim, true, col_norm, l->means);
        mpl_optim_drop_list(tape, optim, l->means);
        take(tape, optim, true, outer_product, l->estimates);
        take(tape, optim, true, row_mean_of, l->means);
        mpl_optim_drop_list(tape, optim, l->means);
    } else {
        take(tape, optim, false, squared, l->means);
        mpl_optim_drop_list(tape, optim, l->means);
        take(tape, optim, false, copied, l->estimates);
    }
}

/* Groups come in the order of their first members. */
static void multi_tensor(struct mpl_tape *tape, const struct mpl_optim *optim)
{
    struct lists l = {mpl_optim_list(tape, optim), mpl_optim_list(tape, optim), NULL};
    struct mpl_tensor **estimates[2] = {mpl_optim_list(tape, optim), mpl_optim_list(tape, optim)};
    bool of_matrices = false;

    if (!l.grads || !l.means || !estimates[0] || !estimates[1])
        return;
    for (uint32_t i = optim->count; i-- > 0;)
        if (mpl_optim_leaf(optim, i))
            of_matrices = is_matrix(mpl_optim_leaf(optim, i));
    for (int k = 0; k < 2; k++, of_matrices = !of_matrices) {
        if (!has_member(optim, of_matrices))
            continue;
        l.estimates = estimates[k];
        step_group(tape, optim, of_matrices, &l);
        if (k == 1)
            mpl_optim_drop_list(tape, optim, estimates[0]);
        norm_items(tape, optim, of_matrices);
    }
    mpl_optim_drop_list(tape, optim, estimates[0]);
    mpl_optim_drop_list(tape, optim, estimates[1]);
    mpl_optim_drop_list(tape, optim, l.grads);
}

void mpl_adafactor_step(struct mpl_tape *tape, struct mpl_optim *optim)
{
    init_states(tape, optim);
    if (optim->is_foreach)
        multi_tensor(tape, optim);
    else
        single_tensor(tape, optim);
}
