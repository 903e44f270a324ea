/* SPDX-License-Identifier: MIT */
/* The graph: nodes that operators leave behind, and the tensors they keep for backward. */
#include <string.h>

#include "tape/tape.h"

/* Nodes come in size classes of 64 bytes. */
#define CLASS_BYTES 64

static size_t node_bytes(int edges, int saves, int outputs)
{
    return sizeof(struct mpl_node) + (size_t)edges * sizeof(struct mpl_edge) +
           (size_t)saves * sizeof(struct mpl_saved) + (size_t)outputs * sizeof(struct mpl_tensor *);
}

static size_t node_class(int edges, int saves, int outputs)
{
    return (node_bytes(edges, saves, outputs) + CLASS_BYTES - 1) / CLASS_BYTES;
}

static struct mpl_node *node_alloc(struct mpl_tape *tape, int edges, int saves, int outputs)
{
    const size_t classes = sizeof(tape->free_nodes) / sizeof(tape->free_nodes[0]);
    size_t class = node_class(edges, saves, outputs);
    void **list = class < classes ? &tape->free_nodes[class] : NULL;
    struct mpl_node *node;
    char *end;

    if (list && *list) {
        node = *list;
        *list = *(void **)node;
    } else {
        node = mpl_arena_alloc(&tape->arena, class * CLASS_BYTES);
    }
    if (!node) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return NULL;
    }
    memset(node, 0, node_bytes(edges, saves, outputs));
    end = (char *)(node + 1);
    node->edges = (struct mpl_edge *)end;
    node->saved = (struct mpl_saved *)(void *)(node->edges + edges);
    node->grads = (struct mpl_tensor **)(void *)(node->saved + saves);
    node->edge_count = (uint8_t)edges;
    node->saved_cap = (uint8_t)saves;
    node->grad_count = (uint8_t)outputs;
    return node;
}

static void node_give(struct mpl_tape *tape, struct mpl_node *node)
{
    const size_t classes = sizeof(tape->free_nodes) / sizeof(tape->free_nodes[0]);
    size_t class = node_class(node->edge_count, node->saved_cap, node->grad_count);

    if (class >= classes)
        return; /* rare and large: its memory goes with the arena */
    *(void **)node = tape->free_nodes[class];
    tape->free_nodes[class] = node;
}

/* The node that adds to a leaf's gradient; one for each leaf, as long as a graph needs it. */
static struct mpl_node *accumulator_of(struct mpl_tape *tape, struct mpl_tensor *leaf)
{
    struct mpl_node *node = leaf->accumulator;

    if (node) {
        node->refs++;
        return node;
    }
    node = node_alloc(tape, 0, 0, 1);
    if (!node)
        return NULL;
    node->name = "AccumulateGrad";
    node->is_accumulator = true;
    node->sequence = UINT64_MAX;
    node->refs = 1;
    node->leaf = leaf;
    leaf->refs++; /* a leaf that only the graph knows lives as long as its accumulator */
    leaf->accumulator = node;
    return node;
}

static void set_edge(struct mpl_tape *tape, struct mpl_edge *edge, struct mpl_tensor *input)
{
    if (!input || !input->requires_grad)
        return;
    edge->dtype = input->dtype;
    edge->ndim = input->shape.ndim;
    memcpy(edge->dim, input->shape.dim, sizeof(edge->dim));
    if (input->grad_fn) {
        edge->node = input->grad_fn;
        edge->input_nr = input->output_nr;
        edge->node->refs++;
    } else {
        edge->node = accumulator_of(tape, input);
    }
}

struct mpl_node *mpl_node_new(struct mpl_tape *tape, const char *name, mpl_backward_rule *backward,
                              struct mpl_tensor *const *inputs, int input_count, int outputs,
                              int saves)
{
    struct mpl_node *node;
    bool wanted = false;

    for (int i = 0; i < input_count; i++)
        wanted |= inputs[i] && inputs[i]->requires_grad;
    if (!wanted || !tape->is_grad_enabled || tape->is_stopped)
        return NULL;
    node = node_alloc(tape, input_count, saves, outputs);
    if (!node)
        return NULL;
    node->name = name;
    node->backward = backward;
    node->sequence = tape->next_sequence++;
    node->refs = 1; /* the caller's, passed on to the first output */
    for (int i = 0; i < input_count; i++)
        set_edge(tape, &node->edges[i], inputs[i]);
    return node;
}

