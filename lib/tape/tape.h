/* SPDX-License-Identifier: MIT */
/*
 * The tape: a small autograd engine that keeps books instead of numbers.
 *
 * A training step is executed on tensors that have a shape, strides, a dtype and a storage of the
 * right size, and no data. Every storage that is born or dies is an event on the timeline. Engine
 * rules are PyTorch's own (torch/csrc/autograd: engine.cpp, input_buffer.cpp, accumulate_grad.h,
 * saved_variable.cpp).
 *
 * Python lifetimes. An operator returns a *floating* tensor: a temporary that nobody has named yet.
 * The operator that takes it as an argument lets it go after it ran, as Python's evaluation stack
 * does. mpl_hold() names a tensor (a Python local); mpl_drop() ends the name; mpl_return() makes a
 * local a temporary again, for a function's result.
 *
 * Failure. Running out of memory or past a limit sets tape->err once; from then on every operator
 * returns the tape's void tensor and nothing is booked, so model code needs no checks. The same
 * mechanism ends the recomputation of a checkpointed module at the last tensor that is needed.
 */
#ifndef MPL_TAPE_TAPE_H
#define MPL_TAPE_TAPE_H

#include <memplan.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/vec.h"
#include "spec/plan.h"
#include "timeline/timeline.h"

struct mpl_tape;
struct mpl_node;

#define MPL_MAX_KWARGS  5 /* locals that a checkpointed call keeps alive */
#define MPL_PAIR_KWARGS 2 /* the first of them are one argument: the pair of cosine and sine */

#define MPL_TAPE_MAX_REQUESTS ((size_t)1 << 22)
#define MPL_TAPE_LIMIT_TEXT   "the run makes more than 4194304 tensors"

/** One dimension: elements, and the power of the sequence length in them. */
struct mpl_dim {
    int64_t n;
    uint8_t degree;
};

static inline struct mpl_dim mpl_dim(int64_t n)
{
    return (struct mpl_dim){n, 0};
}

static inline struct mpl_dim mpl_dim_mul(struct mpl_dim a, struct mpl_dim b)
{
    return (struct mpl_dim){a.n * b.n, (uint8_t)(a.degree + b.degree)};
}

struct mpl_shape {
    uint8_t ndim;
    struct mpl_dim dim[MPL_MAX_DIMS];
};

/** Bytes on the device, counted by the tensors that look at them. bytes == 0: none is allocated. */
struct mpl_storage {
    uint32_t refs;
    uint32_t request; /* number in the timeline, valid while bytes > 0 */
    uint64_t bytes;
};

struct mpl_tensor {
    uint32_t refs;
    uint8_t dtype; /* enum mpl_dtype */
    uint8_t output_nr;
    bool is_floating, requires_grad, is_void;
    bool is_view; /* made by an autograd view operator: its storage has a second owner */
    bool is_contiguous;
    struct mpl_storage *storage;
    struct mpl_node *grad_fn; /* NULL for leaves */
    /* leaves only */
    struct mpl_node *accumulator; /* weak: the graph's nodes own it */
    struct mpl_tensor *grad;
    void (*grad_hook)(struct mpl_tape *tape, struct mpl_tensor *leaf); /* after accumulation */
    void *grad_hook_context;                                           /* not owned */
    /* what is above is zero in a new tensor */
    struct mpl_shape shape;
    int64_t stride[MPL_MAX_DIMS];
};

/** Rule of an operator's backward: reads node->saved, takes the gradients of the outputs
 * (borrowed; NULL where there is none) and writes new (held) gradients of the inputs; an entry
 * whose edge needs none is left NULL. */
typedef void mpl_backward_rule(struct mpl_tape *tape, struct mpl_node *node,
                               struct mpl_tensor **grads_out, struct mpl_tensor **grads_in);

struct mpl_edge {
    struct mpl_node *node; /* NULL: that input needs no gradient */
    uint8_t input_nr;
    uint8_t dtype, ndim; /* of the input: the engine reduces and casts its gradient to these */
    struct mpl_dim dim[MPL_MAX_DIMS];
};

struct mpl_frame; /* a checkpointed call of a module */

