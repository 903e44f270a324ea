/* SPDX-License-Identifier: MIT */
/*
 * The drafter's decoder layer as compiled regions: one node on the tape for each, whose buffers
 * are booked as Inductor's code does.
 *
 * source: speculators/models/eagle3/model_definitions.py; torch/_functorch/_aot_autograd
 * (CompiledFunction: zeros for gradients that are missing, contiguous copies of those that are not)
 */
#include <string.h>

#include "arch/eagle3_cast.h"
#include "op/rule.h"

/* What the layer's node keeps, in order; then the mask's tensors. */
static const uint8_t saves_first[] = {
    MPL_EAGLE3_PRODUCT,          MPL_EAGLE3_GATED,         MPL_EAGLE3_UPPED,
    MPL_EAGLE3_NORMED_POST,      MPL_EAGLE3_RESIDUAL,      MPL_EAGLE3_RSTD_POST,
    MPL_EAGLE3_ATTENTION_T,      MPL_EAGLE3_ATTENTION,     MPL_EAGLE3_LSE,
    MPL_EAGLE3_NORMED,           MPL_EAGLE3_ROTATED_QUERY, MPL_EAGLE3_ROTATED_KEY,
    MPL_EAGLE3_CONTIGUOUS_VALUE, MPL_EAGLE3_RSTD_INPUT,    MPL_EAGLE3_RSTD_HIDDEN,
};

#define SAVES      (sizeof(saves_first) / sizeof(saves_first[0]))
#define MOST_SAVES MPL_EAGLE3_CAST_SAVES

/* ---- compiled graphs --------------------------------------------------------------------------
 */

typedef void table_writer(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                          int64_t ttt_step);

static const struct mpl_eagle3_compiled *compile(struct mpl_eagle3_compiled *compiled,
                                                 const struct mpl_eagle3 *e, table_writer *write,
                                                 int64_t ttt_step)
{
    if (!compiled->is_ready) {
        write(&compiled->graph, &e->sizes, ttt_step);
        mpl_inductor_plan(&compiled->graph, &compiled->plan);
        compiled->is_ready = true;
    }
    return compiled;
}

/* Steps from the third on share one graph, planned with the sizes of the third. */
static int64_t graph_step(int64_t ttt_step)
{
    return ttt_step < 3 ? ttt_step : 3;
}

static void write_norms(struct mpl_inductor_graph *graph, const struct mpl_eagle3_sizes *s,
                        int64_t ttt_step)
{
    (void)ttt_step;
    mpl_eagle3_table_norms_backward(graph, s);
}

static void drop_all(struct mpl_tape *tape, struct mpl_tensor **values, int count)
{
    for (int i = 0; i < count; i++)
        mpl_drop(tape, values[i]);
}

/* The gradient in the shape of its input: a vector, or a view of the first rows of a longer
 * cache. */
static void fit(struct mpl_tensor *gradient, const struct mpl_edge *edge)
{
    const int64_t numel = mpl_numel(gradient);
    int64_t step = 1;

    if (gradient->is_void)
        return;
    gradient->shape.ndim = edge->ndim;
    for (int i = edge->ndim - 1; i >= 0; i--) {
        gradient->shape.dim[i] = edge->dim[i];
        gradient->stride[i] = step;
        step *= edge->dim[i].n;
    }
    gradient->is_view = step != numel;
}

/* ---- the graph before the break ---------------------------------------------------------------
 */

/* Gradients: both norm weights, then the layer's input. */
static void norms_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    struct mpl_eagle3 *e = node->context;
    const struct mpl_eagle3_compiled *c = compile(&e->norms_backward, e, write_norms, 1);
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL};
    static const uint8_t gradients[] = {4, 1, 8};
    static const uint8_t slots[] = {MPL_EAGLE3_IN_INPUT, MPL_EAGLE3_IN_RSTD_INPUT,
                                    MPL_EAGLE3_IN_RSTD_HIDDEN};

    for (int i = 0; i < 3; i++) {
        values[slots[i]] = node->saved[i].tensor;
        node->saved[i].tensor = NULL;
    }
    values[MPL_EAGLE3_IN_TANGENT] = out[0];
    values[MPL_EAGLE3_IN_TANGENT_V] = out[1];
    out[0] = out[1] = NULL;
    mpl_inductor_run(tape, &c->graph, &c->plan, values, 1, 1);
    for (int i = 0; i < 3; i++) {
        in[i] = mpl_inductor_take(&c->plan, values, gradients[i]);
        if (in[i])
            fit(in[i], &node->edges[i]);
    }
    drop_all(tape, values, MPL_EAGLE3_BACKWARD_VALUES);
}

struct broken {
    struct mpl_tensor *normed, *residual; /* held */
};

