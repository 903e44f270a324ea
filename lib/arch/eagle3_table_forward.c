/* SPDX-License-Identifier: MIT */
/*
 * The drafter layer's compiled forward as a kernel table.
 *
 * Letters: n tokens, h hidden, I inner, a query heads, k key/value heads (times head_dim), C cache
 * of min(step, 3) blocks. Kernels are those of the generated code: projections are library calls,
 * what lies between is fused. RoPE of q and k is one kernel when both are equally wide.
 *
 * source: generated code of speculators.models.eagle3 (model_definitions.py) under PyTorch 2.13
 */
#include "arch/eagle3_table.h"

/* Both input norms, written into one tensor (cat). */
static void forward_norms(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden;

    kernel(t, NOTHING, NOTHING);
    named(t, "buf0", MPL_EAGLE3_RSTD_INPUT_SUM, n, 1, MPL_FLOAT32, 0);
    named(t, "buf1", MPL_EAGLE3_RSTD_INPUT, n, 1, MPL_FLOAT32, RESULT)->in_place_of =
        MPL_EAGLE3_RSTD_INPUT_SUM;
    named(t, "buf4", MPL_EAGLE3_NORMED_INPUT, n, h, t->s->layer_dtype, 0)->part_of =
        MPL_EAGLE3_NORMED;
    kernel(t, NOTHING, NOTHING);
    named(t, "buf2", MPL_EAGLE3_RSTD_HIDDEN_SUM, n, 1, MPL_FLOAT32, 0);
    named(t, "buf3", MPL_EAGLE3_RSTD_HIDDEN, n, 1, MPL_FLOAT32, RESULT)->in_place_of =
        MPL_EAGLE3_RSTD_HIDDEN_SUM;
    named(t, "buf5", MPL_EAGLE3_NORMED_HIDDEN, n, h, t->s->layer_dtype, 0)->part_of =
        MPL_EAGLE3_NORMED;
    no_op(t, LIST(MPL_EAGLE3_NORMED_INPUT, MPL_EAGLE3_NORMED_HIDDEN));
    named(t, "buf6", MPL_EAGLE3_NORMED, n, 2 * h, t->s->layer_dtype, RESULT);
}

static void forward_heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;
    const enum mpl_dtype e = t->s->layer_dtype;
    const uint8_t *normed = t->s->is_broken ? NOTHING : LIST(MPL_EAGLE3_NORMED);

    kernel(t, normed, NOTHING);
    named(t, "q", MPL_EAGLE3_QUERY, n, a, e, 0);
    kernel(t, normed, NOTHING);
    named(t, "r_k", MPL_EAGLE3_KEY, n, k, e, 0);
    kernel(t, normed, NOTHING);
    named(t, "r_v", MPL_EAGLE3_VALUE, n, k, e, t->is_first ? RESULT : 0);
    if (!t->is_first) {
        kernel(t, LIST(MPL_EAGLE3_KEY), NOTHING);
        named(t, "kc", MPL_EAGLE3_CACHE_K, t->cache, k, e, RESULT | HEADS_APART | SYMBOLIC);
        kernel(t, LIST(MPL_EAGLE3_VALUE), NOTHING);
        named(t, "vc", MPL_EAGLE3_CACHE_V, t->cache, k, e, RESULT | HEADS_APART | SYMBOLIC);
        kernel(t, LIST(MPL_EAGLE3_QUERY), NOTHING);
        named(t, "qq", MPL_EAGLE3_ROTATED_QUERY, n, a, e, RESULT | HEADS_APART);
        return;
    }
    if (t->is_grouped)
        kernel(t, LIST(MPL_EAGLE3_KEY), NOTHING);
    else
        kernel(t, LIST(MPL_EAGLE3_QUERY, MPL_EAGLE3_KEY), NOTHING);
    named(t, "kc", MPL_EAGLE3_CACHE_K, n, k, e, RESULT | HEADS_APART);
    if (!t->is_grouped)
        named(t, "qq", MPL_EAGLE3_ROTATED_QUERY, n, a, e, RESULT | HEADS_APART);
    named(t, "kk", MPL_EAGLE3_ROTATED_KEY, n, k, e, RESULT | HEADS_APART);
    if (t->is_grouped) {
        kernel(t, LIST(MPL_EAGLE3_QUERY), NOTHING);
        named(t, "qq", MPL_EAGLE3_ROTATED_QUERY, n, a, e, RESULT | HEADS_APART);
    }
    kernel(t, LIST(MPL_EAGLE3_VALUE), NOTHING);
    named(t, "vv", MPL_EAGLE3_CONTIGUOUS_VALUE, n, k, e, RESULT | HEADS_APART);
}

