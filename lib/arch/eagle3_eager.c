/* SPDX-License-Identifier: MIT */
/*
 * The drafter without the compiler: layer, last norm and loss operator by operator.
 *
 * source: speculators/models/eagle3/model_definitions.py, core.py (loss_function,
 * compute_accuracy); torch/nn/attention/flex_attention.py
 */
#include "arch/eagle3.h"
#include "op/rule.h"
#include "part/decoder.h"
#include "part/masking.h"

/* ---- layer ------------------------------------------------------------------------------------
 */

/* Both halves' gradients are joined: [1, tokens, 2 * hidden]. */
static void split_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    const struct mpl_edge *edge = &node->edges[0];

    (void)out;
    in[0] = mpl_hold_empty(tape, "cat.default", (enum mpl_dtype)edge->dtype,
                           mpl_shape3(edge->dim[0], edge->dim[1], edge->dim[2]));
}

/* x.split(hidden, -1): two held views. */
static void split(struct mpl_tape *tape, const struct mpl_eagle3 *e, struct mpl_tensor *x,
                  struct mpl_tensor *halves[2])
{
    struct mpl_node *node = mpl_node_new(tape, "SplitBackward0", split_backward, &x, 1, 2, 0);

    for (int i = 0; i < 2; i++) {
        halves[i] = mpl_hold(mpl_alias(tape, x));
        if (!halves[i]->is_void) {
            halves[i]->shape.dim[2] = mpl_dim(e->sizes.hidden);
            halves[i]->is_contiguous = false;
            halves[i]->is_view = true;
        }
        mpl_set_history(tape, halves[i], node, i);
    }
}

static struct mpl_tensor *project(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                                  struct mpl_tensor *x, enum mpl_eagle3_weight i)
{
    return mpl_op_linear(tape, x, mpl_eagle3_weight(e, i), NULL);
}

static void cat_one_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                             struct mpl_tensor **in)
{
    (void)node;
    in[0] = mpl_hold(mpl_alias(tape, out[0]));
    if (!in[0]->is_void)
        in[0]->is_view = true;
}

void mpl_eagle3_append(struct mpl_tape *tape, struct mpl_tensor **cache, struct mpl_tensor *x)
{
    struct mpl_node *node;
    struct mpl_tensor *out;

    if (*cache) {
        mpl_rebind(tape, cache, mpl_op_cat(tape, *cache, x, 2));
        return;
    }
    node = mpl_node_new(tape, "CatBackward0", cat_one_backward, &x, 1, 1, 0);
    out = mpl_empty(tape, "cat.default", (enum mpl_dtype)x->dtype, &x->shape);
    mpl_set_history(tape, out, node, 0);
    *cache = mpl_hold(out);
}

static struct mpl_tensor *attention(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                    struct mpl_tensor *x)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    struct mpl_tensor *q =
        mpl_hold(mpl_split_heads(tape, project(tape, e, x, MPL_EAGLE3_Q), s->heads, s->head_dim));
    struct mpl_tensor *k = mpl_hold(
        mpl_split_heads(tape, project(tape, e, x, MPL_EAGLE3_K), s->kv / s->head_dim, s->head_dim));
    struct mpl_tensor *v = mpl_hold(
        mpl_split_heads(tape, project(tape, e, x, MPL_EAGLE3_V), s->kv / s->head_dim, s->head_dim));
    struct mpl_tensor *q_turned = mpl_hold(mpl_rotate(tape, q, e->cos, e->sin)), *contiguous, *out;
    struct mpl_tensor *k_turned = mpl_hold(mpl_rotate(tape, k, e->cos, e->sin));

    mpl_drop(tape, q);
    mpl_drop(tape, k);
    mpl_eagle3_append(tape, &e->cached_keys, k_turned);
    mpl_eagle3_append(tape, &e->cached_values, v);
    mpl_drop(tape, k_turned);
    mpl_drop(tape, v);
    contiguous = mpl_hold(mpl_op_contiguous(tape, q_turned));
    out = mpl_eagle3_flex(tape, e, contiguous, e->cached_keys, e->cached_values);
    mpl_drop(tape, contiguous);
    out = mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
    if (!out->is_void)
        out = mpl_op_reshape(tape, out, mpl_shape3(mpl_dim(1), s->tokens, mpl_dim(s->attention)));
    out = project(tape, e, out, MPL_EAGLE3_O);
    mpl_drop(tape, q_turned);
    return out;
}

static struct mpl_tensor *mlp(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                              struct mpl_tensor *x)
{
    struct mpl_tensor *gate = mpl_op_silu(tape, project(tape, e, x, MPL_EAGLE3_GATE));

