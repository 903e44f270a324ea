/* SPDX-License-Identifier: MIT */
/*
 * The compiled backward of a DFlash layer as a kernel table.
 *
 * Letters: n tokens, q drafted tokens, m both, h hidden, I inner, a query heads, k key/value heads
 * (times head_dim). Kernels are those of the generated code, in the order of its buffers.
 *
 * source: generated code of speculators.models.dflash (model_definitions.py) under PyTorch 2.13
 */
#include "arch/dflash_table.h"
#include "arch/eagle3_table.h"

#define OF(name) MPL_DFLASH_##name

/* A buffer [rows, cols] that the kernel added last makes. Its name orders frees. */
static struct mpl_inductor_value *put(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, enum mpl_dtype dtype, unsigned flags)
{
    static const char *const names[] = {
        "buf00", "buf01", "buf02", "buf03", "buf04", "buf05", "buf06", "buf07", "buf08",
        "buf09", "buf10", "buf11", "buf12", "buf13", "buf14", "buf15", "buf16", "buf17",
        "buf18", "buf19", "buf20", "buf21", "buf22", "buf23", "buf24", "buf25", "buf26",
        "buf27", "buf28", "buf29", "buf30", "buf31", "buf32", "buf33", "buf34", "buf35",
        "buf36", "buf37", "buf38", "buf39", "buf40", "buf41", "buf42",
    };

    return named(t, names[number], number, rows, cols, dtype, flags);
}

/* The same in the layer's format. */
static struct mpl_inductor_value *buf(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, unsigned flags)
{
    return put(t, number, rows, cols, t->s->layer_dtype, flags);
}

static void inputs(struct table *t, const struct mpl_dflash *d)
{
    const struct mpl_eagle3_sizes *s = &d->sizes;
    const struct mpl_dim q = d->drafted, m = d->keys;
    const int64_t h = s->hidden, inner = s->inner, a = s->attention, k = s->kv;
    const struct {
        uint8_t number;
        const char *name;
        struct mpl_dim rows;
        int64_t cols;
        bool is_wide;
    } table[] = {
        {OF(PRODUCT), "view_20", q, inner, false},
        {OF(GATED), "mm_6", q, inner, false},
        {OF(UPPED), "mm_7", q, inner, false},
        {OF(POST_NORMED), "view_16", q, h, false},
        {OF(POST_RSTD), "rsqrt_3", q, 1, true},
        {OF(PROJECTED), "mm_5", q, h, false},
        {OF(ATTENTION_T), "view_14", q, a, false},
        {OF(ATTENTION), "getitem", q, a, false},
        {OF(LSE), "getitem_1", q, s->heads, true},
        {OF(QUERY), "clone", q, a, false},
        {OF(KEY), "clone_1", m, k, false},
        {OF(VALUE), "clone_2", m, k, false},
        {OF(K_RAW), "cat", m, k, false},
        {OF(K_RSTD), "rsqrt_2", m, k / s->head_dim, true},
        {OF(Q_RAW), "mm", q, a, false},
        {OF(Q_RSTD), "rsqrt_1", q, s->heads, true},
        {OF(NORMED), "view", q, h, false},
        {OF(RSTD), "rsqrt", q, 1, true},
        {OF(TARGET), "view_3", d->tokens, h, false},
    };
    static const uint8_t outside[] = {OF(X), OF(COS), OF(SIN), OF(TANGENT)};
    static const char *const names[] = {"primals_1", "primals_9", "primals_10", "tangents_1"};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        mpl_inductor_input(t->graph, table[i].number, table[i].name, MPL_INDUCTOR_INPUT,
                           table[i].rows, mpl_dim(table[i].cols),
                           table[i].is_wide ? MPL_FLOAT32 : s->layer_dtype);
    for (size_t i = 0; i < sizeof(outside); i++)
        mpl_inductor_input(t->graph, outside[i], names[i], MPL_INDUCTOR_OUTSIDE, mpl_dim(0),
                           mpl_dim(0), s->layer_dtype);
}

static void mlp(struct table *t, const struct mpl_dflash *d)
{
    const struct mpl_dim q = d->drafted;
    const int64_t h = d->sizes.hidden, inner = d->sizes.inner;

    kernel(t, LIST(OF(PRODUCT)), LIST(OF(TANGENT)));
    buf(t, OF(D_DOWN_WEIGHT), mpl_dim(h), inner, RESULT);
    kernel(t, NOTHING, LIST(OF(TANGENT)));
    buf(t, OF(D_PRODUCT), q, inner, 0);
    kernel(t, LIST(OF(D_PRODUCT), OF(GATED), OF(UPPED)), NOTHING);
    buf(t, OF(D_UPPED), q, inner, 0);
    buf(t, OF(D_GATED), q, inner, 0)->in_place_of = OF(UPPED);
    kernel(t, LIST(OF(D_UPPED), OF(POST_NORMED)), NOTHING);
    buf(t, OF(D_UP_WEIGHT), mpl_dim(inner), h, RESULT);
    kernel(t, LIST(OF(D_UPPED)), NOTHING);
    buf(t, OF(D_FROM_UP), q, h, 0);
    kernel(t, LIST(OF(D_GATED), OF(POST_NORMED)), NOTHING);
    buf(t, OF(D_GATE_WEIGHT), mpl_dim(inner), h, RESULT);
    kernel(t, LIST(OF(D_GATED)), NOTHING);
    buf(t, OF(D_FROM_GATE), q, h, 0);
}

