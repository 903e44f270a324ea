/* SPDX-License-Identifier: MIT */
/*
 * The drafter layer's compiled backward as a kernel table.
 *
 * Letters: n tokens, h hidden, I inner, a query heads, k key/value heads (times head_dim), C cache
 * of min(step, 3) blocks. Kernels are those of the generated code: projections are library calls,
 * what lies between is fused. RoPE of q and k is one kernel when both are equally wide.
 *
 * source: generated code of speculators.models.eagle3 (model_definitions.py) under PyTorch 2.13
 */
#include "arch/eagle3_table.h"

static const char *const buffer_names[MPL_EAGLE3_BUF_COUNT] = {
    "buf0",  "buf1",  "buf2",  "buf3",  "buf4",  "buf5",  "buf6",  "buf7",  "buf8",
    "buf9",  "buf10", "buf11", "buf12", "buf13", "buf14", "buf15", "buf16", "buf17",
    "buf18", "buf19", "buf20", "buf21", "buf22", "buf23", "buf24", "buf25", "buf26",
    "buf27", "buf28", "buf29", "buf30", "buf31", "buf32", "buf33", "buf34", "buf35",
    "buf36", "buf37", "buf38", "buf39", "buf40", "buf41",
};

/* Buffer bufN [rows, cols] in the layer's format. */
static struct mpl_inductor_value *buf(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, unsigned flags)
{
    return named(t, buffer_names[number], number, rows, cols, t->s->layer_dtype, flags);
}

/* The same in float32. */
static struct mpl_inductor_value *wide(struct table *t, uint8_t number, struct mpl_dim rows,
                                       int64_t cols, unsigned flags)
{
    return named(t, buffer_names[number], number, rows, cols, MPL_FLOAT32, flags);
}

/* Partial sums of a norm's weight gradient. */
static void partial(struct table *t, uint8_t number, unsigned flags)
{
    const struct mpl_dim rows = {mpl_eagle3_split(t->s), t->s->tokens.degree};

    wide(t, number, rows, t->s->hidden, flags);
}

/* A norm's weight gradient [h] in the layer's format. */
static void norm_weight(struct table *t, uint8_t number, unsigned flags)
{
    buf(t, number, mpl_dim(1), t->s->hidden, flags | RESULT);
}

static void input(struct table *t, uint8_t number, const char *name, int64_t cols)
{
    mpl_inductor_input(t->graph, number, name, MPL_INDUCTOR_INPUT, t->s->tokens, mpl_dim(cols),
                       t->s->layer_dtype);
}

static void wide_input(struct table *t, uint8_t number, const char *name, int64_t cols)
{
    mpl_inductor_input(t->graph, number, name, MPL_INDUCTOR_INPUT, t->s->tokens, mpl_dim(cols),
                       MPL_FLOAT32);
}