    return project(tape, e, mpl_op_mul(tape, gate, project(tape, e, x, MPL_EAGLE3_UP)),
                   MPL_EAGLE3_DOWN);
}

static struct mpl_tensor *layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    struct mpl_eagle3 *e = context;
    struct mpl_tensor *halves[2], *embeds, *hidden, *residual, *h;

    if (x->is_void)
        return x;
    split(tape, e, x, halves);
    embeds = mpl_hold(mpl_rms_norm(tape, mpl_eagle3_weight(e, MPL_EAGLE3_INPUT_NORM), halves[0]));
    hidden = mpl_hold(mpl_rms_norm(tape, mpl_eagle3_weight(e, MPL_EAGLE3_HIDDEN_NORM), halves[1]));
    h = mpl_hold(mpl_op_cat(tape, embeds, hidden, 2));
    mpl_rebind(tape, &h, attention(tape, e, h));
    residual = mpl_hold(mpl_op_add(tape, hidden, h));
    mpl_drop(tape, h);
    h = mpl_hold(mpl_rms_norm(tape, mpl_eagle3_weight(e, MPL_EAGLE3_POST_NORM), residual));
    mpl_rebind(tape, &h, mlp(tape, e, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, embeds);
    mpl_drop(tape, hidden);
    mpl_drop(tape, residual);
    mpl_drop(tape, halves[0]);
    mpl_drop(tape, halves[1]);
    return mpl_return(h);
}

static struct mpl_tensor *norm(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *x)
{
    return mpl_rms_norm(tape, mpl_network_weight(e->network, e->norm), x);
}

static void rotary(struct mpl_tape *tape, struct mpl_eagle3 *e, const struct mpl_tensor *embeds)
{
    struct mpl_tensor *cos, *sin;

    mpl_rotary_tables(tape, e->sizes.head_dim, (enum mpl_dtype)embeds->dtype, e->arange, &cos,
                      &sin);
    mpl_rebind(tape, &e->sin, mpl_return(sin));
    mpl_rebind(tape, &e->cos, mpl_return(cos));
}

/* ---- loss -------------------------------------------------------------------------------------
 */

/* Saved: log-probabilities and target probabilities [1, m, draft_vocab], the denominator [1]. */
enum { LOG_PROBABILITIES, TARGETS, DENOMINATOR, LOSS_SAVES };

/* Through mean, division and sum, then kl_div's product, and log_softmax. Steps that compare fewer
 * tokens pad the gradient. */
static void loss_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_edge *edge = &node->edges[0];
    const enum mpl_dtype dtype = (enum mpl_dtype)edge->dtype;
    const struct mpl_shape whole = mpl_shape3(edge->dim[0], edge->dim[1], edge->dim[2]);
    const struct mpl_shape one = mpl_shape1(mpl_dim(1)), scalar = {0};
    struct mpl_shape shape = whole;
    struct mpl_tensor *grad = mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, scalar);

    (void)out;
    shape.dim[1].n = node->arg[0];
    mpl_eagle3_assign(tape, &grad, mpl_hold_empty(tape, "div.Scalar", MPL_FLOAT32, one));
    mpl_eagle3_assign(tape, &grad, mpl_hold_empty(tape, "div.Tensor", MPL_FLOAT32, one));
    mpl_eagle3_end_saved(tape, node, DENOMINATOR);
    mpl_eagle3_assign(tape, &grad, mpl_hold_empty(tape, "mul.Tensor", dtype, shape));
    mpl_eagle3_assign(tape, &grad, mpl_hold_empty(tape, "neg.default", dtype, shape));
    mpl_eagle3_assign(tape, &grad, mpl_hold_empty(tape, "mul.Tensor", dtype, shape));
    mpl_eagle3_end_saved(tape, node, TARGETS);
    mpl_eagle3_assign(tape, &grad,
                      mpl_hold_empty(tape, "_log_softmax_backward_data.default", dtype, shape));
    mpl_eagle3_end_saved(tape, node, LOG_PROBABILITIES);
    if (shape.dim[1].n != whole.dim[1].n)
        mpl_eagle3_assign(tape, &grad,
                          mpl_hold_empty(tape, "slice_backward.default", dtype, whole));
    in[0] = grad;
}

/* kl_div without reduction, masked: one number for each token and word; held */
static struct mpl_tensor *each_loss(struct mpl_tape *tape, enum mpl_dtype dtype,
                                    struct mpl_shape shape)
{
    struct mpl_tensor *product = mpl_hold_empty(tape, "mul.Tensor", dtype, shape);
    struct mpl_tensor *entropy = mpl_hold_empty(tape, "xlogy.Tensor", dtype, shape);
    struct mpl_tensor *each = mpl_hold_empty(tape, "sub.Tensor", dtype, shape);