/* A norm over h: its weight's gradient out of partial sums, and the input's, which takes the
 * storage of a gradient that came in; x NONE: the input needs none. */
static void norm(struct table *t, const struct mpl_dflash *d, const uint8_t *reads,
                 const uint8_t *others, const uint8_t out[3], uint8_t in_place_of)
{
    const struct mpl_dim parts = {mpl_eagle3_split(t->s), t->s->tokens.degree};
    const int64_t h = d->sizes.hidden;
    const uint8_t partial = out[0], weight = out[1], x = out[2];
    const bool is_mixed = t->is_mixed && x != MPL_INDUCTOR_NONE;

    if (is_mixed) {
        kernel(t, reads, others)->summed = weight;
        buf(t, x, d->drafted, h, RESULT);
    } else {
        kernel(t, reads, others);
    }
    put(t, partial, parts, h, MPL_FLOAT32, is_mixed ? UNBOOKED : 0);
    kernel(t, LIST(partial), NOTHING);
    buf(t, weight, mpl_dim(1), h, RESULT | (is_mixed ? UNBOOKED : 0));
    if (is_mixed || x == MPL_INDUCTOR_NONE)
        return;
    kernel(t, reads, others);
    buf(t, x, d->drafted, h, RESULT)->in_place_of = in_place_of;
}

/* The norm of heads, whose weight [head_dim] is summed over rows of heads. */
static void head_norm(struct table *t, const struct mpl_dflash *d, const uint8_t *reads,
                      const uint8_t out[4], struct mpl_dim rows, int64_t cols)
{
    const int64_t d_head = d->sizes.head_dim;
    const struct mpl_dim all = {rows.n * (cols / d_head), rows.degree};
    const struct mpl_eagle3_sizes sizes = mpl_dflash_rows(d, all);

    kernel(t, reads, NOTHING);
    put(t, out[0], mpl_eagle3_mixed_rows(&sizes), d_head, MPL_FLOAT32, 0);
    buf(t, out[1], rows, cols, 0);
    kernel(t, LIST(out[0]), NOTHING);
    put(t, out[2], mpl_dim(1), d_head, MPL_FLOAT32, 0);
    kernel(t, LIST(out[2]), NOTHING);
    buf(t, out[3], mpl_dim(1), d_head, RESULT);
}

static void attention(struct table *t, const struct mpl_dflash *d)
{
    const struct mpl_dim q = d->drafted, m = d->keys;
    const int64_t a = d->sizes.attention, k = d->sizes.kv;

    kernel(t, LIST(OF(D_RESIDUAL), OF(ATTENTION_T)), NOTHING);
    buf(t, OF(D_O_WEIGHT), mpl_dim(d->sizes.hidden), a, RESULT);
    kernel(t, LIST(OF(D_RESIDUAL)), NOTHING);
    buf(t, OF(D_ATTENTION), q, a, 0);
    kernel(t, LIST(OF(D_ATTENTION), OF(ATTENTION)), NOTHING);
    put(t, OF(DELTA), q, d->sizes.heads, MPL_FLOAT32, 0);
    no_op(t, NOTHING);
    buf(t, OF(D_QUERY), q, a, 0);
    no_op(t, NOTHING);
    buf(t, OF(D_VALUE), m, k, 0);
    kernel(t,
           LIST(OF(D_ATTENTION), OF(DELTA), OF(D_QUERY), OF(D_VALUE), OF(LSE), OF(QUERY), OF(KEY),
                OF(VALUE)),
           NOTHING);
    buf(t, OF(D_KEY), m, k, 0);
    kernel(t, LIST(OF(D_KEY)), LIST(OF(COS), OF(SIN)));
    buf(t, OF(D_KEY_TURNED), m, k, 0);
    head_norm(t, d, LIST(OF(D_KEY_TURNED), OF(K_RAW), OF(K_RSTD)),
              (const uint8_t[]){OF(K_PARTIAL), OF(D_K), OF(K_SUM), OF(D_K_NORM)}, m, k);
}