static void outside(struct table *t, uint8_t number, const char *name)
{
    mpl_inductor_input(t->graph, number, name, MPL_INDUCTOR_OUTSIDE, mpl_dim(0), mpl_dim(0),
                       t->s->layer_dtype);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

static void backward_inputs(struct table *t)
{
    const struct mpl_eagle3_sizes *s = t->s;
    struct mpl_inductor_graph *graph = t->graph;
    const struct mpl_dim keys = t->is_first ? s->tokens : t->cache;

    input(t, MPL_EAGLE3_IN_PRODUCT, "view_16", s->inner);
    input(t, MPL_EAGLE3_IN_GATED, "mm_4", s->inner);
    input(t, MPL_EAGLE3_IN_UPPED, "mm_5", s->inner);
    input(t, MPL_EAGLE3_IN_NORMED_POST, "view_12", s->hidden);
    input(t, MPL_EAGLE3_IN_RESIDUAL, "add_4", s->hidden);
    wide_input(t, MPL_EAGLE3_IN_RSTD_POST, "rsqrt_2", 1);
    input(t, MPL_EAGLE3_IN_ATTENTION_T, "view_10", s->attention);
    input(t, MPL_EAGLE3_IN_ATTENTION, "getitem_2", s->attention);
    wide_input(t, MPL_EAGLE3_IN_LSE, "getitem_3", s->heads);
    input(t, MPL_EAGLE3_IN_NORMED, "view", 2 * s->hidden);
    input(t, MPL_EAGLE3_IN_QUERY, t->is_first ? "clone_2" : "clone", s->attention);
    mpl_inductor_input(graph, MPL_EAGLE3_IN_KEY, t->is_first ? "clone_3" : "cat_3",
                       MPL_INDUCTOR_INPUT, keys, mpl_dim(s->kv), s->layer_dtype);
    mpl_inductor_input(graph, MPL_EAGLE3_IN_VALUE, t->is_first ? "clone_4" : "cat_4",
                       MPL_INDUCTOR_INPUT, keys, mpl_dim(s->kv), s->layer_dtype);
    if (!s->is_broken) {
        wide_input(t, MPL_EAGLE3_IN_RSTD_INPUT, "rsqrt", 1);
        wide_input(t, MPL_EAGLE3_IN_RSTD_HIDDEN, "rsqrt_1", 1);
        outside(t, MPL_EAGLE3_IN_INPUT, "primals_1");
    }
    outside(t, MPL_EAGLE3_IN_COS, "cos");
    outside(t, MPL_EAGLE3_IN_SIN, "sin");
    for (uint8_t i = 0; i < MPL_EAGLE3_MASKS; i++)
        outside(t, (uint8_t)(MPL_EAGLE3_IN_MASK + i), "primals_masks");
    outside(t, MPL_EAGLE3_IN_TANGENT, "tangents_1");
    outside(t, MPL_EAGLE3_IN_TANGENT_V, "tangents_2");
    outside(t, MPL_EAGLE3_IN_TANGENT_K, "tangents_3");
}

static void backward_mlp(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, inner = t->s->inner;

    kernel(t, LIST(MPL_EAGLE3_IN_PRODUCT), LIST(MPL_EAGLE3_IN_TANGENT));
    buf(t, 0, mpl_dim(h), inner, RESULT);
    kernel(t, NOTHING, LIST(MPL_EAGLE3_IN_TANGENT));
    buf(t, 1, n, inner, 0);
    kernel(t, LIST(1, MPL_EAGLE3_IN_GATED, MPL_EAGLE3_IN_UPPED), NOTHING);
    buf(t, 2, n, inner, 0);
    buf(t, 5, n, inner, 0)->in_place_of = MPL_EAGLE3_IN_UPPED;
    kernel(t, LIST(2, MPL_EAGLE3_IN_NORMED_POST), NOTHING);
    buf(t, 3, mpl_dim(inner), h, RESULT);
    kernel(t, LIST(2), NOTHING);
    buf(t, 4, n, h, 0);
    kernel(t, LIST(5, MPL_EAGLE3_IN_NORMED_POST), NOTHING);
    buf(t, 6, mpl_dim(inner), h, RESULT);
    kernel(t, LIST(5), NOTHING);
    buf(t, 7, n, h, 0);
}

static void backward_post_norm(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;
    const unsigned residual = t->s->is_broken ? RESULT : 0;
    const uint8_t *reads = LIST(4, 7, MPL_EAGLE3_IN_RESIDUAL, MPL_EAGLE3_IN_RSTD_POST);
    const uint8_t *tangent = LIST(MPL_EAGLE3_IN_TANGENT);

    if (t->is_mixed) {
        kernel(t, reads, tangent)->summed = 9;
        wide(t, 10, n, 1, UNBOOKED);
        buf(t, 11, n, h, residual);
        partial(t, 8, UNBOOKED);
        kernel(t, LIST(8), NOTHING);
        norm_weight(t, 9, UNBOOKED);
        return;
    }
    kernel(t, reads, NOTHING);
    partial(t, 8, 0);
    kernel(t, LIST(8), NOTHING);
    norm_weight(t, 9, 0);
    kernel(t, reads, tangent);
    wide(t, 10, n, 1, UNBOOKED);
    buf(t, 11, n, h, residual)->in_place_of = 4;
}

/* The attention kernel: dK first, then dQ and dV as buffers handed in. */
static void backward_attention(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;
    uint8_t others[MPL_EAGLE3_MASKS + 2], count = 0;

    kernel(t, LIST(11, MPL_EAGLE3_IN_ATTENTION_T), NOTHING);
    buf(t, 12, mpl_dim(t->s->hidden), a, RESULT);
    kernel(t, LIST(11), NOTHING);
    buf(t, 13, n, a, 0);
    kernel(t, LIST(13, MPL_EAGLE3_IN_ATTENTION), NOTHING);
    buf(t, 14, n, t->s->heads, UNBOOKED);
    wide(t, 15, n, t->s->heads, 0);
    no_op(t, NOTHING);
    buf(t, 16, n, a, HEADS_APART);
    no_op(t, NOTHING);
    buf(t, 17, t->cache, k, SYMBOLIC | HEADS_APART);
    for (; count < MPL_EAGLE3_MASKS; count++)
        others[count] = (uint8_t)(MPL_EAGLE3_IN_MASK + count);
    if (!t->is_first && !t->is_dynamic)
        others[count++] = MPL_EAGLE3_IN_TANGENT_K;
    others[count] = MPL_INDUCTOR_NONE;
    kernel(t,
           LIST(13, 15, 16, 17, MPL_EAGLE3_IN_LSE, MPL_EAGLE3_IN_QUERY, MPL_EAGLE3_IN_KEY,
                MPL_EAGLE3_IN_VALUE),
           others);
    buf(t, 18, t->cache, k, t->is_first || t->is_dynamic ? SYMBOLIC | HEADS_APART : UNBOOKED);
    buf(t, 19, mpl_dim(0), 1, UNBOOKED);
    buf(t, 20, mpl_dim(0), 1, UNBOOKED);
    if (!t->is_first && !t->is_dynamic)
        buf(t, 22, t->cache, k, RESULT | HEADS_APART);
}

/* Through the values' projection. */
static void backward_values(struct table *t)
{
    const int64_t h = t->s->hidden, k = t->s->kv;

    kernel(t, LIST(23, MPL_EAGLE3_IN_NORMED), NOTHING);
    buf(t, 24, mpl_dim(k), 2 * h, RESULT);
    kernel(t, LIST(23), NOTHING);
    buf(t, 25, t->s->tokens, 2 * h, 0);
}

/* Gradients of keys and values of the first step; what later steps added to them comes in. */
static void backward_first_heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;
    const uint8_t *rotary = LIST(MPL_EAGLE3_IN_COS, MPL_EAGLE3_IN_SIN);

    if (t->is_grouped) {
        kernel(t, LIST(18), LIST(MPL_EAGLE3_IN_TANGENT_K));
        buf(t, 21, n, k, 0);
    } else {
        kernel(t, LIST(16, 18, 19),
               LIST(MPL_EAGLE3_IN_COS, MPL_EAGLE3_IN_SIN, MPL_EAGLE3_IN_TANGENT_K));
        buf(t, 21, n, k, 0);
        buf(t, 29, n, a, 0);
    }
    kernel(t, LIST(17, 20), LIST(MPL_EAGLE3_IN_TANGENT_V));
    buf(t, 23, n, k, 0);
    backward_values(t);
    kernel(t, LIST(21), t->is_grouped ? rotary : NOTHING);
    buf(t, 26, n, k, 0);
}

