/* SPDX-License-Identifier: MIT */
/*
 * SpecForge's drafter: norms, the decoder layer and its attention over the caches of all steps.
 *
 * source: specforge/modeling/draft/llama3_eagle.py (LlamaRMSNorm and apply_rotary_pos_emb, which
 * are compiled; LlamaAttention, LlamaMLP, LlamaDecoderLayer), release 0.2.0; torch/_inductor
 */
#include "arch/specforge.h"
#include "op/rule.h"
#include "part/block_mask.h"
#include "part/decoder.h"

/* ---- compiled parts ---------------------------------------------------------------------------
 */

/* The gradient as the compiled function takes it; held. */
static struct mpl_tensor *contiguous(struct mpl_tape *tape, struct mpl_tensor *grad)
{
    if (grad->is_contiguous)
        return mpl_hold(mpl_return(mpl_hold(grad)));
    return mpl_hold(mpl_empty(tape, "clone.default", (enum mpl_dtype)grad->dtype, &grad->shape));
}

/* The same in the place of the one that arrived. */
static struct mpl_tensor *as_traced(struct mpl_tape *tape, struct mpl_tensor **out)
{
    struct mpl_tensor *grad = contiguous(tape, *out);

    mpl_drop(tape, *out);
    *out = NULL;
    return grad;
}

static void end_saves(struct mpl_tape *tape, struct mpl_node *node)
{
    mpl_eagle3_end_saved(tape, node, 0);
    mpl_eagle3_end_saved(tape, node, 1);
}

/* The weight's gradient [hidden] out of partial sums [hidden, parts]. */
static struct mpl_tensor *sum_up(struct mpl_tape *tape, const struct mpl_node *node,
                                 struct mpl_tensor *parts)
{
    const struct mpl_shape shape = mpl_rule_edge_shape(node, 0);
    struct mpl_tensor *sum =
        mpl_specforge_make(tape, "empty_strided_cuda", (enum mpl_dtype)node->edges[0].dtype, shape);

    mpl_drop(tape, parts);
    return sum;
}

/* Both in one kernel, whose workspace [rows, hidden] an eager operator sums in float32. */
static void mixed_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **in)
{
    const struct mpl_specforge *s = node->context;
    const struct mpl_dim hidden = mpl_dim(s->sizes.hidden);
    struct mpl_tensor *sums, *wide;

    in[1] = mpl_specforge_make(tape, "empty_strided_cuda", (enum mpl_dtype)node->edges[1].dtype,
                               mpl_rule_edge_shape(node, 1));
    sums = mpl_specforge_make(tape, "empty_strided_cuda", MPL_FLOAT32,
                              mpl_shape2(mpl_eagle3_mixed_rows(&s->sizes), hidden));
    wide = mpl_specforge_make(tape, "sum.dim_IntList", MPL_FLOAT32, mpl_shape1(hidden));
    in[0] = sum_up(tape, node, wide);
    mpl_drop(tape, sums);
}

/* Saved: input, 1/rms. Edges: weight, input. */
static void norm_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **in)
{
    const struct mpl_specforge *s = node->context;
    const struct mpl_shape shape =
        mpl_shape2(mpl_dim(s->sizes.hidden), mpl_dim(mpl_eagle3_split(&s->sizes)));
    struct mpl_tensor *grad = as_traced(tape, &out[0]), *parts;
    const bool has_input = mpl_needs(node, 1);

    if (has_input && mpl_eagle3_is_mixed_order(&s->sizes)) {
        mixed_backward(tape, node, in);
    } else if (has_input) {
        parts = mpl_specforge_make(tape, "empty_strided_cuda", MPL_FLOAT32, shape);
        in[0] = sum_up(tape, node, parts);
        in[1] = mpl_specforge_make(tape, "empty_strided_cuda", (enum mpl_dtype)grad->dtype,
                                   mpl_rule_edge_shape(node, 1));
    } else {
        parts = mpl_specforge_make(tape, "empty_strided_cuda", MPL_FLOAT32, shape);
        end_saves(tape, node);
        mpl_drop(tape, grad);
        in[0] = sum_up(tape, node, parts);
        return;
    }
    end_saves(tape, node);
    mpl_drop(tape, grad);
}

