/* SPDX-License-Identifier: MIT */
/*
 * The compiled backward of an MTP layer as a kernel table.
 *
 * Letters: n tokens, h hidden, I inner, a query heads, k key/value heads (times head_dim). Kernels
 * are those of the generated code, in the order of its buffers.
 *
 * source: generated code of speculators.models.mtp (model_definitions.py) on Qwen3's layer under
 * PyTorch 2.13
 */
#include "arch/mtp_table.h"

#include "arch/eagle3_table.h"

#define OF(name) MPL_MTP_##name

/* As the generated code names them: names order frees. */
static const char *const names[MPL_MTP_VALUES] = {
    [OF(FINAL_PARTIAL)] = "buf0",
    [OF(D_FINAL_NORM)] = "buf2",
    [OF(D_OUTPUT)] = "buf4",
    [OF(D_DOWN_WEIGHT)] = "buf5",
    [OF(D_PRODUCT)] = "buf6",
    [OF(D_UPPED)] = "buf7",
    [OF(D_UP_WEIGHT)] = "buf8",
    [OF(D_FROM_UP)] = "buf9",
    [OF(D_GATED)] = "buf10",
    [OF(D_GATE_WEIGHT)] = "buf11",
    [OF(D_FROM_GATE)] = "buf12",
    [OF(POST_PARTIAL)] = "buf13",
    [OF(D_POST_NORM)] = "buf15",
    [OF(D_RESIDUAL)] = "buf17",
    [OF(D_O_WEIGHT)] = "buf18",
    [OF(D_ATTENTION)] = "buf19",
    [OF(D_QUERY)] = "buf21",
    [OF(D_KEY)] = "buf22",
    [OF(D_VALUE)] = "buf23",
    [OF(D_KEY_SUM)] = "buf24",
    [OF(D_V)] = "buf25",
    [OF(D_V_WEIGHT)] = "buf26",
    [OF(D_FROM_V)] = "buf27",
    [OF(D_K_NORMED)] = "buf28",
    [OF(K_PARTIAL)] = "buf29",
    [OF(K_SUM)] = "buf30",
    [OF(D_K_NORM)] = "buf31",
    [OF(D_K)] = "buf33",
    [OF(D_K_WEIGHT)] = "buf34",
    [OF(D_FROM_K)] = "buf35",
    [OF(D_Q_NORMED)] = "buf36",
    [OF(Q_PARTIAL)] = "buf37",
    [OF(Q_SUM)] = "buf38",
    [OF(D_Q_NORM)] = "buf39",
    [OF(D_Q)] = "buf41",
    [OF(D_Q_WEIGHT)] = "buf42",
    [OF(D_FROM_Q)] = "buf43",
    [OF(INPUT_PARTIAL)] = "buf44",
    [OF(D_INPUT_NORM)] = "buf46",
    [OF(D_PROJECTED)] = "buf48",
    [OF(D_PROJECTION)] = "buf49",
    [OF(D_JOINED)] = "buf50",
    [OF(TOKEN_PARTIAL)] = "buf51",
    [OF(D_TOKEN_NORM)] = "buf53",
    [OF(HIDDEN_PARTIAL)] = "buf54",
    [OF(D_HIDDEN_NORM)] = "buf56",
    [OF(D_X)] = "buf58",
    [OF(X)] = "primals_1",
    [OF(EMBEDS)] = "primals_3",
    [OF(COS)] = "primals_12",
    [OF(SIN)] = "primals_13",
    [OF(HIDDEN_RSTD)] = "rsqrt",
    [OF(TOKEN_RSTD)] = "rsqrt_1",
    [OF(JOINED)] = "view",
    [OF(PROJECTED)] = "mm",
    [OF(RSTD)] = "rsqrt_2",
    [OF(NORMED)] = "view_2",
    [OF(Q_RAW)] = "mm_1",
    [OF(Q_RSTD)] = "rsqrt_3",
    [OF(K_RAW)] = "mm_2",
    [OF(K_RSTD)] = "rsqrt_4",
    [OF(QUERY)] = "add_5",
    [OF(KEY)] = "view_11",
    [OF(VALUE)] = "view_12",
    [OF(MASK)] = "constant_pad_nd",
    [OF(ATTENTION)] = "getitem",
    [OF(LSE)] = "getitem_1",
    [OF(SEED)] = "getitem_2",
    [OF(OFFSET)] = "getitem_3",
    [OF(RESIDUAL)] = "add_7",
    [OF(POST_RSTD)] = "rsqrt_5",
    [OF(POST_NORMED)] = "view_16",
    [OF(GATED)] = "mm_5",
    [OF(UPPED)] = "mm_6",
    [OF(PRODUCT)] = "view_20",
    [OF(OUTPUT)] = "add_10",
    [OF(FINAL_RSTD)] = "rsqrt_6",
    [OF(TANGENT)] = "tangents_1",
};