/** How checkpointed calls run: the arguments of torch.utils.checkpoint.checkpoint. */
struct mpl_checkpoint_options {
    bool is_reentrant; /* use_reentrant=True: forward without a graph, backward inside backward */
    bool is_selective; /* results of products and attention are kept (torchtitan's SelectiveAC) */
    bool has_no_early_stop; /* recomputation goes on to the call's end */
    bool passes_kwargs; /* is_reentrant: all are arguments, and what is no pair of tensors is saved
                         */
};

/** What is left on the device of a tensor that went to the host: enough to make it again. */
struct mpl_host_copy {
    struct mpl_shape shape;
    uint8_t dtype;
    bool requires_grad;
};

typedef void mpl_callback(struct mpl_tape *tape, void *context);

/** A hook that gives another gradient: takes and returns a held one. */
typedef struct mpl_tensor *mpl_replace_grad(struct mpl_tape *tape, struct mpl_tensor *grad);

/** What runs before a node does (Tensor.register_hook on one of its outputs). */
struct mpl_pre_hook {
    struct mpl_pre_hook *next; /* registered later */
    mpl_callback *callback;
    void *context;
    mpl_replace_grad *replace; /* in place of callback: takes and returns the held gradient... */
    uint8_t output_nr;         /* ...of this output */
};

/** A tensor kept for backward, or a note that recomputation or the host will bring it. */
struct mpl_saved {
    struct mpl_tensor *tensor;
    struct mpl_frame *frame;
    const struct mpl_host_copy *host;
    uint32_t index; /* in the frame */
};

struct mpl_node {
    mpl_backward_rule *backward;
    const char *name;
    uint64_t sequence; /* of creation: newer ones run first */
    uint32_t refs, waiting, epoch;
    uint8_t edge_count, saved_count, saved_cap, grad_count;
    bool is_accumulator;
    struct mpl_tensor *leaf;   /* of an accumulator, which keeps it */
    int64_t arg[6];            /* what the rule wants to know */
    void *context;             /* for hooks; not owned */
    struct mpl_tensor **owned; /* what the node holds until it dies: MPL_MAX_KWARGS, or NULL */
    struct mpl_pre_hook *pre_hooks;
    struct mpl_edge *edges;
    struct mpl_saved *saved;
    struct mpl_tensor **grads; /* input buffer */
};

/** What a wrapper does around every call of a module, however small. A module without weights has
 * no number; mpl_module_of_weight() and its kin make the others. */
#define MPL_NO_MODULE UINT64_MAX
struct mpl_scopes {
    /** Takes the input as an operator does; the input that forward sees. NULL is fine. */
    struct mpl_tensor *(*enter)(struct mpl_tape *tape, void *wrapper, uint64_t module,
                                struct mpl_tensor *input);
    /** The same for the result. */
    struct mpl_tensor *(*leave)(struct mpl_tape *tape, void *wrapper, uint64_t module,
                                struct mpl_tensor *output);
    /** A module looks at a weight of another one. */
    void (*read)(struct mpl_tape *tape, void *wrapper, uint64_t reader, uint32_t weight);
};

/** A run of one rank. */
struct mpl_tape {
    struct mpl_timeline *timeline;
    struct memplan_error err; /* first failure */
    bool is_stopped;          /* operators do nothing: failed, or a recomputation is over */

    enum mpl_phase phase;
    enum mpl_stream stream;
    enum mpl_category category; /* of new storages */
    bool is_grad_enabled;
    enum mpl_dtype autocast; /* MPL_DTYPE_NONE: off */
    uint64_t live_bytes;     /* each storage rounded up to 512 */
    uint64_t live_peak;      /* the highest they were */

    /* what the operators' rules depend on */
    struct mpl_version pytorch;
    double compute_capability;
    int64_t multiprocessors;
    bool has_kernel_scratch; /* book the memory that CUDA kernels take inside one operator */
    bool cudnn_attention;
    bool has_infos;           /* keep operator, shape and dtype of every request */
    uint64_t workspace_bytes; /* cuBLAS, one for each thread that multiplies */
    bool has_workspace[2];    /* main thread, autograd thread */
    bool is_in_backward;

