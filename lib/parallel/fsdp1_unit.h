/* SPDX-License-Identifier: MIT */
/* One FSDP1 unit: a flat parameter and its life. For parallel/fsdp1*.c only. */
#ifndef MPL_PARALLEL_FSDP1_UNIT_H
#define MPL_PARALLEL_FSDP1_UNIT_H

#include "parallel/fsdp1.h"
#include "parallel/strategy.h"

/** A piece of a flat parameter: a parameter, or padding between or behind them. */
struct mpl_fsdp1_piece {
    struct mpl_parameter *parameter; /* NULL: padding */
    uint64_t start, numel;           /* elements of the flat parameter */
};

struct mpl_fsdp1;

struct mpl_fsdp1_unit {
    struct mpl_fsdp1 *fsdp;
    struct mpl_module *module;
    struct mpl_fsdp1_piece *pieces;
    uint32_t count;
    uint64_t numel;       /* of the flat parameter */
    uint64_t shard_numel; /* of this rank's shard, padded; all of it without sharding */
    enum mpl_dtype dtype; /* of the parameters */
    enum mpl_dtype compute_dtype, reduce_dtype;

    struct mpl_tensor *shard;     /* this rank's part */
    struct mpl_tensor *low_shard; /* the same in compute_dtype, for the time of a gather */
    struct mpl_tensor *brought;  /* shard from the host that original parameters look at, or NULL */
    struct mpl_tensor *gathered; /* NULL without sharding */
    struct mpl_tensor *leaf;     /* the flat parameter as autograd sees it, in compute_dtype */
    struct mpl_tensor *saved;    /* reduced gradient of this backward */
    struct mpl_tensor *gradient; /* reduced gradient between backward and the next forward */
    struct mpl_tensor *watched;  /* leaf that the hook of a frozen unit holds, or NULL */

    int64_t use;        /* in the order of forwards; -1: none */
    int64_t first_call; /* in the order of the first iteration's calls; -1: none */
    bool is_trained;    /* one of its weights is: then the flat parameter is */
    bool is_watching;   /* the hook of a frozen unit stands on an input */
    bool needs_forward_unshard, needs_backward_unshard, is_prefetched, ran_pre_backward;
};

struct mpl_fsdp1 {
    struct mpl_network *network;
    struct mpl_fsdp1_unit *units; /* the root first, then as named_modules() gives them */
    uint32_t count;
    uint64_t shards;     /* ranks that share one flat parameter; 1: not sharded */
    bool is_resharded;   /* after forward: FULL_SHARD, HYBRID_SHARD */
    bool is_replicated;  /* HYBRID */
    bool has_policy;     /* mixed precision */
    bool uses_originals; /* use_orig_params */
    bool offloads;       /* CPUOffload(offload_params=True) */
    bool is_syncing, is_initialized, is_final_queued;
    struct mpl_fsdp1_unit **calls; /* units in the order of the first iteration */
    uint32_t call_count;
    bool knows_calls;             /* the first iteration is over */
    struct mpl_fsdp1_unit **uses; /* units in the order in which their forwards ended */
    size_t use_count, use_cap;
};

/** Makes a unit of a module's parameters that no unit has yet; owned marks those that one has. */
enum memplan_status mpl_fsdp1_make_unit(struct mpl_fsdp1 *fsdp, struct mpl_module *module,
                                        bool *owned, struct memplan_error *err);

/** The units inside a module, or the module itself if it is a copy that trains, that peft's policy
 * makes. */
enum memplan_status mpl_fsdp1_wrap_adapters(struct mpl_fsdp1 *fsdp, struct mpl_module *module,
                                            bool *owned, struct memplan_error *err);

/** Before the units. Without from_config the model is loaded on the host and comes to the card unit
 * by unit (device_id); one in 4 bits transformers 5 loads whole on every card. (fsdp1_load.c) */
void mpl_fsdp1_load(struct mpl_tape *tape, struct mpl_network *network);

/** Weights of one unit come to the card, unless they were made there, and are sent to all ranks. */
void mpl_fsdp1_bring(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** Lays out the flat parameter of a unit whose pieces are its parameters: alignment, padding. */
void mpl_fsdp1_lay_out(struct mpl_fsdp1_unit *unit);

/** The constructor of one unit: flattens, keeps the shard, frees the originals. */
void mpl_fsdp1_flatten(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** init_flat_param_attributes: buffers of gathers are made and emptied. */
void mpl_fsdp1_init_buffers(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** _unshard(): nothing when it is done. */
void mpl_fsdp1_unshard(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** _reshard() */
void mpl_fsdp1_reshard(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit, bool frees_gathered);

/** The weights become views of what is gathered, with a graph behind them. */
void mpl_fsdp1_use_views(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** The flat gradient is there: casts and reduces it (_post_backward_hook behind the reshard). */
void mpl_fsdp1_reduce(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** prepare_gradient_for_backward: the reduced gradient waits to be added to. */
void mpl_fsdp1_take_back_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** _finalize_params: the reduced gradient becomes that of the parameters. */
void mpl_fsdp1_hand_out_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** _reset_flat_param_grad_info_if_needed: a gradient whose views are gone goes. */
void mpl_fsdp1_reset_gradient(struct mpl_tape *tape, struct mpl_fsdp1_unit *unit);

/** _lazy_init: once, with the first forward or state dict. */
void mpl_fsdp1_lazy_init(struct mpl_tape *tape, struct mpl_fsdp1 *fsdp);

/** Whole weights and states are loaded. (fsdp1_checkpoint.c) */
void mpl_fsdp1_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

/** State dicts of weights and states, as the plan says. (fsdp1_checkpoint.c) */
void mpl_fsdp1_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

#endif