/* A buffer [rows, cols] that the kernel added last makes. */
static struct mpl_inductor_value *put(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, enum mpl_dtype dtype, unsigned flags)
{
    return named(t, names[number], number, rows, cols, dtype, flags);
}

/* The same in the layer's format. */
static struct mpl_inductor_value *buf(struct table *t, uint8_t number, struct mpl_dim rows,
                                      int64_t cols, unsigned flags)
{
    return put(t, number, rows, cols, t->s->layer_dtype, flags);
}

/* Of every token, [n, cols] each: what forward kept. Inputs of the forward graph do not count. */
static void inputs(struct table *t, const struct mpl_mtp *m)
{
    const struct mpl_eagle3_sizes *s = &m->sizes;
    const int64_t h = s->hidden, inner = s->inner, a = s->attention, k = s->kv;
    const struct {
        uint8_t number;
        int64_t cols;
        bool is_wide;
    } table[] = {
        {OF(HIDDEN_RSTD), 1, true},  {OF(TOKEN_RSTD), 1, true},
        {OF(JOINED), 2 * h, false},  {OF(PROJECTED), h, false},
        {OF(RSTD), 1, true},         {OF(NORMED), h, false},
        {OF(Q_RAW), a, false},       {OF(Q_RSTD), s->heads, true},
        {OF(K_RAW), k, false},       {OF(K_RSTD), k / s->head_dim, true},
        {OF(QUERY), a, false},       {OF(KEY), a, false},
        {OF(VALUE), a, false},       {OF(ATTENTION), a, false},
        {OF(RESIDUAL), h, false},    {OF(POST_RSTD), 1, true},
        {OF(POST_NORMED), h, false}, {OF(GATED), inner, false},
        {OF(UPPED), inner, false},   {OF(PRODUCT), inner, false},
        {OF(OUTPUT), h, false},      {OF(FINAL_RSTD), 1, true},
    };
    static const uint8_t outside[] = {OF(X), OF(EMBEDS), OF(COS), OF(SIN), OF(TANGENT)};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        mpl_inductor_input(t->graph, table[i].number, names[table[i].number], MPL_INDUCTOR_INPUT,
                           s->tokens, mpl_dim(table[i].cols),
                           table[i].is_wide ? MPL_FLOAT32 : s->layer_dtype);
    mpl_inductor_input(t->graph, OF(MASK), names[OF(MASK)], MPL_INDUCTOR_INPUT, s->tokens,
                       mpl_mtp_mask_cols(m), s->layer_dtype);
    mpl_inductor_input(t->graph, OF(LSE), names[OF(LSE)], MPL_INDUCTOR_INPUT, mpl_mtp_lse_rows(m),
                       mpl_dim(s->heads), MPL_FLOAT32);
    for (uint8_t i = OF(SEED); i <= OF(OFFSET); i++)
        mpl_inductor_input(t->graph, i, names[i], MPL_INDUCTOR_INPUT, mpl_dim(1), mpl_dim(1),
                           MPL_INT64);
    for (size_t i = 0; i < sizeof(outside); i++)
        mpl_inductor_input(t->graph, outside[i], names[outside[i]], MPL_INDUCTOR_OUTSIDE,
                           mpl_dim(0), mpl_dim(0), s->layer_dtype);
}