static struct broken norms_forward(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *x)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    struct mpl_tensor *inputs[] = {mpl_eagle3_weight(e, MPL_EAGLE3_INPUT_NORM),
                                   mpl_eagle3_weight(e, MPL_EAGLE3_HIDDEN_NORM), x};
    struct mpl_node *node =
        mpl_node_new(tape, "CompiledFunctionBackward", norms_backward, inputs, 3, 2, 3);
    struct mpl_tensor *rstd[2];
    struct broken b;

    rstd[0] = mpl_eagle3_make(tape, MPL_FLOAT32, s->tokens, 1);
    rstd[1] = mpl_eagle3_make(tape, MPL_FLOAT32, s->tokens, 1);
    b.residual = mpl_eagle3_make(tape, s->layer_dtype, s->tokens, s->hidden);
    b.normed = mpl_eagle3_make(tape, s->layer_dtype, s->tokens, 2 * s->hidden);
    mpl_save(tape, node, x);
    for (int i = 0; i < 2; i++) {
        mpl_save_output(tape, node, rstd[i]);
        mpl_drop(tape, rstd[i]);
    }
    if (node)
        node->context = e;
    mpl_set_history(tape, b.normed, node, 0);
    mpl_set_history(tape, b.residual, node, 1);
    return b;
}

/* ---- backward of the layer --------------------------------------------------------------------
 */

/* The gradient of a cache [1, kv heads, tokens * step, head_dim]: zeros, or a contiguous copy. */
struct mpl_tensor *mpl_eagle3_cache_gradient(struct mpl_tape *tape, const struct mpl_eagle3 *e,
                                             int64_t ttt_step)
{
    const struct mpl_eagle3_sizes *s = &e->sizes;
    const struct mpl_dim rows = {s->tokens.n * ttt_step, s->tokens.degree};
    const struct mpl_shape shape =
        mpl_shape4(mpl_dim(1), mpl_dim(s->kv / s->head_dim), rows, mpl_dim(s->head_dim));

    return mpl_hold(mpl_empty(tape, "empty_strided_cuda", s->layer_dtype, &shape));
}

/* Takes over what the node keeps and what arrived, so that it ends inside the graph. */
static void load(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                 struct mpl_tensor **values)
{
    const struct mpl_eagle3 *e = node->context;
    const int64_t ttt_step = node->arg[0];

    values[MPL_EAGLE3_IN_TANGENT_V] = mpl_eagle3_cache_gradient(tape, e, ttt_step);
    values[MPL_EAGLE3_IN_TANGENT_K] = mpl_eagle3_cache_gradient(tape, e, ttt_step);
    mpl_drop(tape, out[2]);
    mpl_drop(tape, out[1]);
    values[MPL_EAGLE3_IN_TANGENT] = out[0];
    out[0] = out[1] = out[2] = NULL;
    for (int i = 0; i < node->saved_count; i++) {
        values[node->arg[1] == 0 && i >= MPL_EAGLE3_IN_RSTD_INPUT - MPL_EAGLE3_IN_PRODUCT
                   ? MPL_EAGLE3_IN_PRODUCT + i + 3
                   : MPL_EAGLE3_IN_PRODUCT + i] = node->saved[i].tensor;
        node->saved[i].tensor = NULL;
    }
}

/* Number of the gradient of an edge; NONE: it has none. */
static uint8_t gradient_number(const struct mpl_eagle3 *e, int edge)
{
    static const uint8_t whole[MPL_EAGLE3_EDGES] = {
        [MPL_EAGLE3_EDGE_INPUT_NORM] = 37, [MPL_EAGLE3_EDGE_HIDDEN_NORM] = 33,
        [MPL_EAGLE3_EDGE_Q] = 30,          [MPL_EAGLE3_EDGE_K] = 27,
        [MPL_EAGLE3_EDGE_V] = 24,          [MPL_EAGLE3_EDGE_O] = 12,
        [MPL_EAGLE3_EDGE_POST_NORM] = 9,   [MPL_EAGLE3_EDGE_UP] = 6,
        [MPL_EAGLE3_EDGE_GATE] = 3,        [MPL_EAGLE3_EDGE_DOWN] = 0,
        [MPL_EAGLE3_EDGE_INPUT] = 41,      [MPL_EAGLE3_EDGE_RESIDUAL] = MPL_INDUCTOR_NONE,
        [MPL_EAGLE3_EDGE_KEYS] = 22,       [MPL_EAGLE3_EDGE_VALUES] = 21,
    };

    if (e->sizes.is_broken && edge <= MPL_EAGLE3_EDGE_HIDDEN_NORM)
        return MPL_INDUCTOR_NONE;
    if (e->sizes.is_broken && edge == MPL_EAGLE3_EDGE_INPUT)
        return 32;
    if (e->sizes.is_broken && edge == MPL_EAGLE3_EDGE_RESIDUAL)
        return 11;
    return whole[edge];
}