    /* engine */
    uint64_t next_sequence;
    uint32_t epoch;
    MPL_VEC(struct mpl_node *) ready; /* binary heap, newest first */
    MPL_VEC(struct mpl_node *) stack; /* for traversals */
    mpl_callback *callbacks[4];       /* see mpl_queue_callback */
    void *callback_contexts[4];
    int callback_count;
    MPL_VEC(struct mpl_saved) autocast_cache; /* tensor: the cast copy; frame unused */
    MPL_VEC(struct mpl_tensor *) autocast_keys;
    struct mpl_frame *frame; /* checkpointed call that runs now, first time or again */
    struct mpl_checkpoint_options checkpoint;
    bool is_booking_scratch;         /* what a kernel takes for itself is no result */
    bool saves_on_host;              /* what is kept for backward goes to the host (save_on_cpu) */
    const struct mpl_scopes *scopes; /* NULL: none */
    void *scopes_wrapper;
    struct mpl_tensor void_storage, *void_tensor;

    /* memory of the tape itself */
    struct mpl_arena arena;
    void *free_tensors, *free_storages, *free_nodes[64];
};

/* ---- life ---------------------------------------------------------------------------------- */

/** A tape that writes to timeline; NULL when out of memory. */
struct mpl_tape *mpl_tape_new(struct mpl_timeline *timeline);
void mpl_tape_free(struct mpl_tape *tape);

/** Sets tape->err (first one wins) and stops the tape. */
void mpl_tape_fail(struct mpl_tape *tape, enum memplan_status status, const char *text);

/** Books the begin of a phase. */
void mpl_tape_mark(struct mpl_tape *tape, uint32_t step, uint32_t micro, enum mpl_phase phase);

/** Books torch.cuda.empty_cache() while the model is set up: what is unused goes back to the card.
 */
void mpl_tape_empty_cache(struct mpl_tape *tape);

/* ---- tensors ------------------------------------------------------------------------------- */

/** A new floating tensor on a new storage, contiguous. op names the PyTorch operator. */
struct mpl_tensor *mpl_empty(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                             const struct mpl_shape *shape);

/** As mpl_empty with given strides, which must be dense. */
struct mpl_tensor *mpl_empty_strided(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                     const struct mpl_shape *shape, const int64_t *stride);

/** As mpl_empty, laid out as a pointwise operator lays out its result (TensorIterator): like its
 * operands, the first one deciding. */
struct mpl_tensor *mpl_empty_like(struct mpl_tape *tape, const char *op, enum mpl_dtype dtype,
                                  const struct mpl_tensor *a, const struct mpl_tensor *b);

/** A floating tensor on the storage of another one, same shape; no autograd history. */
struct mpl_tensor *mpl_alias(struct mpl_tape *tape, const struct mpl_tensor *tensor);

/** A floating, contiguous tensor of another shape on the storage of another one (as_strided under
 * no_grad); no autograd history. */
struct mpl_tensor *mpl_alias_shaped(struct mpl_tape *tape, const struct mpl_tensor *tensor,
                                    const struct mpl_shape *shape);

/** tensor.data = from: the tensor looks at the storage of another one from now on. */
void mpl_set_data(struct mpl_tape *tape, struct mpl_tensor *tensor, const struct mpl_tensor *from);

struct mpl_tensor *mpl_hold(struct mpl_tensor *tensor);          /* name it */
void mpl_drop(struct mpl_tape *tape, struct mpl_tensor *tensor); /* end a name; NULL is fine */
struct mpl_tensor *mpl_return(struct mpl_tensor *tensor);        /* a local becomes a result */
void mpl_rebind(struct mpl_tape *tape, struct mpl_tensor **name, struct mpl_tensor *value);
void mpl_consume(struct mpl_tape *tape, struct mpl_tensor *tensor); /* drop if floating */

/** A held tensor, as mpl_empty makes it. */
static inline struct mpl_tensor *mpl_hold_empty(struct mpl_tape *tape, const char *op,
                                                enum mpl_dtype dtype, struct mpl_shape shape)
{
    return mpl_hold(mpl_empty(tape, op, dtype, &shape));
}

/** The same without dimensions. */
static inline struct mpl_tensor *mpl_hold_scalar(struct mpl_tape *tape, const char *op,
                                                 enum mpl_dtype dtype)
{
    return mpl_hold_empty(tape, op, dtype, (struct mpl_shape){0});
}

/** Frees the device memory of a storage that keeps its tensors (resize_(0)), or brings it back. */
void mpl_storage_release(struct mpl_tape *tape, struct mpl_storage *storage);
void mpl_storage_refill(struct mpl_tape *tape, struct mpl_tensor *tensor, const char *op);

/** Takes bytes from the allocator and gives them back at once: a kernel's own memory. */
void mpl_scratch(struct mpl_tape *tape, const char *op, uint64_t bytes);

