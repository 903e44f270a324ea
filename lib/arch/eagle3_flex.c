/* SPDX-License-Identifier: MIT */
/*
 * flex_attention by itself: as a compiled kernel, which is one node here, or not compiled, which
 * works on all scores at once.
 *
 * source: torch/_higher_order_ops/flex_attention.py (math_attention, sdpa_dense_backward),
 * torch/_inductor/kernel/flex, aten/src/ATen/native/transformers/attention.cpp (_safe_softmax);
 * release 2.13
 */
#include "arch/eagle3.h"
#include "op/rule.h"

enum { FLEX_Q, FLEX_K, FLEX_V, FLEX_OUT, FLEX_LSE, FLEX_SAVES };

/* Takes something and gives it back at once. */
static void pass(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                 struct mpl_shape shape)
{
    mpl_drop(tape, mpl_hold_empty(tape, op, dtype, shape));
}

/* ---- not compiled -----------------------------------------------------------------------------
 */

/* Shapes: queries [1, H, n, d], keys [1, H, m, d], scores [1, H, n, m], rows [1, H, n]. */
struct dense {
    struct mpl_tape *tape;
    struct mpl_shape q, k, scores, rows;
    enum mpl_dtype dtype;
};

static struct dense dense_of(struct mpl_tape *tape, const struct mpl_tensor *q,
                             const struct mpl_tensor *k)
{
    const struct mpl_dim one = q->shape.dim[0], heads = q->shape.dim[1], n = q->shape.dim[2];
    const struct mpl_dim m = k->shape.dim[2], d = q->shape.dim[3];

    return (struct dense){
        .tape = tape,
        .q = q->shape,
        .k = mpl_shape4(one, heads, m, d),
        .scores = mpl_shape4(one, heads, n, m),
        .rows = mpl_shape3(one, heads, n),
        .dtype = (enum mpl_dtype)q->dtype,
    };
}

static struct mpl_tensor *scores(const struct dense *s, const char *op, enum mpl_dtype dtype)
{
    return mpl_hold_empty(s->tape, op, dtype, s->scores);
}

/* a.to(float32) @ b.to(float32).transpose(-2, -1): float32 scores; held */
static struct mpl_tensor *product(const struct dense *s)
{
    struct mpl_tensor *a = mpl_hold_empty(s->tape, "_to_copy.default", MPL_FLOAT32, s->q);
    struct mpl_tensor *b = mpl_hold_empty(s->tape, "_to_copy.default", MPL_FLOAT32, s->k);
    struct mpl_tensor *out = scores(s, "bmm.default", MPL_FLOAT32);

    mpl_drop(s->tape, a);
    mpl_drop(s->tape, b);
    return out;
}

/* mask_mod over all pairs: bool [n, m]; held */
static struct mpl_tensor *mask(const struct dense *s)
{
    return mpl_eagle3_dense_mask(s->tape, s->scores.dim[2], s->scores.dim[3]);
}

/* _math_attention_inner: scaled scores, and the masked ones; both held */
static void inner(const struct dense *s, struct mpl_tensor **scaled_out,
                  struct mpl_tensor **masked_out)
{
    struct mpl_tensor *allowed;

    *scaled_out = product(s);
    mpl_eagle3_assign(s->tape, scaled_out, scores(s, "mul.Tensor", MPL_FLOAT32));
    allowed = mask(s);
    *masked_out = scores(s, "where.self", MPL_FLOAT32);
    mpl_drop(s->tape, allowed);
}

/* Rows without any key: a bool for each score, then for each row; held */
static struct mpl_tensor *empty_rows(const struct dense *s)
{
    struct mpl_tensor *each = scores(s, "eq.Scalar", MPL_BOOL);
    struct mpl_tensor *rows = mpl_hold_empty(s->tape, "all.dim", MPL_BOOL, s->rows);

    mpl_drop(s->tape, each);
    return rows;
}

/* logsumexp, largest score: float32 for each row; the first is held */
static struct mpl_tensor *row_sums(const struct dense *s)
{
    struct mpl_tensor *most = mpl_hold_empty(s->tape, "amax.default", MPL_FLOAT32, s->rows);
    struct mpl_tensor *sums = mpl_hold_empty(s->tape, "logsumexp.default", MPL_FLOAT32, s->rows),
                      *rows;