static void layer_backward(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor **out,
                           struct mpl_tensor **in)
{
    struct mpl_eagle3 *e = node->context;
    const int64_t ttt_step = node->arg[0], planned = graph_step(ttt_step);
    const bool casts = e->sizes.cast_dtype != MPL_DTYPE_NONE;
    const struct mpl_eagle3_compiled *c =
        compile(&e->backward[planned - 1], e,
                casts ? mpl_eagle3_cast_table : mpl_eagle3_table_backward, planned);
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL};

    if (casts)
        mpl_eagle3_cast_load(tape, node, out, values);
    else
        load(tape, node, out, values);
    mpl_inductor_run(tape, &c->graph, &c->plan, values, ttt_step, planned);
    for (int i = 0; i < MPL_EAGLE3_EDGES && !tape->is_stopped; i++) {
        const uint8_t number =
            casts ? mpl_eagle3_cast_gradient(ttt_step, i) : gradient_number(e, i);

        if (number == MPL_INDUCTOR_NONE || !mpl_needs(node, i))
            continue;
        in[i] = mpl_inductor_take(&c->plan, values, number);
        if (in[i])
            fit(in[i], &node->edges[i]);
    }
    drop_all(tape, values, casts ? MPL_EAGLE3_CAST_VALUES : MPL_EAGLE3_BACKWARD_VALUES);
}

/* ---- forward of the layer ---------------------------------------------------------------------
 */

static struct mpl_tensor *at_home(const struct mpl_inductor_plan *plan,
                                  struct mpl_tensor *const *values, uint8_t number)
{
    return plan->home[number] == MPL_INDUCTOR_NONE ? NULL : values[plan->home[number]];
}

/* Number of what is saved in slot i. Later steps keep the caches for keys and values. */
static uint8_t saved_number(int64_t ttt_step, size_t i)
{
    if (ttt_step > 1 && saves_first[i] == MPL_EAGLE3_ROTATED_KEY)
        return MPL_EAGLE3_CACHE_K;
    if (ttt_step > 1 && saves_first[i] == MPL_EAGLE3_CONTIGUOUS_VALUE)
        return MPL_EAGLE3_CACHE_V;
    return saves_first[i];
}

/* Slots stand in the order of the backward table's inputs. */
static void save(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_node *node,
                 const struct mpl_inductor_plan *plan, struct mpl_tensor *const *values,
                 struct mpl_tensor *x, struct mpl_tensor *normed)
{
    for (size_t i = 0; i < SAVES; i++) {
        const uint8_t number = saved_number(e->ttt_step, i);
        struct mpl_tensor *tensor =
            number == MPL_EAGLE3_NORMED && normed ? normed : at_home(plan, values, number);

        if (tensor)
            mpl_save(tape, node, tensor);
    }
    if (!normed)
        mpl_save(tape, node, x);
    mpl_save(tape, node, e->cos);
    mpl_save(tape, node, e->sin);
    for (int i = 0; i < e->mask.count; i++)
        mpl_save(tape, node, e->mask.tensors[i]);
}

static struct mpl_node *layer_node(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                   struct mpl_tensor *x, struct mpl_tensor *residual)
{
    struct mpl_tensor *inputs[MPL_EAGLE3_EDGES] = {
        residual ? NULL : mpl_eagle3_weight(e, MPL_EAGLE3_INPUT_NORM),
        residual ? NULL : mpl_eagle3_weight(e, MPL_EAGLE3_HIDDEN_NORM),
        mpl_eagle3_weight(e, MPL_EAGLE3_Q),
        mpl_eagle3_weight(e, MPL_EAGLE3_K),
        mpl_eagle3_weight(e, MPL_EAGLE3_V),
        mpl_eagle3_weight(e, MPL_EAGLE3_O),
        mpl_eagle3_weight(e, MPL_EAGLE3_POST_NORM),
        mpl_eagle3_weight(e, MPL_EAGLE3_UP),
        mpl_eagle3_weight(e, MPL_EAGLE3_GATE),
        mpl_eagle3_weight(e, MPL_EAGLE3_DOWN),
        x,
        residual,
        e->cached_keys,
        e->cached_values,
    };
    struct mpl_node *node = mpl_node_new(tape, "CompiledFunctionBackward", layer_backward, inputs,
                                         MPL_EAGLE3_EDGES, 3, MOST_SAVES);

    if (node) {
        node->context = e;
        node->arg[0] = e->ttt_step;
        node->arg[1] = !residual; /* norms are part of this graph */
    }
    return node;
}

/* The cache takes new keys and values; those of the step before live on in its layer, if it kept
 * them. */