struct mpl_shape mpl_shape1(struct mpl_dim a);
struct mpl_shape mpl_shape2(struct mpl_dim a, struct mpl_dim b);
struct mpl_shape mpl_shape3(struct mpl_dim a, struct mpl_dim b, struct mpl_dim c);
struct mpl_shape mpl_shape4(struct mpl_dim a, struct mpl_dim b, struct mpl_dim c, struct mpl_dim d);
int64_t mpl_numel(const struct mpl_tensor *tensor);
bool mpl_shape_equal(const struct mpl_shape *a, const struct mpl_shape *b);

/* ---- modules ------------------------------------------------------------------------------- */

/** The number of the module that owns a weight; a tied head is not the embedding. */
static inline uint64_t mpl_module_of_weight(uint32_t weight, bool is_tied_head)
{
    return 2 * (uint64_t)weight + is_tied_head;
}

/** A module whose weights are those of modules in it: weights first to last of the network. */
#define MPL_MODULE_AROUND (1ULL << 62)
#define MPL_MODULE_BLOCK  (1ULL << 61) /* of experts, with MPL_MODULE_AROUND */

static inline uint64_t mpl_module_around(uint32_t first, uint32_t last)
{
    return MPL_MODULE_AROUND | (uint64_t)last << 30 | first;
}

/** What mpl_module_around() was given; false: another kind of number. */
static inline bool mpl_module_range(uint64_t module, uint32_t *first, uint32_t *last)
{
    if (module == MPL_NO_MODULE || !(module & MPL_MODULE_AROUND))
        return false;
    *first = module & ((1U << 30) - 1);
    *last = module >> 30 & ((1U << 30) - 1);
    return true;
}

static inline struct mpl_tensor *mpl_scope_enter(struct mpl_tape *tape, uint64_t module,
                                                 struct mpl_tensor *input)
{
    return tape->scopes ? tape->scopes->enter(tape, tape->scopes_wrapper, module, input) : input;
}

static inline struct mpl_tensor *mpl_scope_leave(struct mpl_tape *tape, uint64_t module,
                                                 struct mpl_tensor *output)
{
    return tape->scopes ? tape->scopes->leave(tape, tape->scopes_wrapper, module, output) : output;
}

static inline void mpl_scope_read(struct mpl_tape *tape, uint64_t reader, uint32_t weight)
{
    if (tape->scopes)
        tape->scopes->read(tape, tape->scopes_wrapper, reader, weight);
}

/* ---- graph --------------------------------------------------------------------------------- */

/**
 * A node for an operator that just ran on inputs (NULL entries are fine), or NULL when no gradient
 * is wanted. outputs is how many gradients it will receive, saves how many tensors it may keep.
 */
struct mpl_node *mpl_node_new(struct mpl_tape *tape, const char *name, mpl_backward_rule *backward,
                              struct mpl_tensor *const *inputs, int input_count, int outputs,
                              int saves);

/** Keeps a tensor for backward. node may be NULL. Returns the slot, or -1. */
int mpl_save(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *tensor);

/** As mpl_save for a result of the node itself: without its history, so that no cycle arises. */
int mpl_save_output(struct mpl_tape *tape, struct mpl_node *node, struct mpl_tensor *tensor);

/** Makes tensor the output number nr of the node. node may be NULL. */
void mpl_set_history(struct mpl_tape *tape, struct mpl_tensor *tensor, struct mpl_node *node,
                     int nr);

/** Runs callback each time before the node behind tensor runs; nothing for a leaf. */
void mpl_add_pre_hook(struct mpl_tape *tape, struct mpl_tensor *tensor, mpl_callback *callback,
                      void *context);

/** True when the gradient of input i is wanted. */
static inline bool mpl_needs(const struct mpl_node *node, int i)
{
    return node && node->edges[i].node;
}

/** Puts another gradient in the place of the one that arrives at tensor. */
void mpl_add_grad_hook(struct mpl_tape *tape, struct mpl_tensor *tensor, mpl_replace_grad *replace);

void mpl_node_unref(struct mpl_tape *tape, struct mpl_node *node);

/** Lets go of what a node keeps for backward (release_variables). */
void mpl_node_release(struct mpl_tape *tape, struct mpl_node *node);

/** loss.backward(): runs the graph behind a scalar. */
void mpl_backward(struct mpl_tape *tape, struct mpl_tensor *loss);