/* A norm over h. What its kernels read, the buffers they make (x NONE: no gradient of the input),
 * and whose storage the input's gradient takes: the first that has no later reader. */
struct norm {
    const uint8_t *reads, *others, *x_reads; /* x_reads: reads, and what is added to the result */
    uint8_t partial, weight, x, homes[2];
};

static void norm(struct table *t, const struct norm *of)
{
    const struct mpl_dim n = t->s->tokens, parts = {mpl_eagle3_split(t->s), n.degree};
    const int64_t h = t->s->hidden;
    const bool is_mixed = t->is_mixed && of->x != MPL_INDUCTOR_NONE;
    struct mpl_inductor_value *x = NULL;

    if (is_mixed) {
        kernel(t, of->x_reads, of->others)->summed = of->weight;
        x = buf(t, of->x, n, h, 0);
    } else {
        kernel(t, of->reads, of->others);
    }
    put(t, of->partial, parts, h, MPL_FLOAT32, is_mixed ? UNBOOKED : 0);
    kernel(t, LIST(of->partial), NOTHING);
    buf(t, of->weight, mpl_dim(1), h, RESULT | (is_mixed ? UNBOOKED : 0));
    if (of->x == MPL_INDUCTOR_NONE)
        return;
    if (!is_mixed) {
        kernel(t, of->x_reads, of->others);
        x = buf(t, of->x, n, h, 0);
    }
    x->in_place_of = of->homes[0];
    x->or_in_place_of = of->homes[1];
}

static void final_norm(struct table *t)
{
    norm(t, &(struct norm){
                .reads = LIST(OF(OUTPUT), OF(FINAL_RSTD)),
                .x_reads = LIST(OF(OUTPUT), OF(FINAL_RSTD)),
                .others = LIST(OF(TANGENT)),
                .partial = OF(FINAL_PARTIAL),
                .weight = OF(D_FINAL_NORM),
                .x = OF(D_OUTPUT),
                .homes = {t->is_mixed ? MPL_INDUCTOR_NONE : OF(OUTPUT), MPL_INDUCTOR_NONE},
            });
}

static void mlp(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t h = t->s->hidden, inner = t->s->inner;

    kernel(t, LIST(OF(D_OUTPUT), OF(PRODUCT)), NOTHING);
    buf(t, OF(D_DOWN_WEIGHT), mpl_dim(h), inner, RESULT);
    kernel(t, LIST(OF(D_OUTPUT)), NOTHING);
    buf(t, OF(D_PRODUCT), n, inner, 0);
    kernel(t, LIST(OF(D_PRODUCT), OF(GATED), OF(UPPED)), NOTHING);
    buf(t, OF(D_UPPED), n, inner, 0);
    buf(t, OF(D_GATED), n, inner, 0)->in_place_of = OF(UPPED);
    kernel(t, LIST(OF(D_UPPED), OF(POST_NORMED)), NOTHING);
    buf(t, OF(D_UP_WEIGHT), mpl_dim(inner), h, RESULT);
    kernel(t, LIST(OF(D_UPPED)), NOTHING);
    buf(t, OF(D_FROM_UP), n, h, 0);
    kernel(t, LIST(OF(D_GATED), OF(POST_NORMED)), NOTHING);
    buf(t, OF(D_GATE_WEIGHT), mpl_dim(inner), h, RESULT);
    kernel(t, LIST(OF(D_GATED)), NOTHING);
    buf(t, OF(D_FROM_GATE), n, h, 0);
    norm(t, &(struct norm){
                .reads = LIST(OF(D_FROM_UP), OF(D_FROM_GATE), OF(RESIDUAL), OF(POST_RSTD)),
                .x_reads =
                    LIST(OF(D_FROM_UP), OF(D_FROM_GATE), OF(RESIDUAL), OF(POST_RSTD), OF(D_OUTPUT)),
                .partial = OF(POST_PARTIAL),
                .weight = OF(D_POST_NORM),
                .x = OF(D_RESIDUAL),
                .homes = {OF(D_OUTPUT), OF(D_FROM_UP)},
            });
}