    pass(s->tape, "sub.Tensor", MPL_FLOAT32, s->scores);
    mpl_drop(s->tape, most);
    rows = empty_rows(s);
    mpl_eagle3_assign(s->tape, &sums, mpl_hold_empty(s->tape, "where.self", MPL_FLOAT32, s->rows));
    pass(s->tape, "max.dim", MPL_FLOAT32, s->rows);
    pass(s->tape, "max.dim", MPL_INT64, s->rows);
    mpl_drop(s->tape, rows);
    return sums;
}

/* _safe_softmax: empty rows are set to zero in the result itself; held */
static struct mpl_tensor *safe_softmax(const struct dense *s)
{
    struct mpl_tensor *out = scores(s, "_softmax.default", MPL_FLOAT32);

    mpl_drop(s->tape, empty_rows(s));
    return out;
}

/* math_attention. Result [1, H, n, d], *lse_out [1, H, n]; both held. Keys and values are copied
 * even when there is nothing to repeat. */
static struct mpl_tensor *dense_forward(const struct dense *s, struct mpl_tensor **lse_out)
{
    struct mpl_tensor *value =
        mpl_hold_empty(s->tape, "repeat_interleave.self_int", s->dtype, s->k);
    struct mpl_tensor *key = mpl_hold_empty(s->tape, "repeat_interleave.self_int", s->dtype, s->k);
    struct mpl_tensor *scaled, *masked, *sums, *narrow, *out;

    inner(s, &scaled, &masked);
    sums = row_sums(s);
    mpl_eagle3_assign(s->tape, &masked, safe_softmax(s));
    narrow = scores(s, "_to_copy.default", s->dtype);
    out = mpl_hold_empty(s->tape, "bmm.default", s->dtype, s->q);
    mpl_drop(s->tape, narrow);
    *lse_out = mpl_hold_empty(s->tape, "div.Tensor", MPL_FLOAT32, s->rows);
    mpl_drop(s->tape, sums);
    mpl_drop(s->tape, scaled);
    mpl_drop(s->tape, masked);
    mpl_drop(s->tape, key);
    mpl_drop(s->tape, value);
    return out;
}

/* exp(scores - lse), without the empty rows; held */
static struct mpl_tensor *softmax_again(const struct dense *s)
{
    struct mpl_tensor *out = scores(s, "sub.Tensor", MPL_FLOAT32);

    mpl_eagle3_assign(s->tape, &out, scores(s, "exp.default", MPL_FLOAT32));
    mpl_eagle3_assign(s->tape, &out, scores(s, "where.self", MPL_FLOAT32));
    return out;
}

/* sum(out * grad_out, -1): a float32 for each row; held */
static struct mpl_tensor *sum_scores(const struct dense *s)
{
    struct mpl_tensor *a = mpl_hold_empty(s->tape, "_to_copy.default", MPL_FLOAT32, s->q);
    struct mpl_tensor *b = mpl_hold_empty(s->tape, "_to_copy.default", MPL_FLOAT32, s->q);
    struct mpl_tensor *c = mpl_hold_empty(s->tape, "mul.Tensor", MPL_FLOAT32, s->q), *sum;

    mpl_drop(s->tape, a);
    mpl_drop(s->tape, b);
    sum = mpl_hold_empty(s->tape, "sum.dim_IntList", MPL_FLOAT32, s->rows);
    mpl_drop(s->tape, c);
    return sum;
}

/* Gradient of the scores in the inputs' format, held. Everything before it is a Python local that
 * lives to the end of the function; *locals_out takes those that are large. */
static struct mpl_tensor *grad_scores(const struct dense *s, struct mpl_tensor *locals[5],
                                      struct mpl_tensor **grad_value_out)
{
    struct mpl_tensor *narrow, *sums, *difference, *grad, *allowed;

    inner(s, &locals[0], &locals[1]);
    locals[2] = softmax_again(s);
    narrow = scores(s, "_to_copy.default", s->dtype);
    *grad_value_out = mpl_hold_empty(s->tape, "bmm.default", s->dtype, s->k);
    mpl_drop(s->tape, narrow);
    locals[3] = product(s);
    sums = sum_scores(s);
    difference = scores(s, "sub.Tensor", MPL_FLOAT32);
    mpl_eagle3_assign(s->tape, &difference, scores(s, "add.Tensor", MPL_FLOAT32));
    locals[4] = scores(s, "mul.Tensor", MPL_FLOAT32);
    mpl_drop(s->tape, difference);
    grad = scores(s, "mul.Tensor", MPL_FLOAT32); /* by the scale */
    mpl_eagle3_assign(s->tape, &grad, scores(s, "_to_copy.default", s->dtype));
    allowed = mask(s);
    mpl_eagle3_assign(s->tape, &grad, scores(s, "where.self", s->dtype));
    mpl_drop(s->tape, allowed);
    mpl_drop(s->tape, sums);
    return grad;
}

