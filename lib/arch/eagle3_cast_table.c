/* SPDX-License-Identifier: MIT */
/*
 * The backward of the drafter's layer where compiled code casts float32 weights, as a kernel table.
 *
 * Letters: n tokens, h hidden, I inner, a query heads, k key/value heads (times head_dim). Kernels
 * are those of the generated code: each weight's gradient is a product in the narrow format and a
 * cast.
 *
 * source: as eagle3_cast.c
 */
#include "arch/eagle3_cast.h"
#include "arch/eagle3_table.h"

#define OF(name) MPL_EAGLE3_CAST_##name

static const char *const names[MPL_EAGLE3_BUF_COUNT] = {
    "buf0",  "buf1",  "buf2",  "buf3",  "buf4",  "buf5",  "buf6",  "buf7",  "buf8",
    "buf9",  "buf10", "buf11", "buf12", "buf13", "buf14", "buf15", "buf16", "buf17",
    "buf18", "buf19", "buf20", "buf21", "buf22", "buf23", "buf24", "buf25", "buf26",
    "buf27", "buf28", "buf29", "buf30", "buf31", "buf32", "buf33", "buf34", "buf35",
    "buf36", "buf37", "buf38", "buf39", "buf40", "buf41",
};

static struct mpl_inductor_value *buf(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, unsigned flags)
{
    return named(t, names[number], number, rows, cols, t->s->cast_dtype, flags);
}

static struct mpl_inductor_value *wide(struct table *t, uint8_t number, struct mpl_dim rows,
                                       int64_t cols, unsigned flags)
{
    return named(t, names[number], number, rows, cols, MPL_FLOAT32, flags);
}

static void put_in(struct table *t, uint8_t number, const char *name, struct mpl_dim rows,
                   int64_t cols)
{
    mpl_inductor_input(t->graph, number, name, MPL_INDUCTOR_INPUT, rows, mpl_dim(cols),
                       t->s->cast_dtype);
}

static void outside(struct table *t, uint8_t number, const char *name)
{
    mpl_inductor_input(t->graph, number, name, MPL_INDUCTOR_OUTSIDE, mpl_dim(0), mpl_dim(0),
                       MPL_FLOAT32);
}

static void states(struct table *t)
{
    const struct mpl_eagle3_sizes *s = t->s;
    const struct mpl_dim n = s->tokens, keys = t->is_first ? n : t->cache;

    put_in(t, OF(PRODUCT), "view_16", n, s->inner);
    put_in(t, OF(GATED), "mm_4", n, s->inner);
    put_in(t, OF(UPPED), "mm_5", n, s->inner);
    put_in(t, OF(NORMED_POST), "view_12", n, s->hidden);
    put_in(t, OF(PROJECTED), "mm_3", n, s->hidden);
    mpl_inductor_input(t->graph, OF(RSTD), "rsqrt", MPL_INDUCTOR_INPUT, n, mpl_dim(1), MPL_FLOAT32);
    put_in(t, OF(ATTENTION_T), "view_10", n, s->attention);
    put_in(t, OF(ATTENTION), "getitem", n, s->attention);
    mpl_inductor_input(t->graph, OF(LSE), "getitem_1", MPL_INDUCTOR_INPUT, n, mpl_dim(s->heads),
                       MPL_FLOAT32);
    put_in(t, OF(NORMED), "view", n, 2 * s->hidden);
    put_in(t, OF(QUERY), "convert_element_type_12", n, s->attention);
    put_in(t, OF(KEY), "convert_element_type_13", keys, s->kv);
    put_in(t, OF(VALUE), "convert_element_type_14", keys, s->kv);
}

static void inputs(struct table *t)
{
    const struct mpl_eagle3_sizes *s = t->s;
    const int64_t h = s->hidden, a = s->attention, k = s->kv;

    states(t);
    put_in(t, OF(W_DOWN), "permute_13", mpl_dim(h), s->inner);
    put_in(t, OF(W_UP), "permute_17", mpl_dim(s->inner), h);
    put_in(t, OF(W_GATE), "permute_21", mpl_dim(s->inner), h);
    put_in(t, OF(W_O), "permute_25", mpl_dim(h), a);
    put_in(t, OF(W_V), "permute_31", mpl_dim(k), 2 * h);
    put_in(t, OF(W_K), "permute_36", mpl_dim(k), 2 * h);
    put_in(t, OF(W_Q), "permute_41", mpl_dim(a), 2 * h);
    outside(t, OF(RESIDUAL), "primals_17");
    outside(t, OF(COS), "primals_5");
    outside(t, OF(SIN), "primals_6");
    for (uint8_t i = 0; i < MPL_EAGLE3_MASKS; i++)
        outside(t, (uint8_t)(OF(MASK) + i), "primals_7");
    outside(t, OF(TANGENT), "tangents_1");
    outside(t, OF(TANGENT_V), "tangents_2");
    outside(t, OF(TANGENT_K), "tangents_3");
}