static void backward_later_heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;
    const uint8_t *rotary = LIST(MPL_EAGLE3_IN_COS, MPL_EAGLE3_IN_SIN);

    kernel(t, LIST(17, 20), LIST(MPL_EAGLE3_IN_TANGENT_V));
    buf(t, 21, t->cache, k, RESULT | SYMBOLIC | HEADS_APART);
    if (t->is_dynamic) {
        kernel(t, LIST(18), LIST(MPL_EAGLE3_IN_TANGENT_K));
        buf(t, 22, t->cache, k, RESULT | SYMBOLIC | HEADS_APART)->in_place_of = 18;
    }
    kernel(t, LIST(21), NOTHING);
    buf(t, 23, n, k, 0);
    backward_values(t);
    kernel(t, t->is_grouped ? LIST(22) : LIST(16, 19, 22), rotary);
    buf(t, 26, n, k, 0);
    if (!t->is_grouped)
        buf(t, 29, n, a, 0);
}

static void backward_projections(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv, h = t->s->hidden;

    kernel(t, LIST(26, MPL_EAGLE3_IN_NORMED), NOTHING);
    buf(t, 27, mpl_dim(k), 2 * h, RESULT);
    kernel(t, LIST(26), NOTHING);
    buf(t, 28, n, 2 * h, 0);
    if (t->is_grouped) {
        kernel(t, LIST(16, 19), LIST(MPL_EAGLE3_IN_COS, MPL_EAGLE3_IN_SIN));
        buf(t, 29, n, a, 0);
    }
    kernel(t, LIST(29, MPL_EAGLE3_IN_NORMED), NOTHING);
    buf(t, 30, mpl_dim(a), 2 * h, RESULT);
    kernel(t, LIST(29), NOTHING);
    buf(t, 31, n, 2 * h, 0);
}

