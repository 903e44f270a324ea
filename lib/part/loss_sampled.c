/* SPDX-License-Identifier: MIT */
/*
 * Cross-entropy of logits and labels that are drawn from them: what Sophia's estimate of the
 * Hessian's diagonal comes from.
 *
 * source: github.com/Liuhong99/Sophia, train_sophiag.py, commit a7e15722; torch/distributions/
 * categorical.py, distribution.py (validation), constraints.py (real_vector), utils.py
 * (logits_to_probs), release 2.13.0
 */
#include "part/loss_sampled.h"

#include "op/op.h"

/* constraint.check(logits) and torch._is_all_true of it */
static void validate(struct mpl_tape *tape, struct mpl_tensor *logits)
{
    const struct mpl_shape scalar = {0};
    struct mpl_tensor *result = mpl_hold(mpl_op_map(tape, "eq.Tensor", MPL_BOOL, logits, NULL));
    struct mpl_shape rows = logits->shape;

    if (logits->is_void)
        return;
    rows.ndim--;
    mpl_rebind(tape, &result, mpl_empty(tape, "all.dim", MPL_BOOL, &rows));
    mpl_consume(tape, mpl_empty(tape, "all.default", MPL_BOOL, &scalar));
    mpl_drop(tape, result);
}

/* samp_dist = Categorical(logits=logits): the old one goes when the new one is there. */
static void make_distribution(struct mpl_tape *tape, struct mpl_sampled *names,
                              struct mpl_tensor *logits)
{
    struct mpl_tensor *normal =
        mpl_hold(mpl_op_sub(tape, logits, mpl_op_logsumexp_keep(tape, logits)));

    validate(tape, normal);
    mpl_drop(tape, names->logits);
    mpl_drop(tape, names->probs);
    names->logits = normal;
    names->probs = NULL;
}

struct mpl_tensor *mpl_sampled_loss(struct mpl_tape *tape, struct mpl_sampled *names,
                                    struct mpl_tensor *logits)
{
    struct mpl_tensor *flat, *labels, *loss;
    struct mpl_shape rows, table;

    if (logits->is_void)
        return logits;
    rows = logits->shape;
    rows.ndim--;
    table = mpl_shape2(mpl_dim_mul(rows.dim[0], rows.dim[1]), logits->shape.dim[2]);
    make_distribution(tape, names, logits);
    names->probs = mpl_hold(mpl_op_softmax(tape, names->logits, MPL_DTYPE_NONE));
    labels = mpl_op_multinomial(tape, mpl_op_reshape(tape, names->probs, table));
    mpl_rebind(tape, &names->labels, mpl_op_reshape(tape, labels, rows));
    flat = mpl_op_reshape(tape, logits, table);
    labels = mpl_op_reshape(tape, names->labels, mpl_shape1(table.dim[0]));
    loss = mpl_op_cross_entropy(tape, flat, labels);
    return loss;
}

void mpl_sampled_drop(struct mpl_tape *tape, struct mpl_sampled *names)
{
    mpl_drop(tape, names->logits);
    mpl_drop(tape, names->probs);
    mpl_drop(tape, names->labels);
    *names = (struct mpl_sampled){NULL, NULL, NULL};
}