struct mpl_tensor *mpl_specforge_norm(struct mpl_tape *tape, struct mpl_specforge *s,
                                      enum mpl_specforge_weight i, struct mpl_tensor *x)
{
    struct mpl_tensor *weight = mpl_specforge_weight(s, i), *rstd, *out;
    struct mpl_node *node = mpl_node_new(tape, "CompiledFunctionBackward", norm_backward,
                                         (struct mpl_tensor *[]){weight, x}, 2, 1, 2);

    rstd = mpl_specforge_make(tape, "empty_strided_cuda", MPL_FLOAT32, mpl_specforge_shape(s, 1));
    out = mpl_empty(tape, "empty_strided_cuda", (enum mpl_dtype)x->dtype, &x->shape);
    mpl_save(tape, node, x);
    mpl_save_output(tape, node, rstd);
    if (node)
        node->context = s;
    mpl_set_history(tape, out, node, 0);
    mpl_drop(tape, rstd);
    return out;
}

/* Saved: positions, and cosines and sines where they are copies; edges: query, key [batch, heads,
 * length, head_dim]. */
static void rotary_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                            struct mpl_tensor **in)
{
    struct mpl_tensor *tangents[2];

    for (int i = 0; i < 2; i++)
        tangents[i] = contiguous(tape, out[i]);
    for (int i = 0; i < 2; i++) {
        mpl_drop(tape, out[i]);
        out[i] = tangents[i];
    }
    for (int i = 1; i >= 0; i--) {
        in[i] = mpl_specforge_make(tape, "empty_strided_cuda", (enum mpl_dtype)node->edges[i].dtype,
                                   mpl_rule_edge_shape(node, i));
        for (int k = 0; k < node->saved_count && !i; k++)
            mpl_eagle3_end_saved(tape, node, k);
        mpl_drop(tape, out[i]);
        out[i] = NULL;
    }
}

/* FSDP keeps buffers in a format of its own; cosines and sines are then cast to that of queries. */
static bool has_wide_tables(const struct mpl_specforge *s)
{
    return !s->has_grown && s->network->plan->parallelism.strategy == MPL_STRATEGY_FSDP1 &&
           s->network->plan->parallelism.buffer_dtype != s->sizes.layer_dtype;
}

/* LlamaRotaryEmbedding.forward: cosines and sines of all positions so far; both held. Tables that
 * are too short are made anew, in the format of queries. */
static void take_tables(struct mpl_tape *tape, struct mpl_specforge *s,
                        struct mpl_tensor *tables[2])
{
    const struct mpl_dim reach = {s->length.n + s->step, s->length.degree};
    const struct mpl_shape shape = mpl_shape2(reach, mpl_dim(s->sizes.head_dim));
    const bool grows = reach.n > s->table_rows;

    for (int i = 0; i < 2; i++) {
        struct mpl_parameter *table = &s->network->parameters[s->weight[MPL_SPECFORGE_COS + i]];

        if (!grows && !has_wide_tables(s)) {
            tables[i] = mpl_hold(table->tensor);
            continue;
        }
        tape->category = grows ? MPL_CATEGORY_BUFFERS : MPL_CATEGORY_TEMPORARY;
        tables[i] = mpl_specforge_make(tape, "empty_strided_cuda", s->sizes.layer_dtype, shape);
        tape->category = MPL_CATEGORY_TEMPORARY;
    }
    if (!grows)
        return;
    for (int i = 0; i < 2; i++) {
        struct mpl_parameter *table = &s->network->parameters[s->weight[MPL_SPECFORGE_COS + i]];

        mpl_drop(tape, table->tensor);
        table->tensor = mpl_hold(tables[i]);
    }
    s->table_rows = reach.n;
    s->has_grown = true;
}