#define HEADS 25, 28, 31
#define RSTDS MPL_EAGLE3_IN_RSTD_INPUT, MPL_EAGLE3_IN_RSTD_HIDDEN

static void backward_mixed_norms(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;

    kernel(t, LIST(11, HEADS, RSTDS), NOTHING)->summed = 33;
    wide(t, 38, n, 1, UNBOOKED);
    buf(t, 39, n, h, 0)->part_of = 41;
    partial(t, 32, UNBOOKED);
    kernel(t, LIST(32), NOTHING);
    norm_weight(t, 33, UNBOOKED);
    kernel(t, LIST(11, HEADS), NOTHING);
    wide(t, 34, n, h, 0);
    kernel(t, LIST(HEADS, 34, RSTDS), LIST(MPL_EAGLE3_IN_INPUT))->summed = 37;
    wide(t, 35, n, 1, UNBOOKED);
    buf(t, 40, n, h, 0)->part_of = 41;
    partial(t, 36, UNBOOKED);
    kernel(t, LIST(36), NOTHING);
    norm_weight(t, 37, UNBOOKED);
    no_op(t, LIST(39, 40));
    buf(t, 41, n, 2 * h, RESULT);
}

static void backward_split_norms(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;
    const uint8_t *x = LIST(MPL_EAGLE3_IN_INPUT);

    kernel(t, LIST(11, HEADS, MPL_EAGLE3_IN_RSTD_HIDDEN), x);
    partial(t, 32, 0);
    kernel(t, LIST(32), NOTHING);
    norm_weight(t, 33, 0);
    kernel(t, LIST(11, HEADS, MPL_EAGLE3_IN_RSTD_HIDDEN), x);
    wide(t, 34, n, h, 0);
    wide(t, 35, n, 1, UNBOOKED);
    buf(t, 40, n, h, 0)->part_of = 41;
    kernel(t, LIST(HEADS, MPL_EAGLE3_IN_RSTD_INPUT), x);
    partial(t, 36, 0);
    kernel(t, LIST(36), NOTHING);
    norm_weight(t, 37, 0);
    kernel(t, LIST(HEADS, MPL_EAGLE3_IN_RSTD_INPUT), x);
    wide(t, 38, n, 1, UNBOOKED);
    buf(t, 39, n, h, 0)->part_of = 41;
    no_op(t, LIST(40, 39));
    buf(t, 41, n, 2 * h, RESULT);
}

