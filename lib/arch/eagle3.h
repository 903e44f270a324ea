/* SPDX-License-Identifier: MIT */
/* The EAGLE-3 drafter: what its files share. For arch/eagle3*.c only. */
#ifndef MPL_ARCH_EAGLE3_H
#define MPL_ARCH_EAGLE3_H

#include "compile/inductor.h"
#include "spec/speculators.h"
#include "step/network.h"

#define MPL_EAGLE3_BLOCK      128 /* tokens; BlockMask.BLOCK_SIZE */
#define MPL_EAGLE3_MASKS      9
#define MPL_EAGLE3_GARBAGE    40
#define MPL_EAGLE3_PARAMETERS 20
#define MPL_EAGLE3_LOSS_ROWS  4 /* numbers of each token that the loss keeps */

/** The layer's parameters, in the order of named_parameters(). */
enum mpl_eagle3_weight {
    MPL_EAGLE3_Q = 0,
    MPL_EAGLE3_K,
    MPL_EAGLE3_V,
    MPL_EAGLE3_O,
    MPL_EAGLE3_GATE,
    MPL_EAGLE3_UP,
    MPL_EAGLE3_DOWN,
    MPL_EAGLE3_INPUT_NORM,
    MPL_EAGLE3_POST_NORM,
    MPL_EAGLE3_HIDDEN_NORM,
    MPL_EAGLE3_WEIGHTS,
};

/** Sizes and formats, and what the compiler's choices depend on. */
struct mpl_eagle3_sizes {
    struct mpl_dim tokens;
    int64_t hidden, inner, heads, head_dim; /* head_dim: of one head */
    int64_t attention, kv;                  /* heads times head_dim */
    int64_t draft_vocab, vocab, steps;      /* steps: of training-time test */
    enum mpl_dtype layer_dtype, root_dtype;
    enum mpl_dtype cast_dtype; /* that compiled code casts float32 weights to; NONE: it does not */
    const struct mpl_speculators *release;
    bool is_eager;  /* only the attention kernel is compiled */
    bool is_broken; /* Dynamo breaks the layer's graph after its first norms */
    bool has_mixed_order, results_are_free;
    int64_t multiprocessors, threads; /* of one multiprocessor, as Inductor believes */
    int64_t inner_split;              /* longest row that Inductor sums in one go */
};

/** A compiled graph and its plan; made when it is first run. */
struct mpl_eagle3_compiled {
    struct mpl_inductor_graph graph;
    struct mpl_inductor_plan plan;
    bool is_ready;
};

/** Block mask of flex_attention: lists of key blocks for each query block, and back. */
struct mpl_eagle3_mask {
    struct mpl_tensor *tensors[MPL_EAGLE3_MASKS]; /* held */
    int count;
};

struct mpl_eagle3_batch {
    struct mpl_tensor *input_ids, *hidden_states, *last_hidden_states, *loss_mask, *lengths,
        *position_ids, *document_ids;
};

struct mpl_eagle3_code;

struct mpl_eagle3 {
    struct mpl_network *network;
    const struct mpl_eagle3_code *code;
    struct mpl_eagle3_sizes sizes;
    uint32_t fc, norm, embed, head, verifier_head, verifier_norm, inverse_frequency;
    uint32_t selectors[2]; /* buffers d2t, t2d; from 0.5.0 in the other order */
    uint32_t layer[MPL_EAGLE3_WEIGHTS];

    /* the training loop's names */
    struct mpl_eagle3_batch batch;
    struct mpl_tensor **outputs, **old_outputs; /* what forward returned; held */
    uint32_t output_count, old_output_count, output_cap;
    bool is_first; /* step: the one that compiles */

    /* locals of forward that the layer sees or changes */
    struct mpl_tensor *cos, *sin, *positions, *arange;
    struct mpl_tensor *cached_keys, *cached_values;
    struct mpl_eagle3_mask mask;
    int64_t ttt_step; /* from 1 */

    /* by min(step, 3) - 1: every later step runs the graph of the third */
    struct mpl_eagle3_compiled forward[3], backward[3], norms_backward;

    /* tensors in reference cycles that compiling left behind */
    struct mpl_tensor *garbage[MPL_EAGLE3_GARBAGE];
    int garbage_count;
};

/* ---- kernel tables ----------------------------------------------------------------------------
 */

