/* SPDX-License-Identifier: MIT */
/*
 * Inductor's order of kernels: candidates, and the peak that it expects of each.
 *
 * source: torch/_inductor/memory.py, release 2.13
 */
#include "compile/inductor_order.h"

#include <string.h>

#define MAX_VALUES  MPL_INDUCTOR_MAX_VALUES
#define MAX_KERNELS MPL_INDUCTOR_MAX_KERNELS
#define MAX_READS   MPL_INDUCTOR_MAX_READS
#define NONE        MPL_INDUCTOR_NONE

/* ---- tables -----------------------------------------------------------------------------------
 */

struct mpl_inductor_kernel *mpl_inductor_kernel(struct mpl_inductor_graph *graph,
                                                const uint8_t *reads, const uint8_t *others)
{
    struct mpl_inductor_kernel *kernel = &graph->kernels[graph->kernel_count++];

    kernel->summed = NONE;
    for (; reads && *reads != NONE; reads++)
        kernel->reads[kernel->read_count++] = *reads;
    for (; others && *others != NONE; others++)
        kernel->others[kernel->other_count++] = *others;
    return kernel;
}

static struct mpl_inductor_value *set_value(struct mpl_inductor_graph *graph, uint8_t number,
                                            struct mpl_inductor_value value)
{
    value.in_place_of = value.or_in_place_of = value.part_of = NONE;
    graph->values[number] = value;
    if (number >= graph->value_count)
        graph->value_count = (uint8_t)(number + 1);
    return &graph->values[number];
}

struct mpl_inductor_value *mpl_inductor_buffer(struct mpl_inductor_graph *graph, uint8_t number,
                                               const char *name, struct mpl_dim rows,
                                               struct mpl_dim cols, enum mpl_dtype dtype)
{
    struct mpl_inductor_kernel *kernel = &graph->kernels[graph->kernel_count - 1];

    kernel->results[kernel->result_count++] = number;
    return set_value(graph, number,
                     (struct mpl_inductor_value){.name = name,
                                                 .rows = rows,
                                                 .cols = cols,
                                                 .dtype = (uint8_t)dtype,
                                                 .kind = MPL_INDUCTOR_BUFFER});
}

void mpl_inductor_input(struct mpl_inductor_graph *graph, uint8_t number, const char *name,
                        enum mpl_inductor_kind kind, struct mpl_dim rows, struct mpl_dim cols,
                        enum mpl_dtype dtype)
{
    set_value(graph, number,
              (struct mpl_inductor_value){.name = name,
                                          .rows = rows,
                                          .cols = cols,
                                          .dtype = (uint8_t)dtype,
                                          .kind = (uint8_t)kind});
}

/* ---- who reads what ---------------------------------------------------------------------------
 */

/* The graph's edges, by number. A kernel that reads its own result does not depend on itself. */
struct edges {
    const struct mpl_inductor_graph *graph;
    int64_t bytes[MAX_VALUES], size[MAX_KERNELS]; /* of a value; of a kernel's results together */
    uint8_t maker[MAX_VALUES];
    uint8_t readers[MAX_VALUES][MAX_KERNELS], reader_count[MAX_VALUES];
    uint8_t before[MAX_KERNELS][MAX_READS], before_count[MAX_KERNELS];
    uint8_t after[MAX_KERNELS][MAX_KERNELS], after_count[MAX_KERNELS];
};

static bool contains(const uint8_t *list, int count, uint8_t what)
{
    for (int i = 0; i < count; i++)
        if (list[i] == what)
            return true;
    return false;
}

/* [rows, cols] of its dtype */
static int64_t value_bytes(const struct mpl_inductor_value *value)
{
    const uint64_t numel = mpl_mul((uint64_t)value->rows.n, (uint64_t)value->cols.n);
    const uint64_t bytes = mpl_dtype_bytes((enum mpl_dtype)value->dtype, numel);

    return bytes > (UINT64_C(1) << 50) ? INT64_C(1) << 50 : (int64_t)bytes;
}