void mpl_eagle3_table_backward(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                               int64_t ttt_step)
{
    struct table t = begin_table(graph, s, ttt_step);

    backward_inputs(&t);
    backward_mlp(&t);
    backward_post_norm(&t);
    backward_attention(&t);
    if (t.is_first)
        backward_first_heads(&t);
    else
        backward_later_heads(&t);
    backward_projections(&t);
    if (s->is_broken) {
        kernel(&t, LIST(HEADS), NOTHING);
        buf(&t, 32, s->tokens, 2 * s->hidden, RESULT)->in_place_of = 25;
    } else if (t.is_mixed) {
        backward_mixed_norms(&t);
    } else {
        backward_split_norms(&t);
    }
}

static void norms_mixed(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;
    const uint8_t *tangents =
        LIST(MPL_EAGLE3_IN_TANGENT, MPL_EAGLE3_IN_TANGENT_V, MPL_EAGLE3_IN_INPUT);

    kernel(t, LIST(RSTDS), tangents)->summed = 1;
    wide(t, 2, n, 1, UNBOOKED);
    buf(t, 7, n, h, 0)->part_of = 8;
    partial(t, 0, UNBOOKED);
    kernel(t, LIST(0), NOTHING);
    norm_weight(t, 1, UNBOOKED);
    kernel(t, LIST(RSTDS), tangents)->summed = 4;
    wide(t, 5, n, 1, UNBOOKED);
    buf(t, 6, n, h, 0)->part_of = 8;
    partial(t, 3, UNBOOKED);
    kernel(t, LIST(3), NOTHING);
    norm_weight(t, 4, UNBOOKED);
}

static void norms_split(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;

    kernel(t, LIST(MPL_EAGLE3_IN_RSTD_HIDDEN), NOTHING);
    partial(t, 0, 0);
    kernel(t, LIST(0), NOTHING);
    norm_weight(t, 1, 0);
    kernel(t, LIST(MPL_EAGLE3_IN_RSTD_HIDDEN), LIST(MPL_EAGLE3_IN_TANGENT_V));
    wide(t, 2, n, 1, UNBOOKED);
    buf(t, 7, n, h, 0)->part_of = 8;
    kernel(t, LIST(MPL_EAGLE3_IN_RSTD_INPUT), NOTHING);
    partial(t, 3, 0);
    kernel(t, LIST(3), NOTHING);
    norm_weight(t, 4, 0);
    kernel(t, LIST(MPL_EAGLE3_IN_RSTD_INPUT), LIST(MPL_EAGLE3_IN_INPUT, MPL_EAGLE3_IN_TANGENT));
    wide(t, 5, n, 1, UNBOOKED);
    buf(t, 6, n, h, 0)->part_of = 8;
}

void mpl_eagle3_table_norms_backward(struct mpl_inductor_graph *graph,
                                     const struct mpl_eagle3_sizes *s)
{
    struct table t = begin_table(graph, s, 1);

    wide_input(&t, MPL_EAGLE3_IN_RSTD_INPUT, "rsqrt", 1);
    wide_input(&t, MPL_EAGLE3_IN_RSTD_HIDDEN, "rsqrt_1", 1);
    outside(&t, MPL_EAGLE3_IN_INPUT, "primals_1");
    outside(&t, MPL_EAGLE3_IN_TANGENT, "tangents_1");   /* of the cat */
    outside(&t, MPL_EAGLE3_IN_TANGENT_V, "tangents_2"); /* of the residual */
    if (t.is_mixed)
        norms_mixed(&t);
    else
        norms_split(&t);
    no_op(&t, LIST(7, 6));
    buf(&t, 8, s->tokens, 2 * s->hidden, RESULT);
}