/* apply_rotary_pos_emb(q, k, cos, sin, position_ids + step): takes held q and k, gives both held.
 */
static void rotate(struct mpl_tape *tape, struct mpl_specforge *s, struct mpl_tensor **q,
                   struct mpl_tensor **k)
{
    struct mpl_node *node = mpl_node_new(tape, "CompiledFunctionBackward", rotary_backward,
                                         (struct mpl_tensor *[]){*q, *k}, 2, 2, 3);
    struct mpl_tensor *tables[2] = {NULL, NULL}, *positions, *q_out, *k_out;

    take_tables(tape, s, tables);
    mpl_save(tape, node, tables[0]);
    mpl_save(tape, node, tables[1]);
    positions =
        mpl_specforge_make(tape, "add.Tensor", MPL_INT64, mpl_shape2(mpl_dim(1), s->length));
    q_out = mpl_empty_like(tape, "empty_strided_cuda", (enum mpl_dtype)(*q)->dtype, *q, NULL);
    k_out = mpl_empty_like(tape, "empty_strided_cuda", (enum mpl_dtype)(*k)->dtype, *k, NULL);
    mpl_save(tape, node, positions);
    mpl_drop(tape, positions);
    mpl_drop(tape, tables[0]);
    mpl_drop(tape, tables[1]);
    mpl_set_history(tape, q_out, node, 0);
    mpl_set_history(tape, k_out, node, 1);
    mpl_rebind(tape, q, q_out);
    mpl_rebind(tape, k, k_out);
}

/* ---- attention --------------------------------------------------------------------------------
 */

/* [batch, kv heads, length, d] for all heads: a copy where there are fewer. */
static struct mpl_tensor *repeat_kv(struct mpl_tape *tape, const struct mpl_specforge *s,
                                    struct mpl_tensor *x)
{
    const struct mpl_eagle3_sizes *z = &s->sizes;
    const struct mpl_dim kv = mpl_dim(z->kv / z->head_dim), d = mpl_dim(z->head_dim);
    const struct mpl_dim groups = mpl_dim(z->attention / z->kv);
    const struct mpl_shape wide = {5, {s->batch, kv, groups, s->length, d}};

    if (groups.n == 1)
        return x;
    x = mpl_op_expand(tape, mpl_op_unsqueeze(tape, x, 2), wide);
    return mpl_op_reshape(tape, x, mpl_shape4(s->batch, mpl_dim(z->heads), s->length, d));
}

/* Scores of each query with its own key of a later step, joined to the others. */
static void join_scores(struct mpl_tape *tape, struct mpl_specforge *s, struct mpl_tensor *q,
                        struct mpl_tensor **weights, struct mpl_tensor **last)
{
    for (int64_t i = 1; i <= s->step && !tape->is_stopped; i++) {
        struct mpl_tensor *product = mpl_op_mul(tape, q, s->keys[i]);

        mpl_rebind(tape, last, mpl_op_div_scalar(tape, mpl_op_sum_dim(tape, product, 3, false)));
        mpl_rebind(tape, weights, mpl_op_cat(tape, *weights, mpl_op_unsqueeze(tape, *last, 3), 3));
    }
}

/* attn_weights[..., :length] @ v0, then one column times the values of each later step. */
static struct mpl_tensor *attend(struct mpl_tape *tape, struct mpl_specforge *s,
                                 struct mpl_tensor *weights, struct mpl_tensor **last)
{
    /* a slice of everything is the tensor itself */
    struct mpl_tensor *first =
        mpl_hold(s->step ? mpl_op_slice_last(tape, weights, s->length) : weights);
    struct mpl_tensor *out, *term = NULL;