static void find_readers(struct edges *edges)
{
    const struct mpl_inductor_graph *graph = edges->graph;

    for (uint8_t k = 0; k < graph->kernel_count; k++)
        for (int i = 0; i < graph->kernels[k].read_count; i++) {
            const uint8_t v = graph->kernels[k].reads[i], maker = edges->maker[v];

            if (maker == k)
                continue;
            edges->readers[v][edges->reader_count[v]++] = k;
            if (maker != NONE && !contains(edges->before[k], edges->before_count[k], maker))
                edges->before[k][edges->before_count[k]++] = maker;
        }
}

static void find_edges(const struct mpl_inductor_graph *graph, struct edges *edges)
{
    memset(edges, 0, sizeof(*edges));
    edges->graph = graph;
    memset(edges->maker, NONE, sizeof(edges->maker));
    for (uint8_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind != MPL_INDUCTOR_UNUSED)
            edges->bytes[v] = value_bytes(&graph->values[v]);
    for (uint8_t k = 0; k < graph->kernel_count; k++)
        for (int i = 0; i < graph->kernels[k].result_count; i++) {
            edges->maker[graph->kernels[k].results[i]] = k;
            edges->size[k] += edges->bytes[graph->kernels[k].results[i]];
        }
    find_readers(edges);
    for (uint8_t k = 0; k < graph->kernel_count; k++)
        for (int i = 0; i < graph->kernels[k].result_count; i++) {
            const uint8_t v = graph->kernels[k].results[i];

            for (int r = 0; r < edges->reader_count[v]; r++)
                if (!contains(edges->after[k], edges->after_count[k], edges->readers[v][r]))
                    edges->after[k][edges->after_count[k]++] = edges->readers[v][r];
        }
}

/* ---- the expected peak ------------------------------------------------------------------------
 */

/* Inputs live until their last reader, buffers from their kernel to their last reader, results to
 * the end; in-place writes and reuse are not seen (estimate_peak_memory). */
static int64_t estimate(const struct edges *edges, const uint8_t *order, int64_t *levels)
{
    const struct mpl_inductor_graph *graph = edges->graph;
    int64_t change[MAX_KERNELS + 2] = {0}, level = 0, peak = 0;
    uint8_t at[MAX_KERNELS];

    for (uint8_t i = 0; i < graph->kernel_count; i++)
        at[order[i]] = i;
    for (uint8_t v = 0; v < graph->value_count; v++) {
        const struct mpl_inductor_value *value = &graph->values[v];
        const bool is_buffer = value->kind == MPL_INDUCTOR_BUFFER;
        int begin = is_buffer ? at[edges->maker[v]] : 0, last = begin;

        if (!is_buffer && value->kind != MPL_INDUCTOR_INPUT)
            continue;
        for (int r = 0; r < edges->reader_count[v]; r++)
            if (at[edges->readers[v][r]] > last)
                last = at[edges->readers[v][r]];
        change[begin] += edges->bytes[v];
        if (!is_buffer || !value->is_result)
            change[last + 1] -= edges->bytes[v];
        else if (graph->results_are_free)
            change[0] -= edges->bytes[v];
    }
    for (int i = 0; i <= graph->kernel_count; i++) {
        level += change[i];
        if (levels)
            levels[i] = level;
        if (level > peak)
            peak = level;
    }
    return peak;
}

int64_t mpl_inductor_estimate(const struct mpl_inductor_graph *graph, const uint8_t *order,
                              int64_t *levels)
{
    struct edges edges;

    find_edges(graph, &edges);
    return estimate(&edges, order, levels);
}

/* ---- candidates -------------------------------------------------------------------------------
 */

/* State of the greedy search: how many readers keep a value, what a kernel would free. */
struct greedy {
    int readers[MAX_VALUES], waits[MAX_KERNELS];
    int64_t frees[MAX_KERNELS], live, most;
    bool is_ready[MAX_KERNELS];
};