/** Numbers of a table's values. */
enum {
    /* forward */
    MPL_EAGLE3_RSTD_INPUT = 0,
    MPL_EAGLE3_RSTD_INPUT_SUM,
    MPL_EAGLE3_NORMED_INPUT,
    MPL_EAGLE3_RSTD_HIDDEN_SUM,
    MPL_EAGLE3_RSTD_HIDDEN,
    MPL_EAGLE3_NORMED_HIDDEN,
    MPL_EAGLE3_NORMED,
    MPL_EAGLE3_QUERY,
    MPL_EAGLE3_KEY,
    MPL_EAGLE3_VALUE,
    MPL_EAGLE3_CACHE_K,
    MPL_EAGLE3_CACHE_V,
    MPL_EAGLE3_ROTATED_QUERY,
    MPL_EAGLE3_ROTATED_KEY,
    MPL_EAGLE3_CONTIGUOUS_VALUE,
    MPL_EAGLE3_LSE,
    MPL_EAGLE3_ROW_MAX,
    MPL_EAGLE3_ATTENTION,
    MPL_EAGLE3_ATTENTION_T,
    MPL_EAGLE3_PROJECTED,
    MPL_EAGLE3_RESIDUAL,
    MPL_EAGLE3_RSTD_POST_SUM,
    MPL_EAGLE3_RSTD_POST,
    MPL_EAGLE3_NORMED_POST,
    MPL_EAGLE3_GATED,
    MPL_EAGLE3_UPPED,
    MPL_EAGLE3_PRODUCT,
    MPL_EAGLE3_DOWNED,
    MPL_EAGLE3_OUTPUT,
    MPL_EAGLE3_FORWARD_VALUES,

    /* backward: buffers have the numbers of their names, then what comes from outside */
    MPL_EAGLE3_BUF_COUNT = 42,
    MPL_EAGLE3_IN_PRODUCT = MPL_EAGLE3_BUF_COUNT,
    MPL_EAGLE3_IN_GATED,
    MPL_EAGLE3_IN_UPPED,
    MPL_EAGLE3_IN_NORMED_POST,
    MPL_EAGLE3_IN_RESIDUAL,
    MPL_EAGLE3_IN_RSTD_POST,
    MPL_EAGLE3_IN_ATTENTION_T,
    MPL_EAGLE3_IN_ATTENTION,
    MPL_EAGLE3_IN_LSE,
    MPL_EAGLE3_IN_NORMED,
    MPL_EAGLE3_IN_QUERY,
    MPL_EAGLE3_IN_KEY,
    MPL_EAGLE3_IN_VALUE,
    MPL_EAGLE3_IN_RSTD_INPUT,
    MPL_EAGLE3_IN_RSTD_HIDDEN,
    MPL_EAGLE3_IN_INPUT,
    MPL_EAGLE3_IN_COS,
    MPL_EAGLE3_IN_SIN,
    MPL_EAGLE3_IN_MASK,                                            /* and the next ones */
    MPL_EAGLE3_IN_TANGENT = MPL_EAGLE3_IN_MASK + MPL_EAGLE3_MASKS, /* of the output, */
    MPL_EAGLE3_IN_TANGENT_V,                                       /* of the caches */
    MPL_EAGLE3_IN_TANGENT_K,
    MPL_EAGLE3_BACKWARD_VALUES,
};

/** The layer's compiled graphs for a step of training-time test. */
void mpl_eagle3_table_forward(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                              int64_t ttt_step);
void mpl_eagle3_table_backward(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                               int64_t ttt_step);
/** The first norms and their cat, where they are a graph of their own. */
void mpl_eagle3_table_norms_backward(struct mpl_inductor_graph *graph,
                                     const struct mpl_eagle3_sizes *s);

/** How often the compiler cuts the sum over tokens of a norm's weight gradient. */
int64_t mpl_eagle3_split(const struct mpl_eagle3_sizes *s);
/** Gradients of input and weight of a norm in one kernel (mixed-order reduction)? */
bool mpl_eagle3_is_mixed_order(const struct mpl_eagle3_sizes *s);
/** Rows of that kernel's workspace; each has hidden columns. */
struct mpl_dim mpl_eagle3_mixed_rows(const struct mpl_eagle3_sizes *s);

/* ---- parts of forward -------------------------------------------------------------------------
 */

/** A held tensor of a compiled graph; cols 0: one dimension. */
struct mpl_tensor *mpl_eagle3_make(struct mpl_tape *tape, enum mpl_dtype dtype, struct mpl_dim rows,
                                   int64_t cols);

/** hidden states and the like: [tokens, cols], or [1, tokens, cols] in eager code. */
struct mpl_shape mpl_eagle3_shape(const struct mpl_eagle3 *e, int64_t cols);

/** Format of logits and targets: products under autocast. */
static inline enum mpl_dtype mpl_eagle3_logits_dtype(const struct mpl_eagle3_sizes *s)
{
    return s->cast_dtype != MPL_DTYPE_NONE ? s->cast_dtype : s->root_dtype;
}

/** A name takes over a held tensor; what it named before ends. */
static inline void mpl_eagle3_assign(struct mpl_tape *tape, struct mpl_tensor **name,
                                     struct mpl_tensor *held)
{
    mpl_rebind(tape, name, mpl_return(held));
}

/** Ends what a node keeps in a slot, ahead of the rest. */
static inline void mpl_eagle3_end_saved(struct mpl_tape *tape, struct mpl_node *node, int slot)
{
    mpl_drop(tape, node->saved[slot].tensor);
    node->saved[slot].tensor = NULL;
}

/** A parameter of the layer as its module sees it. */
static inline struct mpl_tensor *mpl_eagle3_weight(const struct mpl_eagle3 *e,
                                                   enum mpl_eagle3_weight i)
{
    return mpl_network_weight(e->network, e->layer[i]);
}