/* A weight's gradient [rows, cols] out of gradient and input, the input's gradient [n, cols] out
 * of gradient and weight, and the cast of the first. */
static void linear(struct table *t, uint8_t gradient, const uint8_t reads[2], uint8_t first,
                   int64_t rows, int64_t cols)
{
    kernel(t, LIST(gradient, reads[0]), NOTHING);
    buf(t, first, mpl_dim(rows), cols, 0);
    kernel(t, LIST(gradient, reads[1]), NOTHING);
    buf(t, (uint8_t)(first + 1), t->s->tokens, cols, 0);
    kernel(t, LIST(first), NOTHING);
    wide(t, (uint8_t)(first + 2), mpl_dim(rows), cols, RESULT);
}

static void mlp(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, inner = t->s->inner;

    kernel(t, NOTHING, LIST(OF(TANGENT)));
    buf(t, 0, n, h, 0);
    linear(t, 0, LIST(OF(PRODUCT), OF(W_DOWN)), 1, h, inner);
    kernel(t, LIST(2, OF(GATED), OF(UPPED)), NOTHING);
    buf(t, 4, n, inner, 0);
    buf(t, 8, n, inner, 0)->in_place_of = OF(UPPED);
    linear(t, 4, LIST(OF(NORMED_POST), OF(W_UP)), 5, inner, h);
    linear(t, 8, LIST(OF(NORMED_POST), OF(W_GATE)), 9, inner, h);
}

static void post_norm(struct table *t)
{
    const struct mpl_dim n = t->s->tokens, parts = {mpl_eagle3_split(t->s), n.degree};
    const int64_t h = t->s->hidden;
    const uint8_t *reads = LIST(6, 10, OF(PROJECTED), OF(RSTD));

    if (t->is_mixed) {
        kernel(t, reads, LIST(OF(RESIDUAL), OF(TANGENT)))->summed = 13;
        wide(t, 15, n, h, RESULT);
        buf(t, 16, n, h, 0)->in_place_of = 6;
        wide(t, 12, parts, h, UNBOOKED);
        kernel(t, LIST(12), NOTHING);
        wide(t, 13, mpl_dim(1), h, RESULT | UNBOOKED);
        return;
    }
    kernel(t, reads, LIST(OF(RESIDUAL)));
    wide(t, 12, parts, h, 0);
    kernel(t, LIST(12), NOTHING);
    wide(t, 13, mpl_dim(1), h, RESULT);
    kernel(t, reads, LIST(OF(RESIDUAL), OF(TANGENT)));
    wide(t, 15, n, h, RESULT);
    buf(t, 16, n, h, 0);
}

static void attention(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;
    const bool is_fused = !t->is_first && !t->is_dynamic; /* with what arrives for the keys */
    uint8_t others[MPL_EAGLE3_MASKS + 2], count = 0;

    linear(t, 16, LIST(OF(ATTENTION_T), OF(W_O)), 17, t->s->hidden, a);
    kernel(t, LIST(18, OF(ATTENTION)), NOTHING);
    wide(t, 21, n, t->s->heads, 0);
    no_op(t, NOTHING);
    buf(t, 22, n, a, HEADS_APART);
    no_op(t, NOTHING);
    buf(t, 23, t->cache, k, SYMBOLIC | HEADS_APART);
    for (; count < MPL_EAGLE3_MASKS; count++)
        others[count] = (uint8_t)(OF(MASK) + count);
    if (is_fused)
        others[count++] = OF(TANGENT_K);
    others[count] = MPL_INDUCTOR_NONE;
    kernel(t, LIST(18, 21, 22, 23, OF(LSE), OF(QUERY), OF(KEY), OF(VALUE)), others);
    buf(t, 24, t->cache, k, is_fused ? UNBOOKED : SYMBOLIC | HEADS_APART);
    if (is_fused)
        wide(t, 28, t->cache, k, RESULT | HEADS_APART);
    else
        buf(t, 25, mpl_dim(0), 1, UNBOOKED);
    buf(t, 26, mpl_dim(0), 1, UNBOOKED);
}