static void begin_greedy(const struct edges *edges, struct greedy *greedy)
{
    const struct mpl_inductor_graph *graph = edges->graph;
    int64_t results = 0;

    memset(greedy, 0, sizeof(*greedy));
    for (uint8_t v = 0; v < graph->value_count; v++) {
        const struct mpl_inductor_value *value = &graph->values[v];

        greedy->readers[v] = edges->reader_count[v] + value->is_result;
        if (value->kind == MPL_INDUCTOR_INPUT)
            greedy->live += edges->bytes[v];
        if (value->kind == MPL_INDUCTOR_BUFFER && value->is_result)
            results += edges->bytes[v];
    }
    greedy->most = greedy->live > results ? greedy->live : results;
    for (uint8_t k = 0; k < graph->kernel_count; k++) {
        const struct mpl_inductor_kernel *kernel = &graph->kernels[k];

        greedy->waits[k] = edges->before_count[k];
        greedy->is_ready[k] = !greedy->waits[k];
        for (int i = 0; i < kernel->read_count; i++)
            if (edges->maker[kernel->reads[i]] != k && greedy->readers[kernel->reads[i]] == 1)
                greedy->frees[k] += edges->bytes[kernel->reads[i]];
        for (int i = 0; i < kernel->result_count; i++)
            if (!greedy->readers[kernel->results[i]])
                greedy->frees[k] += edges->bytes[kernel->results[i]];
    }
}

/* Smallest (size if it would raise the peak, size - what it frees, number). */
static uint8_t pick_greedy(const struct edges *edges, const struct greedy *greedy)
{
    uint8_t best = NONE;
    int64_t best_raise = 0, best_net = 0;

    for (uint8_t k = 0; k < edges->graph->kernel_count; k++) {
        const int64_t size = edges->size[k];
        const int64_t raise = size > greedy->most - greedy->live ? size : 0;
        const int64_t net = size - greedy->frees[k];

        if (!greedy->is_ready[k] ||
            (best != NONE && (raise > best_raise || (raise == best_raise && net >= best_net))))
            continue;
        best = k;
        best_raise = raise;
        best_net = net;
    }
    return best;
}

static void end_greedy(const struct edges *edges, struct greedy *greedy, uint8_t k)
{
    const struct mpl_inductor_kernel *kernel = &edges->graph->kernels[k];

    greedy->is_ready[k] = false;
    greedy->live += edges->size[k];
    if (greedy->live > greedy->most)
        greedy->most = greedy->live;
    greedy->live -= greedy->frees[k];
    for (int i = 0; i < edges->after_count[k]; i++)
        if (!--greedy->waits[edges->after[k][i]])
            greedy->is_ready[edges->after[k][i]] = true;
    for (int i = 0; i < kernel->read_count; i++) {
        const uint8_t v = kernel->reads[i];

        if (edges->maker[v] == k || --greedy->readers[v] != 1)
            continue;
        for (int r = 0; r < edges->reader_count[v]; r++)
            greedy->frees[edges->readers[v][r]] += edges->bytes[v];
    }
}

/* topological_sort_lpmf: the kernel that adds least to what lives. */
static void order_lpmf(const struct edges *edges, uint8_t *order)
{
    struct greedy greedy;

    begin_greedy(edges, &greedy);
    for (int i = 0; i < edges->graph->kernel_count; i++) {
        const uint8_t k = pick_greedy(edges, &greedy);

        if (k == NONE)
            return;
        order[i] = k;
        end_greedy(edges, &greedy, k);
    }
}

struct rank {
    uint8_t made[MAX_READS], count; /* positions of what it depends on, sorted */
};

static int compare_rank(const struct rank *a, const struct rank *b)
{
    for (int i = 0; i < a->count && i < b->count; i++)
        if (a->made[i] != b->made[i])
            return a->made[i] < b->made[i] ? -1 : 1;
    return (a->count > b->count) - (a->count < b->count);
}