    mpl_drop(tape, entropy);
    mpl_drop(tape, product);
    mpl_eagle3_assign(tape, &each, mpl_hold_empty(tape, "mul.Tensor", dtype, shape));
    return each;
}

/* Right tokens among the masked ones; numbers that the metrics keep. */
static void accuracy(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_dim m)
{
    const struct mpl_shape row = mpl_shape2(mpl_dim(1), m), scalar = {0};
    struct mpl_tensor *best = mpl_hold_empty(tape, "argmax.default", MPL_INT64, row);
    struct mpl_tensor *wanted = mpl_hold_empty(tape, "argmax.default", MPL_INT64, row);
    struct mpl_tensor *same = mpl_hold_empty(tape, "eq.Tensor", MPL_BOOL, row);
    struct mpl_tensor *right = mpl_hold_empty(tape, "sum.default", MPL_INT64, scalar), *selected,
                      *wide;
    struct mpl_tensor *sum, *first, *second, *total;

    mpl_drop(tape, same);
    selected = mpl_hold_empty(tape, "masked_select.default", MPL_BOOL, row);
    wide = mpl_hold_empty(tape, "_to_copy.default", MPL_FLOAT32, row);
    sum = mpl_hold_empty(tape, "sum.default", MPL_FLOAT32, scalar);
    mpl_drop(tape, wide);
    first = mpl_hold_empty(tape, "div.Tensor", MPL_FLOAT32, scalar);
    total = mpl_hold_empty(tape, "add.Tensor", MPL_FLOAT32, scalar);
    second = mpl_hold_empty(tape, "div.Tensor", MPL_FLOAT32, scalar);
    mpl_drop(tape, total);
    mpl_drop(tape, best);
    mpl_drop(tape, wanted);
    mpl_drop(tape, selected);
    mpl_drop(tape, right);
    mpl_drop(tape, sum);
    mpl_eagle3_return(e, mpl_hold_empty(tape, "clone.default", MPL_FLOAT32, scalar));
    mpl_eagle3_return(e, first);
    mpl_eagle3_return(e, second);
}

static struct mpl_tensor *loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                               struct mpl_tensor *logits, struct mpl_tensor *targets)
{
    const enum mpl_dtype dtype = e->sizes.root_dtype;
    const struct mpl_dim m = {e->sizes.tokens.n - e->ttt_step + 1, e->sizes.tokens.degree};
    const struct mpl_shape shape = mpl_shape3(mpl_dim(1), m, mpl_dim(e->sizes.draft_vocab));
    const struct mpl_shape one = mpl_shape1(mpl_dim(1)), scalar = {0};
    struct mpl_node *node =
        mpl_node_new(tape, "KlDivBackward", loss_backward, &logits, 1, 1, LOSS_SAVES);
    struct mpl_tensor *saved[LOSS_SAVES], *each, *value;

    (void)targets;
    saved[LOG_PROBABILITIES] = mpl_hold_empty(tape, "_log_softmax.default", dtype, shape);
    saved[TARGETS] = mpl_hold_empty(tape, "_softmax.default", dtype, shape);
    each = each_loss(tape, dtype, shape);
    value = mpl_hold_empty(tape, "sum.dim_IntList", MPL_INT64, one);
    saved[DENOMINATOR] = mpl_hold_empty(tape, "add.Tensor", MPL_FLOAT32, one);
    mpl_drop(tape, value);
    value = mpl_hold_empty(tape, "sum.dim_IntList", MPL_FLOAT32, one);
    mpl_eagle3_assign(tape, &value, mpl_hold_empty(tape, "div.Tensor", MPL_FLOAT32, one));
    mpl_eagle3_assign(tape, &value, mpl_hold_empty(tape, "mean.default", MPL_FLOAT32, scalar));
    mpl_drop(tape, each);
    mpl_eagle3_assign(tape, &value, mpl_hold_empty(tape, "mul.Tensor", MPL_FLOAT32, scalar));
    for (int i = 0; i < LOSS_SAVES; i++) {
        mpl_save(tape, node, saved[i]);
        mpl_drop(tape, saved[i]);
    }
    if (node)
        node->arg[0] = m.n;
    mpl_set_history(tape, value, node, 0);
    accuracy(tape, e, m);
    return mpl_return(value);
}

const struct mpl_eagle3_code mpl_eagle3_eager_code = {
    mpl_eagle3_eager_mask_make, mpl_eagle3_eager_mask_extend, rotary, layer, norm, loss,
};