/* The kernel of attention: gradients of query, key and value [n, a] each. */
static void attention(struct table *t, const struct mpl_mtp *m)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention;

    kernel(t, LIST(OF(D_RESIDUAL), OF(ATTENTION)), NOTHING);
    buf(t, OF(D_O_WEIGHT), mpl_dim(t->s->hidden), a, RESULT);
    kernel(t, LIST(OF(D_RESIDUAL)), NOTHING);
    buf(t, OF(D_ATTENTION), n, a, 0);
    kernel(t,
           LIST(OF(D_ATTENTION), OF(QUERY), OF(KEY), OF(VALUE), OF(MASK), OF(ATTENTION), OF(LSE),
                OF(SEED), OF(OFFSET)),
           NOTHING);
    for (uint8_t i = OF(D_QUERY); i <= OF(D_VALUE); i++)
        buf(t, i, n, a, 0)->is_fresh = true;
    t->graph->take_scratch = mpl_mtp_attention_scratch;
    t->graph->scratch_context = m;
    t->graph->scratch_after = OF(D_VALUE);
}

/* The norm of heads, whose weight [head_dim] is summed over rows of heads. */
struct head_norm {
    const uint8_t *turned; /* what the kernel that undoes the rotation reads */
    uint8_t normed, raw, rstd, partial, sum, weight, x;
    int64_t cols;
};

static struct mpl_eagle3_sizes rows_of_heads(const struct table *t, int64_t cols)
{
    struct mpl_eagle3_sizes sizes = *t->s;

    sizes.tokens.n *= cols / sizes.head_dim;
    sizes.hidden = sizes.head_dim;
    return sizes;
}

static void mixed_head_norm(struct table *t, const struct head_norm *of,
                            const struct mpl_eagle3_sizes *rows)
{
    const int64_t d = t->s->head_dim;

    kernel(t, of->turned, LIST(OF(COS), OF(SIN)));
    buf(t, of->normed, t->s->tokens, of->cols, 0);
    kernel(t, LIST(of->normed, of->raw, of->rstd), NOTHING);
    put(t, of->partial, mpl_eagle3_mixed_rows(rows), d, MPL_FLOAT32, 0);
    buf(t, of->x, t->s->tokens, of->cols, 0);
    kernel(t, LIST(of->partial), NOTHING);
    put(t, of->sum, mpl_dim(1), d, MPL_FLOAT32, 0);
    kernel(t, LIST(of->sum), NOTHING);
    buf(t, of->weight, mpl_dim(1), d, RESULT);
}

static void head_norm(struct table *t, const struct head_norm *of)
{
    const struct mpl_eagle3_sizes rows = rows_of_heads(t, of->cols);
    const struct mpl_dim parts = {mpl_eagle3_split(&rows), t->s->tokens.degree};
    const int64_t d = t->s->head_dim;
    struct mpl_inductor_kernel *made;

    if (mpl_eagle3_is_mixed_order(&rows)) {
        mixed_head_norm(t, of, &rows);
        return;
    }
    made = kernel(t, of->turned, LIST(OF(COS), OF(SIN)));
    made->reads[made->read_count++] = of->raw;
    made->reads[made->read_count++] = of->rstd;
    buf(t, of->normed, t->s->tokens, of->cols, 0);
    buf(t, of->x, t->s->tokens, of->cols, 0);
    kernel(t, LIST(of->normed, of->raw, of->rstd), NOTHING);
    put(t, of->partial, parts, d, MPL_FLOAT32, 0);
    kernel(t, LIST(of->partial), NOTHING);
    buf(t, of->weight, mpl_dim(1), d, RESULT);
}

/* Weight gradient and input gradient of a projection of the normed states. */
static void projection(struct table *t, uint8_t gradient, uint8_t weight, uint8_t x, int64_t cols)
{
    kernel(t, LIST(gradient, OF(NORMED)), NOTHING);
    buf(t, weight, mpl_dim(cols), t->s->hidden, RESULT);
    kernel(t, LIST(gradient), NOTHING);
    buf(t, x, t->s->tokens, t->s->hidden, 0);
}