static void forward_attention(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention;
    const enum mpl_dtype e = t->s->layer_dtype;

    no_op(t, NOTHING);
    named(t, "lse", MPL_EAGLE3_LSE, n, t->s->heads, MPL_FLOAT32, RESULT);
    no_op(t, NOTHING);
    named(t, "mx", MPL_EAGLE3_ROW_MAX, n, t->s->heads, MPL_FLOAT32, 0);
    if (t->is_first)
        kernel(t,
               LIST(MPL_EAGLE3_ROTATED_QUERY, MPL_EAGLE3_ROTATED_KEY, MPL_EAGLE3_CONTIGUOUS_VALUE,
                    MPL_EAGLE3_LSE, MPL_EAGLE3_ROW_MAX),
               NOTHING);
    else
        kernel(t,
               LIST(MPL_EAGLE3_CACHE_K, MPL_EAGLE3_CACHE_V, MPL_EAGLE3_ROTATED_QUERY,
                    MPL_EAGLE3_LSE, MPL_EAGLE3_ROW_MAX),
               NOTHING);
    named(t, "at", MPL_EAGLE3_ATTENTION, n, a, e, RESULT | HEADS_APART);
    kernel(t, LIST(MPL_EAGLE3_ATTENTION), NOTHING);
    named(t, "att", MPL_EAGLE3_ATTENTION_T, n, a, e, RESULT | HEADS_APART);
}

static void forward_rest(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, inner = t->s->inner;
    const enum mpl_dtype e = t->s->layer_dtype;

    kernel(t, LIST(MPL_EAGLE3_ATTENTION_T), NOTHING);
    named(t, "o", MPL_EAGLE3_PROJECTED, n, h, e, 0);
    if (t->s->is_broken)
        kernel(t, LIST(MPL_EAGLE3_PROJECTED), NOTHING);
    else
        kernel(t, LIST(MPL_EAGLE3_NORMED_HIDDEN, MPL_EAGLE3_PROJECTED), NOTHING);
    named(t, "x2", MPL_EAGLE3_RESIDUAL, n, h, e, RESULT)->in_place_of = MPL_EAGLE3_PROJECTED;
    named(t, "r2a", MPL_EAGLE3_RSTD_POST_SUM, n, 1, MPL_FLOAT32, 0);
    named(t, "r2", MPL_EAGLE3_RSTD_POST, n, 1, MPL_FLOAT32, RESULT)->in_place_of =
        MPL_EAGLE3_RSTD_POST_SUM;
    named(t, "nx", MPL_EAGLE3_NORMED_POST, n, h, e, RESULT);
    kernel(t, LIST(MPL_EAGLE3_NORMED_POST), NOTHING);
    named(t, "g", MPL_EAGLE3_GATED, n, inner, e, RESULT);
    kernel(t, LIST(MPL_EAGLE3_NORMED_POST), NOTHING);
    named(t, "u", MPL_EAGLE3_UPPED, n, inner, e, RESULT);
    kernel(t, LIST(MPL_EAGLE3_GATED, MPL_EAGLE3_UPPED), NOTHING);
    named(t, "p", MPL_EAGLE3_PRODUCT, n, inner, e, RESULT);
    kernel(t, LIST(MPL_EAGLE3_PRODUCT), NOTHING);
    named(t, "d", MPL_EAGLE3_DOWNED, n, h, e, 0);
    kernel(t, LIST(MPL_EAGLE3_RESIDUAL, MPL_EAGLE3_DOWNED), NOTHING);
    named(t, "y", MPL_EAGLE3_OUTPUT, n, h, e, RESULT)->in_place_of = MPL_EAGLE3_DOWNED;
}

void mpl_eagle3_table_forward(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                              int64_t ttt_step)
{
    struct table t = begin_table(graph, s, ttt_step);

    if (!s->is_broken)
        forward_norms(&t);
    forward_heads(&t);
    forward_attention(&t);
    forward_rest(&t);
}
