/* SPDX-License-Identifier: MIT */
/*
 * Inductor's generated code: which kernel's output takes which freed buffer, and running it.
 *
 * source: torch/_inductor/codegen/wrapper.py (AllocateLine, FreeIfNotReusedLine,
 * MemoryPlanningState), scheduler.py (buffer_names_to_free, decide_inplace_update), release 2.13
 */
#include <string.h>

#include "compile/inductor.h"
#include "compile/inductor_order.h"

#define MAX_VALUES  MPL_INDUCTOR_MAX_VALUES
#define MAX_KERNELS MPL_INDUCTOR_MAX_KERNELS
#define NONE        MPL_INDUCTOR_NONE

/* A line of the generated code. A free that a later allocation takes over disappears. */
struct line {
    uint8_t action, value, at; /* at: position of the kernel it follows */
    bool is_reused;
};

struct planner {
    const struct mpl_inductor_graph *graph;
    struct mpl_inductor_plan *plan;
    int64_t levels[MAX_KERNELS + 1], peak;
    uint8_t last[MAX_VALUES]; /* kernel that reads a value last, or makes it when none does */
    bool is_gone[MAX_VALUES]; /* its storage went on in place */
    struct line lines[MPL_INDUCTOR_MAX_EVENTS];
    int count;
    uint8_t pending[MAX_VALUES]; /* what ends with this kernel, or with a no-op before it */
    int pending_count;
};

static const struct mpl_inductor_value *value_of(const struct planner *p, uint8_t v)
{
    return &p->graph->values[v];
}

static int64_t numel_of(const struct mpl_inductor_value *value)
{
    const uint64_t numel = mpl_mul((uint64_t)value->rows.n, (uint64_t)value->cols.n);

    return numel > INT64_MAX ? INT64_MAX : (int64_t)numel;
}