/* Gradients of this step's keys and values; what later steps added to them comes in. */
static void first_heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, k = t->s->kv;

    kernel(t, LIST(24), LIST(OF(TANGENT_K), OF(COS), OF(SIN)));
    buf(t, 27, n, k, 0);
    kernel(t, LIST(23, 26), LIST(OF(TANGENT_V)));
    buf(t, 28, n, k, 0);
    linear(t, 28, LIST(OF(NORMED), OF(W_V)), 29, k, 2 * h);
    kernel(t, LIST(27), NOTHING);
    buf(t, 32, n, k, 0);
    linear(t, 32, LIST(OF(NORMED), OF(W_K)), 33, k, 2 * h);
}

static void later_heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, k = t->s->kv;

    kernel(t, LIST(23, 26), LIST(OF(TANGENT_V)));
    wide(t, 27, t->cache, k, RESULT | SYMBOLIC | HEADS_APART);
    if (t->is_dynamic) {
        kernel(t, LIST(24), LIST(OF(TANGENT_K)));
        wide(t, 28, t->cache, k, RESULT | SYMBOLIC | HEADS_APART);
    }
    kernel(t, LIST(27), NOTHING);
    buf(t, 29, n, k, 0);
    linear(t, 29, LIST(OF(NORMED), OF(W_V)), 30, k, 2 * h);
    kernel(t, LIST(28), LIST(OF(COS), OF(SIN)));
    buf(t, 33, n, k, 0);
    linear(t, 33, LIST(OF(NORMED), OF(W_K)), 34, k, 2 * h);
}

/* Queries, and the sum of the three gradients of the normed cat; shift: how much later its buffers
 * stand in later steps. */
static void queries(struct table *t, uint8_t shift)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, a = t->s->attention;
    const uint8_t q = (uint8_t)(36 + shift);

    kernel(t, LIST(22, 25), LIST(OF(COS), OF(SIN)));
    buf(t, q, n, a, 0);
    kernel(t, LIST(q, OF(NORMED)), NOTHING);
    buf(t, (uint8_t)(q + 1), mpl_dim(a), 2 * h, 0);
    kernel(t, LIST(q, OF(W_Q)), NOTHING);
    buf(t, (uint8_t)(q + 2), n, 2 * h, 0);
    kernel(t, LIST((uint8_t)(30 + shift), (uint8_t)(34 + shift), (uint8_t)(q + 2)), NOTHING);
    wide(t, (uint8_t)(q + 3), n, 2 * h, RESULT);
    kernel(t, LIST((uint8_t)(q + 1)), NOTHING);
    wide(t, (uint8_t)(q + 4), mpl_dim(a), 2 * h, RESULT);
}

/* Norms of the input are in a graph of their own. */
uint8_t mpl_eagle3_cast_gradient(int64_t ttt_step, int edge)
{
    static const uint8_t first[MPL_EAGLE3_EDGES] = {
        [MPL_EAGLE3_EDGE_INPUT_NORM] = MPL_INDUCTOR_NONE,
        [MPL_EAGLE3_EDGE_HIDDEN_NORM] = MPL_INDUCTOR_NONE,
        [MPL_EAGLE3_EDGE_Q] = 40,
        [MPL_EAGLE3_EDGE_K] = 35,
        [MPL_EAGLE3_EDGE_V] = 31,
        [MPL_EAGLE3_EDGE_O] = 19,
        [MPL_EAGLE3_EDGE_POST_NORM] = 13,
        [MPL_EAGLE3_EDGE_UP] = 7,
        [MPL_EAGLE3_EDGE_GATE] = 11,
        [MPL_EAGLE3_EDGE_DOWN] = 3,
        [MPL_EAGLE3_EDGE_INPUT] = 39,
        [MPL_EAGLE3_EDGE_RESIDUAL] = 15,
        [MPL_EAGLE3_EDGE_KEYS] = MPL_INDUCTOR_NONE,
        [MPL_EAGLE3_EDGE_VALUES] = MPL_INDUCTOR_NONE,
    };

    if (ttt_step == 1)
        return first[edge];
    switch (edge) {
    case MPL_EAGLE3_EDGE_KEYS:
        return 28;
    case MPL_EAGLE3_EDGE_VALUES:
        return 27;
    case MPL_EAGLE3_EDGE_Q:
    case MPL_EAGLE3_EDGE_K:
    case MPL_EAGLE3_EDGE_V:
    case MPL_EAGLE3_EDGE_INPUT:
        return (uint8_t)(first[edge] + 1); /* the caches' gradients stand before them */
    default:
        return first[edge];
    }
}

void mpl_eagle3_cast_table(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                           int64_t ttt_step)
{
    struct table t = begin_table(graph, s, ttt_step);

    inputs(&t);
    mlp(&t);
    post_norm(&t);
    attention(&t);
    if (t.is_first)
        first_heads(&t);
    else
        later_heads(&t);
    queries(&t, !t.is_first);
}
