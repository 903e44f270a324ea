/* SPDX-License-Identifier: MIT */
/* A model on the tape: its parameters, its modules, its forward. Families fill it in. */
#ifndef MPL_STEP_NETWORK_H
#define MPL_STEP_NETWORK_H

#include "step/module.h"

/** What one forward takes. Tensors are held by the training loop. */
struct mpl_batch {
    struct mpl_tensor *input_ids, *labels;
    struct mpl_tensor *attention_mask; /* NULL: no padding */
    struct mpl_tensor *item_count;     /* num_items_in_batch; NULL: not given */
    bool has_no_labels;                /* the model is called for its logits, which it returns */
    /* grpo: input_ids and attention_mask are the prompt's, labels are the completion's tokens */
    struct mpl_tensor *completion_mask, *advantages;
};

struct mpl_network;
struct mpl_te;
struct mpl_fsdp2;
struct mpl_optim;

/** forward(batch): a floating loss. outputs_out takes held tensors that live as long as the output
 * object (the logits), for the loop to drop; NULL entries are fine. */
typedef struct mpl_tensor *mpl_network_forward(struct mpl_tape *tape, struct mpl_network *network,
                                               struct mpl_batch *batch,
                                               struct mpl_tensor **logits_out);

/**
 * A training loop of the family's own: zero_grad comes between forward and backward, and the loop
 * owns batch and outputs. The order of a step is make_batch, forward, zero_grad, backward,
 * clipping, optimizer step.
 */
struct mpl_loop {
    void (*materialize)(struct mpl_tape *tape, struct mpl_network *network);
    void (*make_batch)(struct mpl_tape *tape, struct mpl_network *network);
    bool zeroes_first; /* zero_grad comes before forward, not after it */
    bool divides_loss; /* accelerator.backward(loss): by the steps of accumulation, 1 too */
    /** Calls the model; the loss that backward starts from, borrowed. */
    struct mpl_tensor *(*forward)(struct mpl_tape *tape, struct mpl_network *network);
    /** NULL: the order above. Else gradients are accumulated as the plan says, and the optimizer
     * clips and steps by itself (mpl_masters_step), zero_grad included; this lets go of the loss
     * and what belongs to it, after backward or at the end of the step. */
    void (*end_micro)(struct mpl_tape *tape, struct mpl_network *network, struct mpl_tensor *loss);
    /** What the loop does after the optimizer's step; NULL: nothing. Part of its phase. */
    void (*end_step)(struct mpl_tape *tape, struct mpl_network *network);
};

/** Held tensors of a model's output object besides loss and logits. */
struct mpl_outputs {
    struct mpl_tensor **of; /* room for one of each layer and one more */
    uint32_t count;
};

/** What a data-parallel wrapper does outside the modules' hooks; NULL: nothing. */
struct mpl_wrapper {
    /** In place of mpl_network_materialize(). */
    void (*materialize)(struct mpl_tape *tape, struct mpl_network *network);
    /** The wrapper's constructor: once the parameters have memory. */
    void (*construct)(struct mpl_tape *tape, struct mpl_network *network);
    /** Whether the next forward and backward synchronise gradients (no_sync). */
    void (*set_sync)(struct mpl_network *network, bool is_wanted);
    /** Whether the next forward and backward are the last ones before a step. */
    void (*set_boundary)(struct mpl_network *network, bool is_last);
    /** The loss that backward starts from; held. */
    struct mpl_tensor *(*scale_loss)(struct mpl_tape *tape, struct mpl_tensor *loss);
    /** In place of clipping, optimizer.step() and zero_grad(). */
    void (*step)(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);
    /** Once for each step, before it: false when the step before left behind what no storage shows
     * (buckets that wait to be rebuilt): then the next one may be another one. */
    bool (*has_settled)(struct mpl_network *network);
    /** State dicts, as the plan's checkpoint.save says. */
    void (*save)(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);
    /** In place of loading whole weights and states, as checkpoint.resume says. */
    void (*resume)(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);
    /** Bytes of this rank's parameters, each storage rounded up to 512. */
    uint64_t (*parameter_bytes)(const struct mpl_network *network);
};

struct mpl_network {
    const struct mpl_plan *plan;
    struct mpl_arena *arena;
    struct mpl_parameter *parameters; /* in the order of named_parameters() */
    uint32_t parameter_count, parameter_cap;
    char prefix[64];                       /* of names to come, while a family describes itself */
    struct mpl_tensor *quantization_table; /* one for the process; NULL: none yet */
    uint32_t targets_met, saved_met; /* bits: which names of the plan's adapters fit a module */
    bool is_in_head;                 /* what comes is the output head */
    bool keeps_batch;                /* the trainer's name holds it until the next one is there */
    bool has_bool_mask;              /* the attention mask of its data is bool */
    bool are_adapters_off;           /* forwards use what lies below the adapters */
    bool has_left;                   /* model(batch) has returned: mpl_network_leave() */
    const struct mpl_float8_config *float8; /* of all layers that compute in float8 */
    uint32_t first_linear, last_linear;     /* their weights, when has_linear */
    bool has_linear, has_float8_head;       /* kept with float8 only */
    struct mpl_te *te;                      /* part/te.h; NULL: none */
    struct mpl_module *modules;             /* modules[0] is the root: what no other module owns */
    uint32_t module_count;
    struct mpl_module last_norm; /* the norm before the head, which modules[] does not have: for a
                                    wrapper that takes both together; forward NULL: none */
    mpl_network_forward *forward;
    struct mpl_outputs outputs;  /* of the last forward, for the loop to drop */
    struct mpl_outputs kept;     /* of an output object that outlives its step */
    const struct mpl_loop *loop; /* NULL: the causal language model's (step/train.c) */
    void *family;
    struct mpl_network *reference;     /* a frozen model beside it: a teacher; NULL: none */
    struct mpl_fsdp2 *sharding;        /* parallel/fsdp2.h; NULL: none */
    const struct mpl_wrapper *wrapper; /* NULL: none */
    void *wrapped;                     /* for the wrapper */
};