static int64_t bytes_of(const struct mpl_inductor_value *value)
{
    const uint64_t bytes = mpl_dtype_bytes((enum mpl_dtype)value->dtype, (uint64_t)numel_of(value));

    return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

/* buffer_reuse_key: device, dtype, size; a symbolic size equals itself only. */
static bool have_equal_keys(const struct mpl_inductor_value *a, const struct mpl_inductor_value *b)
{
    return a->dtype == b->dtype && a->is_symbolic == b->is_symbolic && numel_of(a) == numel_of(b);
}

static void add_line(struct planner *p, enum mpl_inductor_action action, uint8_t value, uint8_t at)
{
    if (p->count < MPL_INDUCTOR_MAX_EVENTS)
        p->lines[p->count++] = (struct line){(uint8_t)action, value, at, false};
}

/* The free line most recently written whose buffer has the key; NULL when there is none. */
static struct line *last_free(struct planner *p, const struct mpl_inductor_value *value)
{
    for (int i = p->count - 1; i >= 0; i--) {
        struct line *line = &p->lines[i];

        if (line->action == MPL_INDUCTOR_FREE && !line->is_reused &&
            value_of(p, line->value)->kind == MPL_INDUCTOR_BUFFER &&
            have_equal_keys(value_of(p, line->value), value))
            return line;
    }
    return NULL;
}

/* should_reuse_buffer: at once, or if keeping it until now does not raise the expected peak. */
static bool may_reuse(struct planner *p, const struct line *line, uint8_t at, int64_t bytes)
{
    int64_t most = 0;

    for (int i = line->at + 1; i < at; i++)
        if (p->levels[i] > most || i == line->at + 1)
            most = p->levels[i];
    if (line->at + 1 != at && bytes + most > p->peak)
        return false;
    for (int i = line->at + 1; i < at; i++)
        p->levels[i] += bytes;
    return true;
}

static void allocate(struct planner *p, uint8_t v, uint8_t at)
{
    struct line *line = last_free(p, value_of(p, v));

    if (line && may_reuse(p, line, at, bytes_of(value_of(p, v)))) {
        line->is_reused = true;
        p->plan->home[v] = p->plan->home[line->value];
        return;
    }
    p->plan->home[v] = v;
    add_line(p, MPL_INDUCTOR_ALLOC, v, at);
}

/* Whose storage a value takes: the first of its candidates that the kernel reads last; or NONE. */
static uint8_t find_place(const struct planner *p, uint8_t v, uint8_t kernel)
{
    const struct mpl_inductor_value *value = value_of(p, v);
    const uint8_t candidates[] = {value->in_place_of, value->or_in_place_of};

    for (int i = 0; i < 2; i++)
        if (candidates[i] != NONE && p->last[candidates[i]] == kernel &&
            bytes_of(value_of(p, candidates[i])) == bytes_of(value))
            return candidates[i];
    return NONE;
}

static void make_results(struct planner *p, uint8_t kernel, uint8_t at)
{
    const struct mpl_inductor_kernel *k = &p->graph->kernels[kernel];

    for (int i = 0; i < k->result_count; i++) {
        const uint8_t v = k->results[i];
        const struct mpl_inductor_value *value = value_of(p, v);

        if (value->part_of != NONE) {
            if (p->plan->home[value->part_of] == NONE)
                allocate(p, value->part_of, at);
        } else if (value->is_fresh) {
            p->plan->home[v] = v;
            add_line(p, MPL_INDUCTOR_ALLOC, v, at);
        } else if (!value->is_unbooked && p->plan->home[v] == NONE) {
            const uint8_t old = find_place(p, v, kernel);

            if (old != NONE) {
                const uint8_t home = p->plan->home[old];

                p->plan->home[v] = home == NONE ? old : home;
                p->is_gone[old] = true;
            } else {
                allocate(p, v, at);
            }
        }
    }
}

/* The reduction's workspace, its sum, and the workspace's end, which the next one may take over. */
static void sum_workspace(struct planner *p, uint8_t summed, uint8_t at)
{
    struct line *free_line = NULL;

    for (int i = 0; i < p->count; i++)
        if (p->lines[i].action == MPL_INDUCTOR_FREE_WORKSPACE && !p->lines[i].is_reused)
            free_line = &p->lines[i];
    if (free_line)
        free_line->is_reused = true;
    else
        add_line(p, MPL_INDUCTOR_ALLOC_WORKSPACE, NONE, at);
    p->plan->home[summed] = summed;
    add_line(p, MPL_INDUCTOR_SUM, summed, at);
    add_line(p, MPL_INDUCTOR_FREE_WORKSPACE, NONE, at);
}

static void collect_pending(struct planner *p, uint8_t kernel)
{
    for (uint8_t v = 0; v < p->graph->value_count; v++) {
        int i = p->pending_count;

        if (p->last[v] != kernel || p->is_gone[v] || value_of(p, v)->kind == MPL_INDUCTOR_UNUSED)
            continue;
        for (; i && strcmp(value_of(p, p->pending[i - 1])->name, value_of(p, v)->name) > 0; i--)
            p->pending[i] = p->pending[i - 1];
        p->pending[i] = v;
        p->pending_count++;
    }
}

static void free_pending(struct planner *p, uint8_t at)
{
    for (int i = 0; i < p->pending_count; i++) {
        const uint8_t v = p->pending[i];
        const struct mpl_inductor_value *value = value_of(p, v);

        if (value->kind == MPL_INDUCTOR_BUFFER &&
            (value->is_result || value->is_unbooked || value->part_of != NONE ||
             p->plan->home[v] == NONE))
            continue;
        add_line(p, MPL_INDUCTOR_FREE, v, at);
    }
    p->pending_count = 0;
}

/* In the planned order: the kernel that uses each value last. */
static void find_last(struct planner *p)
{
    memset(p->last, NONE, sizeof(p->last));
    for (int i = 0; i < p->graph->kernel_count; i++) {
        const uint8_t k = p->plan->order[i];
        const struct mpl_inductor_kernel *kernel = &p->graph->kernels[k];

        for (int r = 0; r < kernel->read_count; r++)
            p->last[kernel->reads[r]] = k;
        for (int r = 0; r < kernel->other_count; r++)
            p->last[kernel->others[r]] = k;
        for (int r = 0; r < kernel->result_count; r++)
            if (p->last[kernel->results[r]] == NONE)
                p->last[kernel->results[r]] = k;
    }
}

static void emit(struct planner *p)
{
    struct mpl_inductor_plan *plan = p->plan;

    for (int i = 0; i < p->count; i++) {
        const struct line *line = &p->lines[i];
        uint8_t value = line->value;

        if (line->is_reused)
            continue;
        if (line->action == MPL_INDUCTOR_FREE && plan->home[value] != NONE)
            value = plan->home[value];
        plan->events[plan->event_count++] = (struct mpl_inductor_event){line->action, value};
    }
}

void mpl_inductor_plan(const struct mpl_inductor_graph *graph, struct mpl_inductor_plan *plan)
{
    struct planner p;

    memset(&p, 0, sizeof(p));
    memset(plan, 0, sizeof(*plan));
    memset(plan->home, NONE, sizeof(plan->home));
    p.graph = graph;
    p.plan = plan;
    p.peak = mpl_inductor_choose(graph, plan, p.levels);
    find_last(&p);
    for (uint8_t at = 0; at < graph->kernel_count; at++) {
        const uint8_t k = plan->order[at];

        make_results(&p, k, at);
        if (graph->kernels[k].summed != NONE)
            sum_workspace(&p, graph->kernels[k].summed, at);
        collect_pending(&p, k);
        if (!graph->kernels[k].is_nop)
            free_pending(&p, at);
    }
    emit(&p);
}

/* ---- running it -------------------------------------------------------------------------------
 */

static struct mpl_tensor *make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                               struct mpl_dim cols)
{
    const struct mpl_shape shape = mpl_shape2(rows, cols);

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

static struct mpl_tensor *make_value(struct mpl_tape *tape, const struct mpl_inductor_value *value,
                                     struct mpl_dim rows)
{
    const enum mpl_dtype dtype = (enum mpl_dtype)value->dtype;
    struct mpl_shape shape;

