/* SPDX-License-Identifier: MIT */
/*
 * Modules: what a model family is made of, and where wrappers hook in.
 *
 * A family describes its modules once (names, parameters, which of them are decoder layers) and
 * runs them through mpl_module_call(); checkpointing and sharding know modules, never families.
 */
#ifndef MPL_STEP_MODULE_H
#define MPL_STEP_MODULE_H

#include "tape/tape.h"

struct mpl_adapter;
struct mpl_float8_config;
struct mpl_te_layer;
struct mpl_linear;
struct mpl_network;
struct mpl_quantized;

/** linear(x) of a class that does otherwise than nn.Linear; consumes a floating x. */
typedef struct mpl_tensor *mpl_linear_forward(struct mpl_tape *tape,
                                              const struct mpl_network *network,
                                              const struct mpl_linear *linear,
                                              struct mpl_tensor *x);

/** A parameter or a buffer. shape is the full one, before sharding. */
struct mpl_parameter {
    char name[128]; /* as named_parameters() gives it */
    struct mpl_shape shape;
    enum mpl_dtype dtype;
    enum mpl_dtype loaded_dtype; /* that the model is loaded in, before it is cast to dtype */
    bool is_trainable, is_buffer;
    bool is_quantized_bias;          /* of a layer whose weight is kept in 4 bits */
    bool is_adapter;                 /* made when the rest of the model is there */
    bool is_copy;                    /* of the frozen parameter before it (modules_to_save) */
    bool is_tied;                    /* the last module has it as its own weight, too */
    mpl_linear_forward *forward;     /* of the linear layer with this weight; NULL: nn.Linear's */
    struct mpl_module *module;       /* that has this one alone, for wrappers; NULL: none such */
    struct mpl_adapter *adapter;     /* of a linear layer's weight (arch/adapter.h); NULL: none */
    struct mpl_quantized *quantized; /* kept in 4 bits (op/linear_4bit.h); NULL: as it is */
    const struct mpl_float8_config *float8; /* of a linear layer's weight (op/linear_float8.h) */
    struct mpl_te_layer *te;         /* of a te.Linear's weight (op/linear_te.h); NULL: none such */
    bool is_te_bias;                 /* of a te.Linear */
    struct mpl_tensor *float8_scale; /* of a weight that was gathered in float8; NULL: it was not */
    int64_t packed_numel;            /* quantized: elements of its tensor, which passes for dtype */
    int64_t shards;                  /* FSDP2: how many ranks share it; 0: not sharded */
    int64_t shard_index;             /* which of them this one is */
    struct mpl_tensor *tensor;       /* what forward uses; under FSDP2 the unsharded parameter */
    struct mpl_tensor *shard;        /* FSDP2: this rank's part, a leaf of its own; else NULL */
};

/** What wrappers may want to know of a module. */
enum mpl_module_kind {
    MPL_MODULE_OTHER = 0,
    MPL_MODULE_LAYER, /* a decoder layer */
    MPL_MODULE_EMBEDDING,
    MPL_MODULE_HEAD,
};

struct mpl_module;

/** What a wrapper does around a module. */
struct mpl_hooks {
    /** Casts an input; takes and returns a held tensor. First of all, for every input. */
    struct mpl_tensor *(*cast_input)(struct mpl_tape *tape, void *wrapper,
                                     struct mpl_tensor *input);
    /** Then: may give the input a node. Takes and returns a held tensor; NULL is fine. */
    struct mpl_tensor *(*pre_forward)(struct mpl_tape *tape, void *wrapper,
                                      struct mpl_tensor *input);
    /** Looks at the outputs (borrowed; NULL entries are fine). */
    void (*post_forward)(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *const *outputs,
                         int count);
    /** Root only, then: may put others in the place of the outputs (held). NULL: it does not. */
    void (*replace_outputs)(struct mpl_tape *tape, void *wrapper, struct mpl_tensor **outputs,
                            int count);
    /** The wrapper is a module around the checkpointed one: its hooks do not run again. */
    bool is_outside_checkpoint;
};

/** A cast_input or pre_forward that gives the input as it is. */
struct mpl_tensor *mpl_hook_pass(struct mpl_tape *tape, void *wrapper, struct mpl_tensor *input);

struct mpl_module {
    const char *name;
    enum mpl_module_kind kind;
    uint32_t first_parameter, parameter_count; /* in the network's list; root: see network.h */
    mpl_forward *forward;
    void *context;                 /* for forward */
    const struct mpl_hooks *hooks; /* NULL: none */
    void *wrapper;                 /* for the hooks */
    bool is_checkpointed;
    bool grows_from_output; /* a hook of the model's own: its output requires a gradient */
    struct mpl_tensor *
        *kwargs[MPL_MAX_KWARGS]; /* locals of the caller that a checkpointed call keeps alive */
};

/** module(input): checkpointing, hooks, forward. Consumes a floating input; the caller's temporary
 * lives until the call returns, as in Python. A checkpointed call runs its hooks again when it is
 * recomputed (transformers/modeling_layers.py, GradientCheckpointingLayer). */
struct mpl_tensor *mpl_module_call(struct mpl_tape *tape, struct mpl_module *module,
                                   struct mpl_tensor *input);

/** A tensor as the module's wrapper hands it to forward: for inputs that mpl_module_call() does not
 * see. Takes and returns a held tensor. */
struct mpl_tensor *mpl_module_cast(struct mpl_tape *tape, const struct mpl_module *module,
                                   struct mpl_tensor *input);

#endif