/** Blocks of MPL_EAGLE3_BLOCK tokens that a block mask of the whole length has. */
static inline struct mpl_dim mpl_eagle3_blocks(const struct mpl_eagle3 *e)
{
    const struct mpl_dim n = e->sizes.tokens;

    return (struct mpl_dim){(n.n + MPL_EAGLE3_BLOCK - 1) / MPL_EAGLE3_BLOCK, n.degree};
}

/** The parts of the model that are compiled, or not. */
struct mpl_eagle3_code {
    /** create_block_mask for the causal part; its extension by the diagonals of later steps. */
    void (*mask_make)(struct mpl_tape *tape, struct mpl_eagle3 *e);
    void (*mask_extend)(struct mpl_tape *tape, struct mpl_eagle3 *e);
    /** New e->cos and e->sin. */
    void (*rotary)(struct mpl_tape *tape, struct mpl_eagle3 *e, const struct mpl_tensor *embeds);
    mpl_forward *layer;
    /** The last norm; floating. */
    struct mpl_tensor *(*norm)(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *x);
    /** Loss of one step from logits and targets; a floating scalar. Numbers that live on are added
     * to what forward returns. */
    struct mpl_tensor *(*loss)(struct mpl_tape *tape, struct mpl_eagle3 *e,
                               struct mpl_tensor *logits, struct mpl_tensor *targets);
};

extern const struct mpl_eagle3_code mpl_eagle3_compiled_code, mpl_eagle3_eager_code,
    mpl_eagle3_rows_code, mpl_eagle3_fused_code;

void mpl_eagle3_mask_make(struct mpl_tape *tape, struct mpl_eagle3 *e);
void mpl_eagle3_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e);
void mpl_eagle3_eager_mask_make(struct mpl_tape *tape, struct mpl_eagle3 *e);
void mpl_eagle3_eager_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e);
void mpl_eagle3_rows_mask_extend(struct mpl_tape *tape, struct mpl_eagle3 *e);
void mpl_eagle3_mask_drop(struct mpl_tape *tape, struct mpl_eagle3_mask *mask);

void mpl_eagle3_rotary(struct mpl_tape *tape, struct mpl_eagle3 *e,
                       const struct mpl_tensor *embeds);
struct mpl_tensor *mpl_eagle3_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *input);
struct mpl_tensor *mpl_eagle3_norm(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *x);
struct mpl_tensor *mpl_eagle3_loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *logits, struct mpl_tensor *targets);

struct mpl_tensor *mpl_eagle3_rows_loss(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                        struct mpl_tensor *logits, struct mpl_tensor *targets);

/** What a step of the summed losses leaves for the metrics; ids: of both sides [m], which end here.
 */
void mpl_eagle3_rows_metrics(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_dim m,
                             struct mpl_tensor *const ids[2]);

/** The node of a compiled loss; kept: float32 [tokens] four times, and the denominator, whose names
 * end here. */
void mpl_eagle3_loss_node(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *logits,
                          struct mpl_tensor *targets, struct mpl_tensor **kept,
                          struct mpl_tensor *loss);

/** The mask function for n queries and m keys: bool [n, m]; held. */
struct mpl_tensor *mpl_eagle3_dense_mask(struct mpl_tape *tape, struct mpl_dim n, struct mpl_dim m);

/** The cache [b, heads, tokens * step, d] with new keys or values behind; the first time it is
 * empty (NULL), and cat copies. */
void mpl_eagle3_append(struct mpl_tape *tape, struct mpl_tensor **cache, struct mpl_tensor *x);

/** flex_attention called by eager code. q [1, heads, n, d], k and v [1, kv heads, m, d]: floating
 * [1, heads, n, d]. Kept besides them are the result and the row sums [1, heads, n] in float32. */
struct mpl_tensor *mpl_eagle3_flex(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                                   struct mpl_tensor *q, struct mpl_tensor *k,
                                   struct mpl_tensor *v);

/** Sizes of the plan; tokens: of the whole batch. */
void mpl_eagle3_set_sizes(const struct mpl_plan *plan, struct mpl_eagle3_sizes *s);

/** The groups' parameters come whole and are cut; then rank 0 sends its own. */
void mpl_eagle3_load_shards(struct mpl_tape *tape, struct mpl_network *network);

/** loop->materialize */
void mpl_eagle3_load(struct mpl_tape *tape, struct mpl_network *network);

/** network->forward */
struct mpl_tensor *mpl_eagle3_forward(struct mpl_tape *tape, struct mpl_network *network,
                                      struct mpl_batch *batch, struct mpl_tensor **logits_out);

/** Adds a held tensor to what forward returns. */
void mpl_eagle3_return(struct mpl_eagle3 *e, struct mpl_tensor *tensor);

/** Keeps a tensor in the garbage of the step that compiles; nothing in later ones. */
void mpl_eagle3_leave(struct mpl_eagle3 *e, struct mpl_tensor *tensor);

#endif