/* sdpa_dense_backward. Gradients are computed for all query heads, then summed over each group and
 * copied into the results. */
static void dense_backward(const struct dense *s, struct mpl_tensor *const saved[FLEX_SAVES],
                           struct mpl_tensor **in)
{
    struct mpl_tensor *locals[5], *copies[2], *grad, *computed[3];

    for (int i = 0; i < 3; i++)
        in[i] = mpl_rule_like(s->tape, "new_empty.default", saved[i], NULL);
    for (int i = 0; i < 2; i++)
        copies[i] = mpl_hold_empty(s->tape, "repeat_interleave.self_int", s->dtype, s->k);
    grad = grad_scores(s, locals, &computed[FLEX_V]);
    computed[FLEX_Q] = mpl_hold_empty(s->tape, "bmm.default", s->dtype, s->q);
    computed[FLEX_K] = mpl_hold_empty(s->tape, "bmm.default", s->dtype, s->k);
    for (int i = FLEX_K; i <= FLEX_V; i++)
        mpl_eagle3_assign(s->tape, &computed[i],
                          mpl_hold_empty(s->tape, "sum.dim_IntList", s->dtype, saved[i]->shape));
    for (int i = 0; i < 3; i++)
        mpl_drop(s->tape, computed[i]);
    for (int i = 0; i < 5; i++)
        mpl_drop(s->tape, locals[i]);
    mpl_drop(s->tape, copies[0]);
    mpl_drop(s->tape, copies[1]);
    mpl_drop(s->tape, grad);
}

/* ---- the node ---------------------------------------------------------------------------------
 */

static void flex_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    struct mpl_tensor *saved[FLEX_SAVES], *delta;

    (void)out;
    for (int i = 0; i < FLEX_SAVES; i++)
        saved[i] = mpl_saved(tape, node, i);
    if (tape->is_stopped)
        return;
    if (node->arg[0]) {
        const struct dense s = dense_of(tape, saved[FLEX_Q], saved[FLEX_K]);

        dense_backward(&s, saved, in);
        return;
    }
    delta = mpl_rule_like(tape, "empty_like.default", saved[FLEX_LSE], NULL);
    for (int i = 0; i < 3; i++)
        in[i] = mpl_rule_like(tape, "empty_like.default", saved[i], NULL);
    mpl_drop(tape, delta);
}

struct mpl_tensor *mpl_eagle3_flex(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                                   struct mpl_tensor *q, struct mpl_tensor *k, struct mpl_tensor *v)
{
    const bool is_dense = e->network->plan->training.compile == MPL_COMPILE_NONE;
    struct mpl_node *node;
    struct mpl_tensor *out, *lse;

    if (q->is_void || k->is_void || v->is_void)
        return tape->void_tensor;
    node = mpl_node_new(tape, "FlexAttentionAutogradOpBackward", flex_backward,
                        (struct mpl_tensor *[]){q, k, v}, 3, 1, FLEX_SAVES);
    if (is_dense) {
        const struct dense s = dense_of(tape, q, k);

        out = mpl_return(dense_forward(&s, &lse));
    } else {
        out = mpl_empty_like(tape, "flex_attention", (enum mpl_dtype)q->dtype, q, NULL);
        lse = mpl_hold_empty(tape, "flex_attention", MPL_FLOAT32,
                             mpl_shape3(q->shape.dim[0], q->shape.dim[1], q->shape.dim[2]));
    }
    mpl_save(tape, node, q);
    mpl_save(tape, node, k);
    mpl_save(tape, node, v);
    mpl_save_output(tape, node, out);
    mpl_save_output(tape, node, lse);
    if (node)
        node->arg[0] = is_dense;
    mpl_set_history(tape, out, node, 0);
    mpl_drop(tape, lse);
    return out;
}