static void heads(struct table *t)
{
    const struct mpl_dim n = t->s->tokens;
    const int64_t a = t->s->attention, k = t->s->kv;

    kernel(t, LIST(OF(D_KEY)), LIST(OF(SIN)));
    buf(t, OF(D_KEY_SUM), n, k, 0);
    kernel(t, LIST(OF(D_VALUE)), NOTHING);
    buf(t, OF(D_V), n, k, 0);
    projection(t, OF(D_V), OF(D_V_WEIGHT), OF(D_FROM_V), k);
    head_norm(t,
              &(struct head_norm){LIST(OF(D_KEY_SUM), OF(D_KEY)), OF(D_K_NORMED), OF(K_RAW),
                                  OF(K_RSTD), OF(K_PARTIAL), OF(K_SUM), OF(D_K_NORM), OF(D_K), k});
    projection(t, OF(D_K), OF(D_K_WEIGHT), OF(D_FROM_K), k);
    head_norm(t, &(struct head_norm){LIST(OF(D_QUERY)), OF(D_Q_NORMED), OF(Q_RAW), OF(Q_RSTD),
                                     OF(Q_PARTIAL), OF(Q_SUM), OF(D_Q_NORM), OF(D_Q), a});
    projection(t, OF(D_Q), OF(D_Q_WEIGHT), OF(D_FROM_Q), a);
    norm(t, &(struct norm){
                .reads = LIST(OF(D_FROM_V), OF(D_FROM_K), OF(D_FROM_Q), OF(PROJECTED), OF(RSTD)),
                .x_reads = LIST(OF(D_FROM_V), OF(D_FROM_K), OF(D_FROM_Q), OF(PROJECTED), OF(RSTD),
                                OF(D_RESIDUAL)),
                .partial = OF(INPUT_PARTIAL),
                .weight = OF(D_INPUT_NORM),
                .x = OF(D_PROJECTED),
                .homes = {OF(D_RESIDUAL), OF(D_FROM_V)},
            });
}

/* Through the projection of embedding and hidden states, side by side, to their norms. */
static void joined(struct table *t, uint8_t x)
{
    const int64_t h = t->s->hidden;

    kernel(t, LIST(OF(D_PROJECTED), OF(JOINED)), NOTHING);
    buf(t, OF(D_PROJECTION), mpl_dim(h), 2 * h, RESULT);
    kernel(t, LIST(OF(D_PROJECTED)), NOTHING);
    buf(t, OF(D_JOINED), t->s->tokens, 2 * h, 0);
    norm(t, &(struct norm){
                .reads = LIST(OF(D_JOINED), OF(TOKEN_RSTD)),
                .others = LIST(OF(EMBEDS)),
                .partial = OF(TOKEN_PARTIAL),
                .weight = OF(D_TOKEN_NORM),
                .x = MPL_INDUCTOR_NONE,
            });
    norm(t, &(struct norm){
                .reads = LIST(OF(D_JOINED), OF(HIDDEN_RSTD)),
                .x_reads = LIST(OF(D_JOINED), OF(HIDDEN_RSTD)),
                .others = LIST(OF(X)),
                .partial = OF(HIDDEN_PARTIAL),
                .weight = OF(D_HIDDEN_NORM),
                .x = x,
                .homes = {MPL_INDUCTOR_NONE, MPL_INDUCTOR_NONE},
            });
    if (x != MPL_INDUCTOR_NONE)
        t->graph->values[x].is_result = true;
}

static void write_table(struct mpl_inductor_graph *graph, const struct mpl_mtp *m, bool needs_x)
{
    struct table t = begin_table(graph, &m->sizes, 1);

    inputs(&t, m);
    final_norm(&t);
    mlp(&t);
    attention(&t, m);
    heads(&t);
    joined(&t, needs_x ? OF(D_X) : MPL_INDUCTOR_NONE);
}

struct mpl_mtp_compiled *mpl_mtp_compiled(const struct mpl_mtp *m, bool needs_x)
{
    struct mpl_mtp_compiled *c = &m->compiled[needs_x];

    if (!c->is_ready) {
        write_table(&c->graph, m, needs_x);
        mpl_inductor_plan(&c->graph, &c->plan);
        c->is_ready = true;
    }
    return c;
}
