/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stage 3: every weight is cut into one partition a rank, gathered when a module
 * that owns it begins, and given up when the module ends. Which weights are gathered ahead, and
 * which stay for their next use, follows from the order of modules in the first forward and
 * backward.
 *
 * The model is made under deepspeed.zero.Init(), as transformers does, which also replaces
 * torch.nn.functional.linear. The optimizer is PyTorch's own over flat float32 partitions
 * (zero_allow_untested_optimizer). record_stream() is not modelled: see fsdp1.h.
 *
 * source: deepspeed/runtime/zero/ (stage3.py, parameter_offload.py,
 * partitioned_param_coordinator.py, partition_parameters.py), release 0.19.6
 */
#ifndef MPL_PARALLEL_ZERO3_H
#define MPL_PARALLEL_ZERO3_H

#include "parallel/strategy.h"

/** Wraps the network as the plan's "parallelism" says. Arena memory. */
enum memplan_status mpl_zero3_wrap(struct mpl_network *network, struct memplan_error *err);

/* ---- for parallel/zero3*.c --------------------------------------------------------------------
 */

struct mpl_zero3;
struct mpl_zero3_module;
struct mpl_zero3_weight;

/* Weights in the format of the model, and adapters in float32. */
#define MPL_ZERO3_FORMATS 2

/** An all-gather that was begun: of one weight into the weight itself, or of several into a flat
 * tensor for each format that wait() copies from. */
struct mpl_zero3_gather {
    struct mpl_zero3_gather *next_free;
    struct mpl_zero3_weight *first;
    struct mpl_tensor *flat[MPL_ZERO3_FORMATS]; /* NULL: of one weight, or none of the format */
    struct mpl_tensor *staging; /* a partition that came from the host; NULL: none */
    uint32_t waiting;           /* weights nobody asked for yet */
    bool is_flat, is_complete;
};

enum mpl_zero3_status { MPL_ZERO3_PARTITIONED = 0, MPL_ZERO3_IN_FLIGHT, MPL_ZERO3_AVAILABLE };

struct mpl_zero3_weight {
    struct mpl_zero3 *zero;
    struct mpl_parameter *parameter;
    struct mpl_zero3_module *owners[2]; /* a module, and a head that is tied to it; NULL: none */
    uint64_t numel, partition;          /* elements: all, and of one rank, padded */
    uint32_t order;                     /* of making: ds_id */
    int format;                         /* 0: that of the model, 1: float32 beside it */
    bool is_trained;
    enum mpl_zero3_status status;
    bool persists; /* small: stays gathered between steps */
    bool is_listed, was_fetched;
    bool is_swapped, has_buffer; /* its partition lies on NVMe; is in a buffer on the host */
    uint32_t sub_group;
    struct mpl_tensor *wide;   /* float32 gradient that waits for the step; NULL: none */
    struct mpl_tensor *norm;   /* of its gradient on the way to the host; NULL: none */
    struct mpl_tensor *made;   /* the partition before it moves into the flat buffer */
    struct mpl_tensor *staged; /* the partition from the host in a blocking gather; NULL: none */
    struct mpl_zero3_gather *gather;  /* under way, nobody asked for it yet; NULL: none */
    struct mpl_zero3_weight *sibling; /* the next one in that gather */
    int64_t fetched_for; /* step of the last use that was fetched, or passed over; -1: none */
};

/** What __params_to_release() answered in one step of the trace: the first answer stays. */
struct mpl_zero3_answer {
    struct mpl_zero3_answer *next;
    uint32_t step;
    bool releases[]; /* as many as the module has weights */
};

/** A module with weights of its own, or a leaf with those of the modules in it. */
struct mpl_zero3_module {
    struct mpl_zero3_weight **weights;
    uint32_t count;
    bool is_leaf;
    bool is_active;           /* between fetch and release */
    struct mpl_tensor *held;  /* leaf: the gradient of its result, until its own are reduced */
    uint64_t backward_number; /* fetched in backward, not released since; 0: not so */
    struct mpl_zero3_answer *answers;
};

/** A weight in the order of use, and the step of that use. */
struct mpl_zero3_use {
    struct mpl_zero3_weight *weight;
    uint32_t step;
};

enum mpl_zero3_mode { MPL_ZERO3_INVALID = 0, MPL_ZERO3_RECORD, MPL_ZERO3_COMPLETE };

struct mpl_zero3 {
    struct mpl_network *network;
    struct mpl_zero3_weight *weights;  /* in the order of named_parameters() */
    struct mpl_zero3_weight **trained; /* those of the optimizer, in that order */
    struct mpl_zero3_weight **list;    /* room for one gather's weights */
    uint32_t count, trained_count, sub_group_count;
    struct mpl_zero3_module *modules; /* by mpl_module_of_weight() */
    uint32_t module_count;
    uint64_t *numel_before; /* by parameter: elements of the weights before it */
    uint32_t leaf_depth;    /* inside a leaf no module has hooks */
    enum mpl_dtype dtypes[MPL_ZERO3_FORMATS];
    enum mpl_dtype trained_dtype, sent_dtype,
        kept_dtype; /* of weights; gradients on their way, kept */
    uint64_t ranks, rank;
    bool overlaps, is_contiguous, offloads_states, offloads_weights, swaps_states, swaps_weights;
    uint32_t free_buffers; /* for partitions that come from NVMe */
    enum mpl_stream gather_stream, reduce_stream;