static void update_cache(struct mpl_tape *tape, struct mpl_eagle3 *e, struct mpl_tensor *keys,
                         struct mpl_tensor *values)
{
    if (e->ttt_step == 2) {
        mpl_drop(tape, e->cached_keys);
        mpl_drop(tape, e->cached_values);
    } else {
        mpl_drop(tape, e->cached_values);
        mpl_drop(tape, e->cached_keys);
    }
    e->cached_keys = keys;
    e->cached_values = values;
}

/* What compiling leaves in reference cycles: arguments of the third step's graph, results of the
 * second's and the last one's; with collection off of the first one's too. */
static void leave_garbage(struct mpl_eagle3 *e, struct mpl_tensor *x)
{
    const int64_t t = e->ttt_step, last = e->sizes.steps;
    const bool is_off = e->network->plan->training.python_gc == MPL_GC_OFF;

    if (t == 3) {
        mpl_eagle3_leave(e, x);
        mpl_eagle3_leave(e, e->cos);
        mpl_eagle3_leave(e, e->sin);
        for (int i = 0; i < e->mask.count; i++)
            mpl_eagle3_leave(e, e->mask.tensors[i]);
        mpl_eagle3_leave(e, e->positions);
        mpl_eagle3_leave(e, e->arange);
    }
    if (t == 1 && last > 2)
        for (int i = 0; i < 2; i++)
            mpl_eagle3_leave(e, e->mask.tensors[i]);
    if (((t == 2 || t == last) && last > 1 && t > 1) || (t == 1 && is_off)) {
        mpl_eagle3_leave(e, e->cached_keys);
        mpl_eagle3_leave(e, e->cached_values);
    }
}

/* Compiled code casts the weights. */
static struct mpl_tensor *cast_layer(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                     struct mpl_tensor *x)
{
    const struct broken broken = norms_forward(tape, e, x);
    struct mpl_node *node = layer_node(tape, e, broken.normed, broken.residual);
    struct mpl_tensor *results[3];

    mpl_eagle3_cast_forward(tape, e, node, broken.residual, results);
    for (int i = 0; i < 3; i++)
        mpl_set_history(tape, results[i], node, i);
    update_cache(tape, e, results[1], results[2]);
    leave_garbage(e, broken.normed);
    mpl_drop(tape, broken.normed);
    mpl_drop(tape, broken.residual);
    return mpl_return(results[0]);
}

static struct mpl_tensor *narrow_layer(struct mpl_tape *tape, struct mpl_eagle3 *e,
                                       struct mpl_tensor *x)
{
    const int64_t planned = graph_step(e->ttt_step);
    const uint8_t kept_value = e->ttt_step == 1 ? MPL_EAGLE3_VALUE : MPL_EAGLE3_CACHE_V;
    const struct mpl_eagle3_compiled *c =
        compile(&e->forward[planned - 1], e, mpl_eagle3_table_forward, planned);
    struct mpl_tensor *values[MPL_INDUCTOR_MAX_VALUES] = {NULL}, *out, *keys, *cached;
    struct broken broken = {NULL, NULL};
    struct mpl_node *node;

    if (e->sizes.is_broken)
        broken = norms_forward(tape, e, x);
    node = layer_node(tape, e, broken.normed ? broken.normed : x, broken.residual);
    mpl_inductor_run(tape, &c->graph, &c->plan, values, e->ttt_step, planned);
    save(tape, e, node, &c->plan, values, x, broken.normed);
    out = mpl_inductor_take(&c->plan, values, MPL_EAGLE3_OUTPUT);
    keys = mpl_inductor_take(&c->plan, values, MPL_EAGLE3_CACHE_K);
    cached = mpl_inductor_take(&c->plan, values, kept_value);
    drop_all(tape, values, MPL_EAGLE3_FORWARD_VALUES);
    if (!out || !keys || !cached) { /* the tape stopped on the way */
        mpl_drop(tape, out);
        mpl_drop(tape, keys);
        mpl_drop(tape, cached);
        return tape->void_tensor;
    }
    mpl_set_history(tape, out, node, 0);
    mpl_set_history(tape, keys, node, 1);
    mpl_set_history(tape, cached, node, 2);
    update_cache(tape, e, keys, cached);
    mpl_drop(tape, broken.normed);
    mpl_drop(tape, broken.residual);
    leave_garbage(e, x);
    return mpl_return(out);
}

struct mpl_tensor *mpl_eagle3_layer(struct mpl_tape *tape, void *context, struct mpl_tensor *x)
{
    struct mpl_eagle3 *e = context;

    return e->sizes.cast_dtype != MPL_DTYPE_NONE ? cast_layer(tape, e, x)
                                                 : narrow_layer(tape, e, x);
}

const struct mpl_eagle3_code mpl_eagle3_compiled_code = {
    mpl_eagle3_mask_make, mpl_eagle3_mask_extend, mpl_eagle3_rotary,
    mpl_eagle3_layer,     mpl_eagle3_norm,        mpl_eagle3_loss,
};
