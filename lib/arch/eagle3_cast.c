/* SPDX-License-Identifier: MIT */
/*
 * The drafter's layer, compiled under autocast with float32 weights: every step of training-time
 * test casts all of them, and its backward reads the casts.
 *
 * Letters: n tokens, h hidden, I inner, a query heads, k key/value heads (times head_dim).
 *
 * source: generated code of speculators.models.eagle3 (model_definitions.py), releases 0.7.0 and
 * 0.9.0, without FSDP2, under PyTorch 2.13
 */
#include "arch/eagle3_cast.h"

#define OF(name) (MPL_EAGLE3_CAST_##name - MPL_EAGLE3_CAST_PRODUCT)

struct run {
    struct mpl_tape *tape;
    const struct mpl_eagle3_sizes *s;
    struct mpl_dim cache; /* rows of the caches: all steps so far */
    bool is_first, is_dynamic;
    struct mpl_tensor *kept[MPL_EAGLE3_CAST_SAVES]; /* held */
};

static struct mpl_tensor *narrow(const struct run *r, struct mpl_dim rows, int64_t cols)
{
    return mpl_eagle3_make(r->tape, r->s->cast_dtype, rows, cols);
}

static struct mpl_tensor *wide(const struct run *r, struct mpl_dim rows, int64_t cols)
{
    return mpl_eagle3_make(r->tape, MPL_FLOAT32, rows, cols);
}

/* [1, kv heads, rows, head_dim] */
static struct mpl_tensor *cached(const struct run *r, enum mpl_dtype dtype)
{
    const struct mpl_eagle3_sizes *s = r->s;
    const struct mpl_shape shape =
        mpl_shape4(mpl_dim(1), mpl_dim(s->kv / s->head_dim), r->cache, mpl_dim(s->head_dim));

    return mpl_hold(mpl_empty(r->tape, "empty_strided_cuda", dtype, &shape));
}

/* A weight's cast, then the product with it: [n, cols]. */
static struct mpl_tensor *project(struct run *r, int weight, int64_t cols, int64_t inner)
{
    r->kept[weight] = narrow(r, mpl_dim(cols), inner);
    return narrow(r, r->s->tokens, cols);
}

/* Keys and values, turned and joined to those of the steps before, in both formats. */
static void caches(struct run *r, struct mpl_tensor *k_raw, struct mpl_tensor *v_raw,
                   struct mpl_tensor *results[3])
{
    struct mpl_tape *tape = r->tape;
    const struct mpl_eagle3_sizes *s = r->s;

    results[1] = cached(r, MPL_FLOAT32);
    if (!r->is_dynamic)
        r->kept[OF(KEY)] = cached(r, s->cast_dtype);
    if (!r->is_first)
        mpl_drop(tape, k_raw);
    results[2] = cached(r, MPL_FLOAT32);
    r->kept[OF(VALUE)] = r->is_first ? k_raw : cached(r, s->cast_dtype);
    mpl_drop(tape, v_raw);
    r->kept[OF(QUERY)] = narrow(r, s->tokens, s->attention);
    if (r->is_dynamic)
        r->kept[OF(KEY)] = cached(r, s->cast_dtype);
}

static void attention(struct run *r, struct mpl_tensor *results[3])
{
    const struct mpl_eagle3_sizes *s = r->s;
    const struct mpl_dim n = s->tokens;
    struct mpl_tensor *q_raw, *k_raw, *v_raw, *maxima;

    r->kept[OF(W_Q)] = narrow(r, mpl_dim(s->attention), 2 * s->hidden);
    r->kept[OF(NORMED)] = narrow(r, n, 2 * s->hidden);
    q_raw = narrow(r, n, s->attention);
    k_raw = project(r, OF(W_K), s->kv, 2 * s->hidden);
    v_raw = project(r, OF(W_V), s->kv, 2 * s->hidden);
    caches(r, k_raw, v_raw, results);
    r->kept[OF(LSE)] = wide(r, n, s->heads);
    maxima = wide(r, n, s->heads);
    r->kept[OF(ATTENTION)] = q_raw; /* Inductor writes into the freed buffer */
    mpl_drop(r->tape, maxima);
    r->kept[OF(W_O)] = narrow(r, mpl_dim(s->hidden), s->attention);
    r->kept[OF(ATTENTION_T)] = narrow(r, n, s->attention);
    r->kept[OF(PROJECTED)] = narrow(r, n, s->hidden);
}

static struct mpl_tensor *mlp(struct run *r)
{
    const struct mpl_eagle3_sizes *s = r->s;
    const struct mpl_dim n = s->tokens;
    struct mpl_tensor *down, *out;

    r->kept[OF(RSTD)] = wide(r, n, 1);
    r->kept[OF(NORMED_POST)] = narrow(r, n, s->hidden);
    r->kept[OF(GATED)] = project(r, OF(W_GATE), s->inner, s->hidden);
    r->kept[OF(UPPED)] = project(r, OF(W_UP), s->inner, s->hidden);
    r->kept[OF(W_DOWN)] = narrow(r, mpl_dim(s->hidden), s->inner);
    r->kept[OF(PRODUCT)] = narrow(r, n, s->inner);
    down = narrow(r, n, s->hidden);
    out = wide(r, n, s->hidden);
    mpl_drop(r->tape, down);
    return out;
}

void mpl_eagle3_cast_forward(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_node *node,
                             struct mpl_tensor *residual, struct mpl_tensor *results[3])
{
    const struct mpl_dim n = e->sizes.tokens;
    struct run r = {
        .tape = tape,
        .s = &e->sizes,
        .cache = {n.n * e->ttt_step, n.degree},
        .is_first = e->ttt_step == 1,
        .is_dynamic = e->ttt_step >= 3,
    };

    attention(&r, results);
    results[0] = mlp(&r);
    r.kept[OF(RESIDUAL)] = mpl_hold(residual);
    r.kept[OF(COS)] = mpl_hold(e->cos);
    r.kept[OF(SIN)] = mpl_hold(e->sin);
    for (int i = 0; i < e->mask.count; i++)
        r.kept[OF(MASK) + i] = mpl_hold(e->mask.tensors[i]);
    for (int i = 0; i < MPL_EAGLE3_CAST_SAVES; i++)
        if (r.kept[i]) {
            mpl_save(tape, node, r.kept[i]);
            mpl_drop(tape, r.kept[i]);
        }
}

void mpl_eagle3_cast_load(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                          struct mpl_tensor **values)
{
    const struct mpl_eagle3 *e = node->context;

    values[MPL_EAGLE3_CAST_TANGENT_V] = mpl_eagle3_cache_gradient(tape, e, node->arg[0]);
    values[MPL_EAGLE3_CAST_TANGENT_K] = mpl_eagle3_cache_gradient(tape, e, node->arg[0]);
    mpl_drop(tape, out[2]);
    mpl_drop(tape, out[1]);
    values[MPL_EAGLE3_CAST_TANGENT] = out[0];
    out[0] = out[1] = out[2] = NULL;
    for (int i = 0; i < node->saved_count; i++) {
        values[MPL_EAGLE3_CAST_PRODUCT + i] = node->saved[i].tensor;
        node->saved[i].tensor = NULL;
    }
}
