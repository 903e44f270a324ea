/* SPDX-License-Identifier: MIT */
/*
 * The engine: runs a graph backward in PyTorch's order.
 *
 * source: torch/csrc/autograd/engine.cpp (ready queue, evaluate_function, validate_outputs),
 * input_buffer.cpp (sums), functions/accumulate_grad.h (leaves).
 */
#include <string.h>

#include "tape/tape.h"

/* ---- ready queue: a heap with the newest node on top ---------------------------------------- */

static void push_ready(struct mpl_tape *tape, struct mpl_node *node)
{
    size_t i;

    if (mpl_vec_reserve(&tape->ready)) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    for (i = tape->ready.len++; i; i = (i - 1) / 2) {
        struct mpl_node *parent = tape->ready.data[(i - 1) / 2];

        if (parent->sequence >= node->sequence)
            break;
        tape->ready.data[i] = parent;
    }
    tape->ready.data[i] = node;
}

static struct mpl_node *pop_ready(struct mpl_tape *tape)
{
    struct mpl_node **heap = tape->ready.data, *top = heap[0], *last;
    size_t len = --tape->ready.len, i = 0;

    last = heap[len];
    while (2 * i + 1 < len) {
        size_t child = 2 * i + 1;

        if (child + 1 < len && heap[child + 1]->sequence > heap[child]->sequence)
            child++;
        if (last->sequence >= heap[child]->sequence)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Can the sum be written over this gradient? Only when nobody else sees it: one reference to the
 * tensor and to its storage; a view's base is a second one. (can_accumulate_inplace) */
static bool is_ours_alone(const struct mpl_tensor *grad)
{
    return grad->refs == 1 && grad->storage->refs == 1 && !grad->is_view;
}

struct mpl_tensor *mpl_accumulate(struct mpl_tape *tape, struct mpl_tensor *old,
                                  struct mpl_tensor *more)
{
    struct mpl_tensor *sum;

    if (old->is_void || more->is_void)
        return old;
    if (is_ours_alone(old)) {
        mpl_drop(tape, more);
        return old;
    }
    sum = mpl_hold(mpl_empty_like(tape, "add.Tensor", (enum mpl_dtype)old->dtype, old, more));
    mpl_drop(tape, old);
    mpl_drop(tape, more);
    return sum;
}

/* ---- leaves --------------------------------------------------------------------------------- */

/* Can .grad be this very tensor? Only when nobody else holds it and it lies in memory as the leaf
 * does (torch/csrc/autograd/utils/grad_layout_contract.h). */
static bool can_take(const struct mpl_tensor *grad, const struct mpl_tensor *leaf)
{
    if (grad->refs > 1)
        return false;
    for (int i = 0; i < leaf->shape.ndim; i++)
        if (leaf->shape.dim[i].n != 1 && grad->stride[i] != leaf->stride[i])
            return false;
    return true;
}

/* The first gradient is taken as it is or copied, later ones are added in place
 * (accumulate_grad.h). */
static void accumulate_leaf(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *grad)
{
    struct mpl_tensor *leaf = node->leaf;

    if (!leaf->grad) {
        leaf->grad = mpl_hold(can_take(grad, leaf)
                                  ? mpl_alias(tape, grad)
                                  : mpl_empty_like(tape, "new_empty_strided.default",
                                                   (enum mpl_dtype)grad->dtype, leaf, NULL));
        if (!leaf->grad->is_void && leaf->grad->storage->bytes) {
            uint32_t request = leaf->grad->storage->request;

            tape->timeline->requests.data[request].category = MPL_CATEGORY_GRADIENTS;
        }
        if (leaf->grad->is_void)
            leaf->grad = NULL;
    }
    mpl_drop(tape, grad);
    if (leaf->grad_hook)
        leaf->grad_hook(tape, leaf);
}

/* ---- one node ------------------------------------------------------------------------------- */

/* A gradient must have its input's shape and dtype: broadcast dimensions are summed, widened
 * elements are cast back. */
static struct mpl_tensor *fit_to_input(struct mpl_tape *tape, const struct mpl_edge *edge,
                                       struct mpl_tensor *grad)
{
    struct mpl_shape want = {.ndim = edge->ndim};

    memcpy(want.dim, edge->dim, sizeof(want.dim));
    if (!mpl_shape_equal(&grad->shape, &want)) {
        struct mpl_shape kept = grad->shape; /* sum_to keeps dimensions, then views */
        struct mpl_tensor *sum;

        for (int i = 0; i < kept.ndim && i < MPL_MAX_DIMS; i++) {
            int k = i - (kept.ndim - want.ndim);

            kept.dim[i] = k < 0 ? mpl_dim(1) : want.dim[k];
        }
        sum = mpl_sum_to(tape, grad, &kept);
        mpl_drop(tape, grad);
        grad = sum;
        if (!grad->is_void) {
            grad->is_view = kept.ndim != want.ndim;
            grad->shape = want;
            for (int i = want.ndim - 1; i >= 0; i--)
                grad->stride[i] = grad->stride[i + (kept.ndim - want.ndim)];
        }
    }
    if (grad->dtype != edge->dtype && !grad->is_void) {
        struct mpl_tensor *cast = mpl_hold(
            mpl_empty_like(tape, "_to_copy.default", (enum mpl_dtype)edge->dtype, grad, NULL));

        mpl_drop(tape, grad);
        grad = cast;
    }
    return grad;
}

static void deliver(struct mpl_tape *tape, struct mpl_edge *edge, struct mpl_tensor *grad)
{
    struct mpl_node *next = edge->node;

    if (grad) {
        struct mpl_tensor **buffer = &next->grads[edge->input_nr];

        *buffer = *buffer ? mpl_accumulate(tape, *buffer, grad) : grad;
    }
    if (!--next->waiting)
        push_ready(tape, next);
}

/* A node's function unpacks all it kept before anything else. */
static void unpack_all(struct mpl_tape *tape, struct mpl_node *node)
{
    for (int i = 0; i < node->saved_count; i++)
        if (node->saved[i].frame || node->saved[i].host)
            mpl_unpack(tape, &node->saved[i]);
}

/* What hooks brought back was a local of the node's function: gone before the engine looks at the
 * gradients. What the node kept itself stays until it is released. */
static void drop_unpacked(struct mpl_tape *tape, struct mpl_node *node)
{
    for (int i = 0; i < node->saved_count; i++)
        if (node->saved[i].frame || node->saved[i].host) {
            mpl_drop(tape, node->saved[i].tensor);
            node->saved[i].tensor = NULL;
        }
}

#define MAX_EDGES   255
#define CACHE_LINE  64
#define AHEAD_LINES 4 /* a node and its first edge */

/* The nodes that may run next were made a forward ago, and have left the cache since. */
static void fetch_ahead(const struct mpl_node *node)
{
    for (int i = 0; i < node->edge_count; i++)
        for (int line = 0; node->edges[i].node && line < AHEAD_LINES; line++)
            __builtin_prefetch((const char *)node->edges[i].node + line * CACHE_LINE);
}

static void run_node(struct mpl_tape *tape, struct mpl_node *node)
{
    struct mpl_tensor *grads_in[MAX_EDGES], *grads_out[MAX_EDGES];
    bool any = false;

    fetch_ahead(node);
    for (int i = 0; i < node->edge_count; i++)
        grads_in[i] = NULL;
    for (int i = 0; i < node->grad_count; i++) {
        grads_out[i] = node->grads[i];
        node->grads[i] = NULL;
        any |= grads_out[i] != NULL;
    }
    if (node->is_accumulator) {
        if (grads_out[0])
            accumulate_leaf(tape, node, grads_out[0]);
        return;
    }
    for (struct mpl_pre_hook *hook = node->pre_hooks; hook; hook = hook->next) {
        struct mpl_tensor **grad = &grads_out[hook->output_nr];

        if (hook->callback)
            hook->callback(tape, hook->context);
        else if (*grad)
            *grad = hook->replace(tape, *grad);
    }
    if (any) {
        unpack_all(tape, node);
        node->backward(tape, node, grads_out, grads_in);
    }
    drop_unpacked(tape, node);
    for (int i = 0; i < node->edge_count; i++)
        if (grads_in[i] && !grads_in[i]->is_void)
            grads_in[i] = fit_to_input(tape, &node->edges[i], grads_in[i]);
    for (int i = 0; i < node->grad_count; i++)
        mpl_drop(tape, grads_out[i]);
    mpl_node_release(tape, node);
    for (int i = 0; i < node->edge_count; i++)
        if (node->edges[i].node)
            deliver(tape, &node->edges[i], grads_in[i]);
}

/* ---- the whole graph ------------------------------------------------------------------------ */

/* Counts, for every node behind root, how many gradients it has to wait for. */
static void count_waiting(struct mpl_tape *tape, struct mpl_node *root)
{
    uint32_t epoch = ++tape->epoch;

    root->waiting = 0;
    root->epoch = epoch;
    tape->stack.len = 0;
    for (struct mpl_node *node = root; node;) {
        for (int i = 0; i < node->edge_count; i++) {
            struct mpl_node *next = node->edges[i].node;

            if (!next)
                continue;
            if (next->epoch != epoch) {
                next->epoch = epoch;
                next->waiting = 0;
                if (mpl_vec_reserve(&tape->stack)) {
                    mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
                    return;
                }
                tape->stack.data[tape->stack.len++] = next;
            }
            next->waiting++;
        }
        node = tape->stack.len ? tape->stack.data[--tape->stack.len] : NULL;
    }
}

void mpl_queue_callback(struct mpl_tape *tape, mpl_callback *callback, void *context)
{
    tape->callbacks[tape->callback_count] = callback;
    tape->callback_contexts[tape->callback_count++] = context;
}

/* Runs everything behind root, whose gradient waits in its buffer. */
static void run_graph(struct mpl_tape *tape, struct mpl_node *root)
{
    count_waiting(tape, root);
    tape->ready.len = 0;
    push_ready(tape, root);
    while (tape->ready.len && !tape->is_stopped)
        run_node(tape, pop_ready(tape));
}

/* A graph inside a node runs before anything else goes on: the queue puts deeper tasks first. */
void mpl_backward_inner(struct mpl_tape *tape, struct mpl_tensor *output, struct mpl_tensor *grad)
{
    struct mpl_node *root = output->grad_fn;
    struct mpl_tape outer = {.ready = tape->ready};

    if (tape->is_stopped || !root)
        return;
    tape->ready.data = NULL;
    tape->ready.len = tape->ready.cap = 0;
    root->grads[output->output_nr] = mpl_hold(grad);
    run_graph(tape, root);
    mpl_vec_free(&tape->ready);
    tape->ready = outer.ready;
}

void mpl_backward(struct mpl_tape *tape, struct mpl_tensor *loss)
{
    struct mpl_node *root = loss->grad_fn;
    bool was_grad_enabled = tape->is_grad_enabled;
    struct mpl_tensor *seed; /* Python's list of gradients keeps it to the end */

    if (tape->is_stopped || !root)
        return;
    tape->is_in_backward = true;
    tape->is_grad_enabled = false;
    seed = mpl_hold(
        mpl_empty_like(tape, "ones_like.default", (enum mpl_dtype)loss->dtype, loss, NULL));
    root->grads[loss->output_nr] = mpl_hold(seed);
    run_graph(tape, root);
    for (int i = 0; i < tape->callback_count && !tape->is_stopped; i++)
        tape->callbacks[i](tape, tape->callback_contexts[i]);
    tape->callback_count = 0;
    mpl_drop(tape, seed);
    tape->is_grad_enabled = was_grad_enabled;
    tape->is_in_backward = false;
}