/* topological_sort_bfs: what depends on the earliest kernels first. */
static void order_bfs(const struct edges *edges, uint8_t *order)
{
    const uint8_t count = edges->graph->kernel_count;
    struct rank ranks[MAX_KERNELS] = {0};
    uint8_t at[MAX_KERNELS], waits[MAX_KERNELS];
    bool is_done[MAX_KERNELS] = {false};

    memcpy(waits, edges->before_count, sizeof(waits));
    for (uint8_t i = 0; i < count; i++) {
        uint8_t best = NONE;

        for (uint8_t k = 0; k < count; k++)
            if (!is_done[k] && !waits[k] &&
                (best == NONE || compare_rank(&ranks[k], &ranks[best]) < 0))
                best = k;
        if (best == NONE)
            return;
        is_done[best] = true;
        at[best] = i;
        order[i] = best;
        for (int j = 0; j < edges->after_count[best]; j++) {
            const uint8_t next = edges->after[best][j];
            struct rank *rank = &ranks[next];

            rank->made[rank->count++] = at[best]; /* positions only grow: they stay sorted */
            waits[next]--;
        }
    }
}

struct dfs {
    const struct edges *edges;
    int64_t weight[MAX_KERNELS]; /* results and what is read */
    bool is_seen[MAX_KERNELS];
    uint8_t *order, count;
};

static void sort_by_weight(const struct dfs *dfs, uint8_t *list, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j; j--) {
            const uint8_t a = list[j - 1], b = list[j];

            if (dfs->weight[a] < dfs->weight[b] || (dfs->weight[a] == dfs->weight[b] && a < b))
                break;
            list[j - 1] = b;
            list[j] = a;
        }
}

/* Depth is at most the number of kernels in a row. */
static void visit(struct dfs *dfs, uint8_t k)
{
    uint8_t before[MAX_READS];
    const int count = dfs->edges->before_count[k];

    if (dfs->is_seen[k])
        return;
    dfs->is_seen[k] = true;
    memcpy(before, dfs->edges->before[k], sizeof(before));
    sort_by_weight(dfs, before, count);
    for (int i = 0; i < count; i++)
        visit(dfs, before[i]);
    dfs->order[dfs->count++] = k;
}

/* topological_sort_dfs: small kernels first, each after what it needs. */
static void order_dfs(const struct edges *edges, uint8_t *order)
{
    const struct mpl_inductor_graph *graph = edges->graph;
    struct dfs dfs = {.edges = edges, .order = order};
    uint8_t all[MAX_KERNELS];

    for (uint8_t k = 0; k < graph->kernel_count; k++) {
        all[k] = k;
        dfs.weight[k] = edges->size[k];
        for (int i = 0; i < graph->kernels[k].read_count; i++)
            if (edges->maker[graph->kernels[k].reads[i]] != k)
                dfs.weight[k] += edges->bytes[graph->kernels[k].reads[i]];
    }
    sort_by_weight(&dfs, all, graph->kernel_count);
    for (int i = 0; i < graph->kernel_count; i++)
        visit(&dfs, all[i]);
}

static void write_order(const struct edges *edges, enum mpl_inductor_order method, uint8_t *order)
{
    switch (method) {
    case MPL_INDUCTOR_LPMF:
        order_lpmf(edges, order);
        return;
    case MPL_INDUCTOR_BFS:
        order_bfs(edges, order);
        return;
    case MPL_INDUCTOR_DFS:
        order_dfs(edges, order);
        return;
    default:
        for (uint8_t k = 0; k < edges->graph->kernel_count; k++)
            order[k] = k;
    }
}

void mpl_inductor_order(const struct mpl_inductor_graph *graph, enum mpl_inductor_order method,
                        uint8_t *order)
{
    struct edges edges;

    find_edges(graph, &edges);
    write_order(&edges, method, order);
}

int64_t mpl_inductor_choose(const struct mpl_inductor_graph *graph, struct mpl_inductor_plan *plan,
                            int64_t *levels)
{
    struct edges edges;
    uint8_t order[MAX_KERNELS];

    find_edges(graph, &edges);
    for (int m = 0; m < MPL_INDUCTOR_ORDER_COUNT; m++) {
        int64_t peak;

        write_order(&edges, (enum mpl_inductor_order)m, order);
        peak = estimate(&edges, order, NULL);
        if (m && peak >= plan->estimate)
            continue;
        plan->estimate = peak;
        plan->method = (enum mpl_inductor_order)m;
        memcpy(plan->order, order, graph->kernel_count);
    }
    return estimate(&edges, plan->order, levels);
}