    out = mpl_hold(mpl_op_matmul(tape, first, s->values[0]));
    for (int64_t i = 1; i <= s->step && !tape->is_stopped; i++) {
        mpl_rebind(tape, last, mpl_op_select(tape, weights, 3));
        mpl_rebind(tape, &term, mpl_op_mul(tape, mpl_op_unsqueeze(tape, *last, 3), s->values[i]));
        mpl_rebind(tape, &out, mpl_op_add(tape, out, term));
    }
    mpl_drop(tape, first);
    mpl_rebind(tape, &out, mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2)));
    mpl_drop(tape, *last);
    *last = term; /* both live to the end of the function */
    return mpl_return(out);
}

/* LlamaAttention, which spells it out for all steps. */
static struct mpl_tensor *spelt_out(struct mpl_tape *tape, struct mpl_specforge *s,
                                    struct mpl_tensor *q, struct mpl_tensor **k,
                                    struct mpl_tensor **v)
{
    const struct mpl_eagle3_sizes *z = &s->sizes;
    struct mpl_tensor *weights, *last = NULL, *out;

    if (z->attention != z->kv) {
        mpl_rebind(tape, k, repeat_kv(tape, s, *k));
        mpl_rebind(tape, v, repeat_kv(tape, s, *v));
    }
    s->keys[s->step] = mpl_hold(*k);
    s->values[s->step] = mpl_hold(*v);
    weights = mpl_hold(
        mpl_op_div_scalar(tape, mpl_op_matmul(tape, q, mpl_op_transpose(tape, s->keys[0], 2, 3))));
    mpl_rebind(tape, &weights, mpl_op_add(tape, weights, s->l.mask));
    join_scores(tape, s, q, &weights, &last);
    mpl_rebind(tape, &weights,
               mpl_op_to(tape, mpl_op_softmax(tape, weights, MPL_FLOAT32), z->layer_dtype));
    out = attend(tape, s, weights, &last);
    s->l.term = last; /* to the end of the function */
    s->l.weights = weights;
    return out;
}

/* The last step that compiles, the third (later ones have its graph with other sizes), leaves what
 * it was called with in reference cycles, from PyTorch 2.11 on. */
static void leave_garbage(struct mpl_specforge *s, struct mpl_tensor *bundle)
{
    const int64_t last = s->sizes.steps < 3 ? s->sizes.steps : 3;
    const struct mpl_version *v = &s->network->plan->pytorch;
    const bool has_garbage = v->major > 2 || (v->major == 2 && v->minor >= 11);

    if (!has_garbage || s->has_compiled || s->step + 1 != last)
        return;
    s->has_compiled = true;
    s->garbage[0] = mpl_hold(s->keys[0]);
    s->garbage[1] = mpl_hold(s->values[0]);
    s->garbage[2] = mpl_hold(bundle);
}

/* LlamaFlexAttention: the cache is joined anew, and so is its block mask. */
static struct mpl_tensor *flex(struct mpl_tape *tape, struct mpl_specforge *s, struct mpl_tensor *q,
                               struct mpl_tensor *k, struct mpl_tensor *v)
{
    const struct mpl_dim blocks = {(s->length.n + MPL_BLOCK_TOKENS - 1) / MPL_BLOCK_TOKENS,
                                   s->length.degree};
    const int64_t length = s->length.n * (s->step + 1);
    const struct mpl_dim keys = {(length + MPL_BLOCK_TOKENS - 1) / MPL_BLOCK_TOKENS,
                                 s->length.degree};
    struct mpl_tensor *places =
        mpl_specforge_make(tape, "arange.start", MPL_INT64, mpl_shape1(s->length));
    struct mpl_tensor *lengths, *bundle, *out;
    struct mpl_block_mask mask;

    mpl_eagle3_append(tape, &s->keys[0], k);
    mpl_eagle3_append(tape, &s->values[0], v);
    lengths = mpl_specforge_make(tape, "sum.dim_IntList", MPL_INT64, mpl_shape1(s->batch));
    mpl_block_mask_make_wide(tape, s->batch, blocks, keys, &mask);
    bundle = mpl_block_mask_bundle(tape, &mask, lengths);
    out = mpl_op_flex_attention(tape, q, s->keys[0], s->values[0], bundle, NULL);
    leave_garbage(s, bundle);
    mpl_drop(tape, bundle);
    s->l.term = places; /* to the end of the function */
    return mpl_op_contiguous(tape, mpl_op_transpose(tape, out, 1, 2));
}