/** The same inside a node's backward, from a given gradient (borrowed; like torch.autograd.backward
 * with grad_tensors): nodes of this graph only. */
void mpl_backward_inner(struct mpl_tape *tape, struct mpl_tensor *output, struct mpl_tensor *grad);

/** Runs callback once, when the running backward has emptied its queue
 * (Variable._execution_engine.queue_callback). */
void mpl_queue_callback(struct mpl_tape *tape, mpl_callback *callback, void *context);

/** The sum of a gradient over the dimensions that are 1 in kept; held. (op/reduce.c) */
struct mpl_tensor *mpl_sum_to(struct mpl_tape *tape, struct mpl_tensor *grad,
                              const struct mpl_shape *kept);

/** Sum of gradients into what a buffer holds: in place where PyTorch does it. Both are held. */
struct mpl_tensor *mpl_accumulate(struct mpl_tape *tape, struct mpl_tensor *old,
                                  struct mpl_tensor *more);

/* ---- autocast and checkpointing ------------------------------------------------------------ */

/** The tensor in the autocast dtype, if autocast is on and it is of a wider floating dtype; a
 * leaf's copy is cached until mpl_autocast_exit. Consumes a floating tensor. */
struct mpl_tensor *mpl_autocast(struct mpl_tape *tape, struct mpl_tensor *tensor);
void mpl_autocast_exit(struct mpl_tape *tape);

/** A module's forward, as a function of one tensor. */
typedef struct mpl_tensor *mpl_forward(struct mpl_tape *tape, void *context,
                                       struct mpl_tensor *input);

/** torch.utils.checkpoint, as tape->checkpoint says: runs forward, keeps only the input and the
 * tensors that kwargs point at (NULL entries are fine), runs it again when backward asks for the
 * first tensor. context must stay valid until backward is over. */
struct mpl_tensor *mpl_checkpoint(struct mpl_tape *tape, mpl_forward *forward, void *context,
                                  struct mpl_tensor *input,
                                  struct mpl_tensor **const kwargs[MPL_MAX_KWARGS]);

/** The same for a forward that reads several tensors where names point (the first is its input,
 * too; NULL entries are fine, and end the list): all of them are arguments. names must point into
 * context. */
struct mpl_tensor *mpl_checkpoint_many(struct mpl_tape *tape, mpl_forward *forward, void *context,
                                       struct mpl_tensor **const names[MPL_MAX_KWARGS]);

/* ---- for the engine and the checkpoints ---------------------------------------------------- */

/** The same with use_reentrant=True. (tape/reentrant.c) */
struct mpl_tensor *mpl_checkpoint_reentrant(struct mpl_tape *tape, mpl_forward *forward,
                                            void *context, struct mpl_tensor *input,
                                            struct mpl_tensor **const kwargs[MPL_MAX_KWARGS]);

/** What save_on_cpu's hooks do with a tensor that is kept: NULL when out of memory. The copy is
 * the tape's. (tape/offload.c) */
const struct mpl_host_copy *mpl_host_pack(struct mpl_tape *tape, const struct mpl_tensor *tensor);
/** A held, contiguous tensor on the device again. */
struct mpl_tensor *mpl_host_unpack(struct mpl_tape *tape, const struct mpl_host_copy *copy);

/** Inside a selective checkpointed call: a floating result of op that was kept the first time, or
 * NULL when op has to run. */
struct mpl_tensor *mpl_frame_recall(struct mpl_tape *tape, const char *op);
/** Does recalling spare op's kernel? Not for matrix products. */
bool mpl_frame_spares(const struct mpl_tape *tape, const char *op);
/** The same, first time: keeps a new result of op if its kind is kept. */
void mpl_frame_keep(struct mpl_tape *tape, const char *op, const struct mpl_tensor *tensor);

struct mpl_tensor *mpl_unpack(struct mpl_tape *tape, struct mpl_saved *slot);
/** A slot of a checkpointed call is given up: what was computed again for it goes, or will not be
 * kept. */
void mpl_frame_forget(struct mpl_tape *tape, struct mpl_saved *slot);
/** Called by mpl_save inside a checkpointed call; true when the slot was taken over. */
bool mpl_frame_pack(struct mpl_tape *tape, struct mpl_saved *slot, struct mpl_tensor *tensor);

#endif