    if (!value->heads)
        return make(tape, dtype, rows, value->cols);
    shape =
        mpl_shape4(mpl_dim(1), mpl_dim(value->heads), rows, mpl_dim(value->cols.n / value->heads));
    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", dtype, &shape));
}

/* rows [cols] float32, cast when the result is narrower */
static struct mpl_tensor *sum_rows(struct mpl_tape *tape, const struct mpl_inductor_value *value)
{
    const struct mpl_shape shape = mpl_shape1(value->cols);
    struct mpl_tensor *sum = mpl_hold(mpl_empty(tape, "sum.dim_IntList", MPL_FLOAT32, &shape));

    if (value->dtype != MPL_FLOAT32)
        mpl_rebind(tape, &sum,
                   mpl_empty(tape, "_to_copy.default", (enum mpl_dtype)value->dtype, &shape));
    return sum;
}

void mpl_inductor_run(struct mpl_tape *tape, const struct mpl_inductor_graph *graph,
                      const struct mpl_inductor_plan *plan, struct mpl_tensor **values,
                      int64_t scale, int64_t of)
{
    struct mpl_tensor *workspace = NULL;

    for (int i = 0; i < plan->event_count && !tape->is_stopped; i++) {
        const uint8_t v = plan->events[i].value;
        const struct mpl_inductor_value *value = v == NONE ? NULL : &graph->values[v];
        struct mpl_dim rows;

        switch ((enum mpl_inductor_action)plan->events[i].action) {
        case MPL_INDUCTOR_ALLOC:
            rows = value->rows;
            if (value->is_symbolic)
                rows.n = rows.n / of * scale;
            values[v] = make_value(tape, value, rows);
            if (graph->take_scratch && graph->scratch_after == v)
                graph->take_scratch(tape, graph->scratch_context);
            break;
        case MPL_INDUCTOR_FREE:
            mpl_drop(tape, values[v]);
            values[v] = NULL;
            break;
        case MPL_INDUCTOR_ALLOC_WORKSPACE:
            workspace = make(tape, MPL_FLOAT32, graph->workspace_rows, graph->workspace_cols);
            break;
        case MPL_INDUCTOR_FREE_WORKSPACE:
            mpl_drop(tape, workspace);
            workspace = NULL;
            break;
        case MPL_INDUCTOR_SUM:
            values[v] = sum_rows(tape, value);
            break;
        }
    }
}

struct mpl_tensor *mpl_inductor_take(const struct mpl_inductor_plan *plan,
                                     struct mpl_tensor **values, uint8_t number)
{
    const uint8_t home = plan->home[number];
    struct mpl_tensor *tensor = home == NONE ? NULL : values[home];

    if (tensor)
        values[home] = NULL;
    return tensor;
}

struct mpl_tensor *mpl_inductor_gradient(const struct mpl_inductor_plan *plan,
                                         struct mpl_tensor **values, uint8_t number,
                                         const struct mpl_edge *edge)
{
    struct mpl_tensor *gradient = mpl_inductor_take(plan, values, number);
    int64_t step = 1;

    if (!gradient || gradient->is_void)
        return gradient;
    gradient->shape.ndim = edge->ndim;
    for (int i = edge->ndim - 1; i >= 0; i--) {
        gradient->shape.dim[i] = edge->dim[i];
        gradient->stride[i] = step;
        step *= edge->dim[i].n;
    }
    return gradient;
}