    /* the coordinator */
    enum mpl_zero3_mode mode;
    uint32_t step;   /* modules begun in this forward and backward */
    uint64_t *trace; /* modules in the order in which they began */
    size_t trace_count, trace_cap;
    struct mpl_zero3_use *uses;
    size_t use_count, next_use;
    int64_t available; /* elements gathered since the forward began */
    uint64_t backward_number;
    struct mpl_zero3_gather *free_gathers;

    /* gradients */
    struct mpl_tensor *bucket; /* NULL: gradients are reduced where they lie */
    uint32_t *bucket_weights, bucket_count;
    uint64_t bucket_numel;
    struct mpl_tensor **locals; /* of a reduction */
    uint32_t local_count;
    bool is_queued, is_boundary;

    struct mpl_tensor *empty[MPL_ZERO3_FORMATS]; /* what a weight is while it is partitioned */
    struct mpl_tensor *flat;                     /* this rank's partitions; NULL: on the host */
    struct mpl_tensor *kept;                     /* their gradients; NULL: on the host */
    struct mpl_tensor *tracker;                  /* of overflows */
    struct mpl_tensor *norm;                     /* of all gradients, from the last step */
    struct mpl_tensor **masters;                 /* of sub-groups; NULL entries: on the host */
};

static inline enum mpl_dtype mpl_zero3_dtype(const struct mpl_zero3_weight *weight)
{
    return weight->zero->dtypes[weight->format];
}

/** __all_gather_params_() of the first count weights of zero->list. */
void mpl_zero3_begin_gather(struct mpl_tape *tape, struct mpl_zero3 *zero, uint32_t count);

/** handle.wait() of the gather that a weight is in, if it is in one; copies lie on stream. */
void mpl_zero3_ask_for(struct mpl_tape *tape, struct mpl_zero3_weight *weight,
                       enum mpl_stream stream);

/** Which weights are a module's own. (zero3_modules.c) */
bool mpl_zero3_find_modules(struct mpl_zero3 *zero, struct mpl_arena *arena);

/** True of a weight in the module of the one before it; those of a module lie one after another. */
bool mpl_zero3_has_same_module(const struct mpl_zero3_weight *weight);

/** What stands around every module (struct mpl_scopes). */
extern const struct mpl_scopes mpl_zero3_scopes;

/** reset_step(): a forward begins. */
void mpl_zero3_reset_step(struct mpl_tape *tape, struct mpl_zero3 *zero);

/** A blocking all-gather of weights that are partitioned. */
void mpl_zero3_gather_now(struct mpl_tape *tape, struct mpl_zero3 *zero,
                          struct mpl_zero3_weight *const *weights, uint32_t count);

/** free_param(): the weight is partitioned again. */
void mpl_zero3_give_up(struct mpl_tape *tape, struct mpl_zero3_weight *weight);

/** release_backward_leftovers(): modules whose input had no gradient. */
void mpl_zero3_release_leftovers(struct mpl_tape *tape, struct mpl_zero3 *zero);

/** release_and_reset_all() */
void mpl_zero3_release_all(struct mpl_tape *tape, struct mpl_zero3 *zero);

/** Elements of this rank's partitions of a sub-group, and how many weights it has. */
uint64_t mpl_zero3_numel_of(const struct mpl_zero3 *zero, uint32_t sub_group, uint32_t *weights);

/** What a weight's gradient does when it came; those of a leaf come when its backward is over.
 * (zero3_reduce.c) */
void mpl_zero3_gradient_came(struct mpl_tape *tape, struct mpl_tensor *leaf);
void mpl_zero3_reduce_leaf(struct mpl_tape *tape, const struct mpl_zero3_module *module);

/** The constructor of the optimizer, and its step. (zero3_step.c) */
void mpl_zero3_make_optimizer(struct mpl_tape *tape, struct mpl_zero3 *zero);
void mpl_zero3_step(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

/** Partitions on NVMe: which ones, and whether a sub-group's have a flat buffer on the host
 * instead. (zero3_swap.c) */
enum memplan_status mpl_zero3_find_swapped(struct mpl_zero3 *zero, struct memplan_error *err);
bool mpl_zero3_has_flat(const struct mpl_zero3 *zero, uint32_t sub_group);

/** A partition is read before it is gathered; its buffer is free when it is given up. */
void mpl_zero3_swap_in(struct mpl_tape *tape, struct mpl_zero3_weight *weight);
void mpl_zero3_release_buffer(struct mpl_zero3_weight *weight);

/** Partitions of the next uses are read, as far as buffers go. */
void mpl_zero3_read_ahead(struct mpl_tape *tape, struct mpl_zero3 *zero);

/** State dicts, and loading them. (zero3_checkpoint.c) */
void mpl_zero3_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);
void mpl_zero3_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

#endif