/** Adds a parameter and returns its index; UINT32_MAX when out of memory or past the room. */
uint32_t mpl_network_add(struct mpl_network *network, const char *name, struct mpl_shape shape);

/** Room for the parameters of a family of that many: adapters and copies need more. */
uint32_t mpl_network_room(const struct mpl_plan *plan, uint32_t count);

/** True when prefix + name is one of the names, or ends with "." and one (or just with one, for the
 * modules to save); marks it in *met. */
bool mpl_network_lists(const struct mpl_network *network, const char *name,
                       const struct mpl_names *names, uint32_t *met);

/** name is the whole of wanted, or ends with "." and wanted. */
bool mpl_name_ends_with(const char *name, const char *wanted);

/** As mpl_network_add, named prefix + name + suffix. A module that trains as a copy
 * (lora.modules_to_save) gets the copy, too, whose index is returned. */
uint32_t mpl_network_add_under(struct mpl_network *network, const char *name, const char *suffix,
                               struct mpl_shape shape);

/** Gives parameter i another dtype than the plan's, from its loading on; UINT32_MAX: none. */
void mpl_network_set_dtype(struct mpl_network *network, uint32_t i, enum mpl_dtype dtype);

/** The tensor that forward uses for parameter i. */
static inline struct mpl_tensor *mpl_network_weight(const struct mpl_network *network, uint32_t i)
{
    return network->parameters[i].tensor;
}

/** What the optimizer updates: this rank's shard, or the parameter itself. */
static inline struct mpl_tensor *mpl_parameter_leaf(const struct mpl_parameter *parameter)
{
    return parameter->shard ? parameter->shard : parameter->tensor;
}

/** As mpl_network_add, for a float32 buffer: it takes memory, and is no parameter. */
uint32_t mpl_network_add_buffer(struct mpl_network *network, const char *name,
                                struct mpl_shape shape);

/** As mpl_network_add_buffer, named prefix + name + suffix. */
uint32_t mpl_network_add_buffer_under(struct mpl_network *network, const char *name,
                                      const char *suffix, struct mpl_shape shape);

/** Elements of one parameter. */
uint64_t mpl_parameter_numel(const struct mpl_parameter *parameter);

/** The tensor that is sharded for a parameter: its own shape, or that of the packed weight. */
struct mpl_shape mpl_parameter_stored_shape(const struct mpl_parameter *parameter);

/** Elements of that tensor. */
uint64_t mpl_parameter_stored_numel(const struct mpl_parameter *parameter);

/** Elements of what this rank keeps of one parameter: all, or the first shard (the largest one). */
uint64_t mpl_parameter_local_numel(const struct mpl_parameter *parameter);

/** True when this rank's part has fewer rows than the largest one. */
bool mpl_parameter_is_short(const struct mpl_parameter *parameter);

/** Shards of a model on meta get their memory from model.to_empty(): as many rows as the rank has;
 * FSDP2 then pads them (_fsdp_param.py, reset_sharded_param). */
void mpl_network_to_empty_one(struct mpl_tape *tape, struct mpl_parameter *parameter);
void mpl_network_pad_one(struct mpl_tape *tape, struct mpl_parameter *parameter);

/** model.to_empty() comes to a tied weight twice: it makes a new one, then frees the old one
 * (torch/nn/modules/module.py, _apply). */
void mpl_network_remake_tied(struct mpl_tape *tape, struct mpl_network *network);

/** Gives memory to one parameter on this device: whole, or its shard. */
void mpl_network_materialize_one(struct mpl_tape *tape, struct mpl_network *network, uint32_t i);

/** The same for every parameter. */
void mpl_network_materialize(struct mpl_tape *tape, struct mpl_network *network);

/** Weights in 4 bits are made on the card one after another, and what is packed goes to the host;
 * their statistics stay. (transformers 4.x under FSDP: modeling_utils.py,
 * _load_state_dict_into_meta_model) */
void mpl_network_quantize_to_host(struct mpl_tape *tape, struct mpl_network *network);

/**
 * Casts *logits, held or NULL, to float32 where accelerate does, and ends autocast. It puts both
 * around the model's own forward: what wraps the model gets outputs in float32. source:
 * accelerate/accelerator.py (prepare_model), utils/operations.py (convert_outputs_to_fp32)
 */
void mpl_network_convert_outputs(struct mpl_tape *tape, const struct mpl_training *training,
                                 struct mpl_tensor **logits);

/** The end of model(batch), where a loss is computed from its outputs (held): the root's hooks.
 * Without this call it is the end of network->forward. */
void mpl_network_leave(struct mpl_tape *tape, struct mpl_network *network,
                       struct mpl_tensor **outputs, int count);

/** model(batch): the root's hooks around network->forward. */
struct mpl_tensor *mpl_network_call(struct mpl_tape *tape, struct mpl_network *network,
                                    struct mpl_batch *batch, struct mpl_tensor **logits_out);

#endif
