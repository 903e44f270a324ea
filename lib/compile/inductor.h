/* SPDX-License-Identifier: MIT */
/*
 * What torch.compile's Inductor does with the memory of one compiled graph.
 *
 * A graph is a table of fused kernels in the order of the graph, with the buffers each one makes
 * and reads. The plan is the order that Inductor runs them in and the allocations and frees of its
 * generated code. Families write the tables; nothing here knows a model.
 *
 * source: torch/_inductor/memory.py (reorder_for_peak_memory and its candidates), scheduler.py
 * (fusion is the table's), codegen/wrapper.py (AllocateLine.plan, MemoryPlanningState)
 */
#ifndef MPL_COMPILE_INDUCTOR_H
#define MPL_COMPILE_INDUCTOR_H

#include "tape/tape.h"

#define MPL_INDUCTOR_MAX_VALUES  80
#define MPL_INDUCTOR_MAX_KERNELS 48
#define MPL_INDUCTOR_MAX_READS   16
#define MPL_INDUCTOR_MAX_RESULTS 4
#define MPL_INDUCTOR_MAX_EVENTS  160
#define MPL_INDUCTOR_NONE        UINT8_MAX

enum mpl_inductor_kind {
    MPL_INDUCTOR_UNUSED = 0,
    MPL_INDUCTOR_BUFFER,  /* made by a kernel */
    MPL_INDUCTOR_INPUT,   /* saved for this graph: counts in the estimate until its last reader */
    MPL_INDUCTOR_OUTSIDE, /* parameters, tangents: do not count, but are let go at the last reader
                           */
};

/** A tensor of the graph: [rows, cols], or [1, heads, rows, cols / heads]. */
struct mpl_inductor_value {
    const char *name; /* as in the graph: names freed together go in the order of their text */
    struct mpl_dim rows, cols;
    int64_t heads;          /* 0: a matrix */
    uint8_t dtype;          /* enum mpl_dtype */
    uint8_t kind;           /* enum mpl_inductor_kind */
    bool is_result;         /* leaves the graph */
    bool is_unbooked;       /* counts in the estimate, never gets memory (kept in registers) */
    bool is_fresh;          /* an operator makes it: no freed buffer is taken */
    bool is_symbolic;       /* has a size that is only known when it runs */
    uint8_t in_place_of;    /* takes the storage of that one when this kernel is its last reader */
    uint8_t or_in_place_of; /* of that one where the first has a later reader */
    uint8_t part_of;        /* is written into that one (cat) */
};

/** A kernel. semaphore: a result that is summed from a workspace after it (mixed-order reduction);
 * NONE without. */
struct mpl_inductor_kernel {
    uint8_t results[MPL_INDUCTOR_MAX_RESULTS], reads[MPL_INDUCTOR_MAX_READS];
    uint8_t others[MPL_INDUCTOR_MAX_READS]; /* read, of kind OUTSIDE */
    uint8_t result_count, read_count, other_count;
    uint8_t summed;
    bool is_nop; /* no code: what it ends is freed with the next kernel */
};

/** Zero-initialized is empty. */
struct mpl_inductor_graph {
    struct mpl_inductor_value values[MPL_INDUCTOR_MAX_VALUES]; /* by number; the family numbers */
    uint8_t value_count;
    struct mpl_inductor_kernel kernels[MPL_INDUCTOR_MAX_KERNELS];
    uint8_t kernel_count;
    struct mpl_dim workspace_rows, workspace_cols; /* float32, of mixed-order reductions */
    /* What an operator takes inside itself, after it has made this value; NULL: nothing. */
    void (*take_scratch)(struct mpl_tape *tape, const void *context);
    const void *scratch_context;
    uint8_t scratch_after;
    bool results_are_free; /* before 2.11 the estimate takes results off from the start */
};

enum mpl_inductor_action {
    MPL_INDUCTOR_ALLOC = 0,
    MPL_INDUCTOR_FREE,
    MPL_INDUCTOR_ALLOC_WORKSPACE,
    MPL_INDUCTOR_FREE_WORKSPACE,
    MPL_INDUCTOR_SUM, /* a result out of the workspace: in float32, cast when it is narrower */
};

struct mpl_inductor_event {
    uint8_t action, value;
};

enum mpl_inductor_order {
    MPL_INDUCTOR_BASELINE = 0,
    MPL_INDUCTOR_LPMF,
    MPL_INDUCTOR_BFS,
    MPL_INDUCTOR_DFS,
    MPL_INDUCTOR_ORDER_COUNT,
};

struct mpl_inductor_plan {
    struct mpl_inductor_event events[MPL_INDUCTOR_MAX_EVENTS];
    uint16_t event_count;
    uint8_t home[MPL_INDUCTOR_MAX_VALUES]; /* whose storage a value lies in; NONE: it has none */
    uint8_t order[MPL_INDUCTOR_MAX_KERNELS];
    enum mpl_inductor_order method;
    int64_t estimate; /* peak that Inductor expects, bytes */
};

/* ---- tables -----------------------------------------------------------------------------------
 */

/** The next kernel, reading values (a list that ends with NONE). */
struct mpl_inductor_kernel *mpl_inductor_kernel(struct mpl_inductor_graph *graph,
                                                const uint8_t *reads, const uint8_t *others);

/** A buffer that the kernel added last makes; the result may be changed. */
struct mpl_inductor_value *mpl_inductor_buffer(struct mpl_inductor_graph *graph, uint8_t number,
                                               const char *name, struct mpl_dim rows,
                                               struct mpl_dim cols, enum mpl_dtype dtype);

/** A tensor from outside. */
void mpl_inductor_input(struct mpl_inductor_graph *graph, uint8_t number, const char *name,
                        enum mpl_inductor_kind kind, struct mpl_dim rows, struct mpl_dim cols,
                        enum mpl_dtype dtype);

/* ---- plan and run -----------------------------------------------------------------------------
 */

/** Peak bytes that Inductor expects of an order; levels, if given, takes kernel_count + 1 sums. */
int64_t mpl_inductor_estimate(const struct mpl_inductor_graph *graph, const uint8_t *order,
                              int64_t *levels);

/** Writes one candidate order. */
void mpl_inductor_order(const struct mpl_inductor_graph *graph, enum mpl_inductor_order method,
                        uint8_t *order);

/** The order with the lowest expected peak, the first of equals, and what its code allocates. */
void mpl_inductor_plan(const struct mpl_inductor_graph *graph, struct mpl_inductor_plan *plan);

/**
 * Books the plan's events. values holds, by number, the held tensors of inputs that this call may
 * let go (NULL: not this call's), and afterwards the held tensors of everything still there.
 * Symbolic sizes are multiplied by scale / of.
 */
void mpl_inductor_run(struct mpl_tape *tape, const struct mpl_inductor_graph *graph,
                      const struct mpl_inductor_plan *plan, struct mpl_tensor **values,
                      int64_t scale, int64_t of);

/** Moves the tensor that holds value number out of values; NULL when there is none. */
struct mpl_tensor *mpl_inductor_take(const struct mpl_inductor_plan *plan,
                                     struct mpl_tensor **values, uint8_t number);

/** The same as a gradient, in the shape of the edge's input. */
struct mpl_tensor *mpl_inductor_gradient(const struct mpl_inductor_plan *plan,
                                         struct mpl_tensor **values, uint8_t number,
                                         const struct mpl_edge *edge);

#endif