struct mpl_tensor *mpl_specforge_attention(struct mpl_tape *tape, struct mpl_specforge *s,
                                           struct mpl_tensor *x)
{
    const struct mpl_eagle3_sizes *z = &s->sizes;
    struct mpl_tensor *q, *k, *v, *out;

    x = mpl_hold(x);
    q = mpl_hold(mpl_op_linear(tape, x, mpl_specforge_weight(s, MPL_SPECFORGE_Q), NULL));
    k = mpl_hold(mpl_op_linear(tape, x, mpl_specforge_weight(s, MPL_SPECFORGE_K), NULL));
    v = mpl_hold(mpl_op_linear(tape, x, mpl_specforge_weight(s, MPL_SPECFORGE_V), NULL));
    mpl_rebind(tape, &q, mpl_split_heads(tape, q, z->heads, z->head_dim));
    mpl_rebind(tape, &k, mpl_split_heads(tape, k, z->kv / z->head_dim, z->head_dim));
    mpl_rebind(tape, &v, mpl_split_heads(tape, v, z->kv / z->head_dim, z->head_dim));
    rotate(tape, s, &q, &k);
    out = s->is_flex ? flex(tape, s, q, k, v) : spelt_out(tape, s, q, &k, &v);
    if (!out->is_void)
        out = mpl_op_reshape(tape, out, mpl_specforge_shape(s, z->attention));
    out = mpl_op_linear(tape, out, mpl_specforge_weight(s, MPL_SPECFORGE_O), NULL);
    mpl_drop(tape, k);
    mpl_drop(tape, v);
    mpl_drop(tape, s->l.term);
    mpl_drop(tape, s->l.weights);
    s->l.term = s->l.weights = NULL;
    mpl_drop(tape, q);
    mpl_drop(tape, x);
    return out;
}

/* ---- layer ------------------------------------------------------------------------------------
 */

static struct mpl_tensor *mlp(struct mpl_tape *tape, struct mpl_specforge *s, struct mpl_tensor *x)
{
    struct mpl_tensor *gate = mpl_op_silu(
        tape, mpl_op_linear(tape, x, mpl_specforge_weight(s, MPL_SPECFORGE_GATE), NULL));
    struct mpl_tensor *up = mpl_op_linear(tape, x, mpl_specforge_weight(s, MPL_SPECFORGE_UP), NULL);

    return mpl_op_linear(tape, mpl_op_mul(tape, gate, up),
                         mpl_specforge_weight(s, MPL_SPECFORGE_DOWN), NULL);
}

struct mpl_tensor *mpl_specforge_layer(struct mpl_tape *tape, struct mpl_specforge *s,
                                       struct mpl_tensor *embeds, struct mpl_tensor *hidden)
{
    struct mpl_tensor *h = mpl_hold(mpl_specforge_norm(tape, s, MPL_SPECFORGE_HIDDEN_NORM, hidden));
    struct mpl_tensor *normed =
        mpl_hold(mpl_specforge_norm(tape, s, MPL_SPECFORGE_INPUT_NORM, embeds));
    struct mpl_tensor *residual;

    mpl_rebind(tape, &h, mpl_op_cat(tape, normed, h, 2));
    mpl_rebind(tape, &h, mpl_specforge_attention(tape, s, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, hidden, h));
    residual = mpl_hold(h);
    mpl_rebind(tape, &h, mpl_specforge_norm(tape, s, MPL_SPECFORGE_POST_NORM, h));
    mpl_rebind(tape, &h, mlp(tape, s, h));
    mpl_rebind(tape, &h, mpl_op_add(tape, residual, h));
    mpl_drop(tape, residual);
    mpl_drop(tape, normed);
    return mpl_return(h);
}
