/* SPDX-License-Identifier: MIT */
/* How the drafter's kernel tables are written. For arch/eagle3_table_*.c only. */
#ifndef MPL_ARCH_EAGLE3_TABLE_H
#define MPL_ARCH_EAGLE3_TABLE_H

#include "arch/eagle3.h"

/** What a kernel reads, by number. */
#define LIST(...) ((const uint8_t[]){__VA_ARGS__, MPL_INDUCTOR_NONE})
#define NOTHING   NULL

struct table {
    struct mpl_inductor_graph *graph;
    const struct mpl_eagle3_sizes *s;
    struct mpl_dim cache; /* rows of the caches */
    bool is_first, is_grouped, is_dynamic, is_mixed;
};

enum { RESULT = 1, UNBOOKED = 2, SYMBOLIC = 4, HEADS_APART = 8 };

static inline struct table begin_table(struct mpl_inductor_graph *graph,
                                       const struct mpl_eagle3_sizes *s, int64_t ttt_step)
{
    const int64_t blocks = ttt_step < 3 ? ttt_step : 3;
    struct table t = {
        .graph = graph,
        .s = s,
        .cache = {s->tokens.n * blocks, s->tokens.degree},
        .is_first = ttt_step == 1,
        .is_grouped = s->attention != s->kv,
        .is_dynamic = ttt_step >= 3,
        .is_mixed = mpl_eagle3_is_mixed_order(s),
    };

    graph->results_are_free = s->results_are_free;
    graph->workspace_rows = mpl_eagle3_mixed_rows(s);
    graph->workspace_cols = mpl_dim(s->hidden);
    return t;
}

static inline struct mpl_inductor_kernel *kernel(struct table *t, const uint8_t *reads,
                                                 const uint8_t *others)
{
    return mpl_inductor_kernel(t->graph, reads, others);
}

static inline void no_op(struct table *t, const uint8_t *reads)
{
    mpl_inductor_kernel(t->graph, reads, NULL)->is_nop = true;
}

static inline struct mpl_inductor_value *named(struct table *t, const char *name, uint8_t number,
                                               struct mpl_dim rows, int64_t cols,
                                               enum mpl_dtype dtype, unsigned flags)
{
    struct mpl_inductor_value *value =
        mpl_inductor_buffer(t->graph, number, name, rows, mpl_dim(cols), dtype);

    value->is_result = flags & RESULT;
    value->is_unbooked = flags & UNBOOKED;
    value->is_symbolic = (flags & SYMBOLIC) && t->is_dynamic;
    value->heads = flags & HEADS_APART ? cols / t->s->head_dim : 0;
    return value;
}

#endif