/* What is saved for backward is an activation from now on, unless it is something else. */
static void mark_activation(struct mpl_tape *tape, struct mpl_tensor *tensor)
{
    struct mpl_request *request;

    if (!tensor->storage->bytes)
        return;
    request = &tape->timeline->requests.data[tensor->storage->request];
    if (request->category == MPL_CATEGORY_TEMPORARY)
        request->category = MPL_CATEGORY_ACTIVATIONS;
}

static int save(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *tensor,
                bool is_output)
{
    struct mpl_saved *slot = &node->saved[node->saved_count];

    *slot = (struct mpl_saved){0};
    if (!tape->frame && tape->saves_on_host && !tape->is_in_backward) {
        slot->host = mpl_host_pack(tape, tensor);
    } else if (!tape->frame || !mpl_frame_pack(tape, slot, tensor)) {
        slot->tensor = is_output ? mpl_hold(mpl_alias(tape, tensor)) : tensor;
        if (!is_output)
            tensor->refs++;
    }
    if (!slot->host)
        mark_activation(tape, tensor);
    return node->saved_count++;
}

int mpl_save(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *tensor)
{
    if (!node || tape->is_stopped || tensor->is_void)
        return -1;
    return save(tape, node, tensor, false);
}

int mpl_save_output(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *tensor)
{
    if (!node || tape->is_stopped || tensor->is_void)
        return -1;
    return save(tape, node, tensor, true);
}

void mpl_set_history(struct mpl_tape *tape, struct mpl_tensor *tensor, struct mpl_node *node,
                     int nr)
{
    if (!node)
        return;
    if (tensor->is_void) {
        if (!nr)
            mpl_node_unref(tape, node);
        return;
    }
    if (nr)
        node->refs++;
    tensor->grad_fn = node;
    tensor->output_nr = (uint8_t)nr;
    tensor->requires_grad = true;
}

/* A hook at the end of the list of the node behind tensor. */
static void add_hook(struct mpl_tape *tape, struct mpl_tensor *tensor, struct mpl_pre_hook what)
{
    struct mpl_pre_hook *hook, **end;

    if (tape->is_stopped || !tensor->grad_fn)
        return;
    hook = mpl_arena_zalloc(&tape->arena, sizeof(*hook));
    if (!hook) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    *hook = what;
    for (end = &tensor->grad_fn->pre_hooks; *end;)
        end = &(*end)->next;
    *end = hook;
}

void mpl_add_pre_hook(struct mpl_tape *tape, struct mpl_tensor *tensor, mpl_callback *callback,
                      void *context)
{
    add_hook(tape, tensor, (struct mpl_pre_hook){.callback = callback, .context = context});
}

void mpl_add_grad_hook(struct mpl_tape *tape, struct mpl_tensor *tensor, mpl_replace_grad *replace)
{
    add_hook(tape, tensor,
             (struct mpl_pre_hook){.replace = replace, .output_nr = tensor->output_nr});
}

void mpl_node_release(struct mpl_tape *tape, struct mpl_node *node)
{
    for (int i = 0; i < node->saved_count; i++) {
        mpl_drop(tape, node->saved[i].tensor);
        if (node->saved[i].frame)
            mpl_frame_forget(tape, &node->saved[i]);
    }
    node->saved_count = 0;
}

/* Graphs are deep: the nodes to free wait in a list threaded through their context pointers. */
void mpl_node_unref(struct mpl_tape *tape, struct mpl_node *node)
{
    struct mpl_node *list = NULL;

    if (!node || --node->refs)
        return;
    node->context = NULL;
    for (list = node; list;) {
        struct mpl_node *dead = list;

        list = dead->context;
        mpl_node_release(tape, dead);
        for (int i = 0; i < dead->grad_count; i++)
            mpl_drop(tape, dead->grads[i]);
        for (int i = 0; dead->owned && i < MPL_MAX_KWARGS; i++)
            mpl_drop(tape, dead->owned[i]);
        for (int i = 0; i < dead->edge_count; i++) {
            struct mpl_node *next = dead->edges[i].node;

            if (next && !--next->refs) {
                next->context = list;
                list = next;
            }
        }
        if (dead->is_accumulator && dead->leaf) {
            dead->leaf->accumulator = NULL;
            mpl_drop(tape, dead->leaf);
        }
        node_give(tape, dead);
    }
}