/* Through the values' and keys' projections, of the drafted tokens and of all others. */
static void keys_and_values(struct table *t, const struct mpl_dflash *d)
{
    const struct mpl_dim q = d->drafted, n = d->tokens;
    const int64_t h = d->sizes.hidden, k = d->sizes.kv;

    kernel(t, LIST(OF(D_VALUE)), NOTHING);
    buf(t, OF(D_V_DRAFTED), q, k, 0);
    kernel(t, LIST(OF(D_V_DRAFTED), OF(NORMED)), NOTHING);
    buf(t, OF(V_WEIGHT_DRAFTED), mpl_dim(k), h, 0);
    kernel(t, LIST(OF(D_V_DRAFTED)), NOTHING);
    buf(t, OF(X_FROM_V), q, h, 0);
    kernel(t, LIST(OF(D_VALUE)), NOTHING);
    buf(t, OF(D_V_TOKENS), n, k, 0);
    kernel(t, LIST(OF(D_V_TOKENS)), NOTHING);
    buf(t, OF(TARGET_FROM_V), n, h, 0);
    kernel(t, LIST(OF(V_WEIGHT_DRAFTED), OF(D_V_TOKENS), OF(TARGET)), NOTHING);
    buf(t, OF(D_V_WEIGHT), mpl_dim(k), h, RESULT);
    kernel(t, LIST(OF(D_K), OF(NORMED)), NOTHING);
    buf(t, OF(K_WEIGHT_DRAFTED), mpl_dim(k), h, 0);
    kernel(t, LIST(OF(D_K)), NOTHING);
    buf(t, OF(X_FROM_K), q, h, 0);
    kernel(t, LIST(OF(D_K)), NOTHING);
    buf(t, OF(TARGET_FROM_K), n, h, 0);
    kernel(t, LIST(OF(TARGET_FROM_V), OF(TARGET_FROM_K)), NOTHING);
    buf(t, OF(D_TARGET), n, h, RESULT)->in_place_of = OF(TARGET_FROM_V);
    kernel(t, LIST(OF(K_WEIGHT_DRAFTED), OF(D_K), OF(TARGET)), NOTHING);
    buf(t, OF(D_K_WEIGHT), mpl_dim(k), h, RESULT);
}

static void queries(struct table *t, const struct mpl_dflash *d)
{
    const struct mpl_dim q = d->drafted;
    const int64_t h = d->sizes.hidden, a = d->sizes.attention;

    kernel(t, LIST(OF(D_QUERY)), LIST(OF(COS), OF(SIN)));
    buf(t, OF(D_QUERY_TURNED), q, a, 0);
    head_norm(t, d, LIST(OF(D_QUERY_TURNED), OF(Q_RAW), OF(Q_RSTD)),
              (const uint8_t[]){OF(Q_PARTIAL), OF(D_Q), OF(Q_SUM), OF(D_Q_NORM)}, q, a);
    kernel(t, LIST(OF(D_Q), OF(NORMED)), NOTHING);
    buf(t, OF(D_Q_WEIGHT), mpl_dim(a), h, RESULT);
    kernel(t, LIST(OF(D_Q)), NOTHING);
    buf(t, OF(X_FROM_Q), q, h, 0);
}

static void write_table(struct mpl_inductor_graph *graph, const struct mpl_dflash *d, bool needs_x)
{
    const struct mpl_eagle3_sizes sizes = mpl_dflash_rows(d, d->drafted);
    struct table t = begin_table(graph, &sizes, 1);
    const uint8_t x = needs_x ? OF(D_X) : MPL_INDUCTOR_NONE;

    inputs(&t, d);
    mlp(&t, d);
    norm(&t, d, LIST(OF(D_FROM_UP), OF(D_FROM_GATE), OF(PROJECTED), OF(POST_RSTD)),
         LIST(OF(X), OF(TANGENT)),
         (const uint8_t[]){OF(POST_PARTIAL), OF(D_POST_NORM), OF(D_RESIDUAL)}, OF(D_FROM_UP));
    graph->values[OF(D_RESIDUAL)].is_result = false;
    attention(&t, d);
    keys_and_values(&t, d);
    queries(&t, d);
    norm(&t, d,
         needs_x ? LIST(OF(X_FROM_V), OF(X_FROM_K), OF(X_FROM_Q), OF(RSTD), OF(D_RESIDUAL))
                 : LIST(OF(X_FROM_V), OF(X_FROM_K), OF(X_FROM_Q), OF(RSTD)),
         LIST(OF(X)), (const uint8_t[]){OF(INPUT_PARTIAL), OF(D_INPUT_NORM), x}, OF(D_RESIDUAL));
}

struct mpl_dflash_compiled *mpl_dflash_compiled(const struct mpl_dflash *d, bool needs_x)
{
    struct mpl_dflash_compiled *c = &d->compiled[needs_x];

    if (!c->is_ready) {
        write_table(&c->graph, d, needs_x);
        mpl_inductor_plan(&c->graph, &c->plan);
        c->is_ready = true;
    }
    return c;
}
