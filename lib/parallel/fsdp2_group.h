/* SPDX-License-Identifier: MIT */
/* One FSDP2 group: its parameters, its state, its collectives. For parallel/fsdp2*.c only. */
#ifndef MPL_PARALLEL_FSDP2_GROUP_H
#define MPL_PARALLEL_FSDP2_GROUP_H

#include "parallel/fsdp2.h"

/** What a group, or the module's state around it, is doing (TrainingState). */
enum mpl_fsdp2_activity {
    MPL_FSDP2_IDLE = 0,
    MPL_FSDP2_FORWARD,
    MPL_FSDP2_PRE_BACKWARD,
    MPL_FSDP2_POST_BACKWARD,
};

/** A parameter of a group. */
struct mpl_fsdp2_parameter {
    struct mpl_parameter *parameter;
    enum mpl_dtype dtype;           /* gathered in; the parameter's own without a policy */
    bool is_float8;                 /* gathered as codes of one byte, with a scale beside them */
    int64_t shard_numel;            /* elements of a shard, padded to the largest one */
    struct mpl_tensor *gathered;    /* flat buffer behind parameter->tensor; NULL: none yet */
    struct mpl_tensor *kept;        /* part of it between forward and backward; NULL: none */
    struct mpl_tensor *accumulated; /* gradient in the reduce dtype, from steps without sync */
    struct mpl_tensor *gradient;    /* on its way to the reduce-scatter */
    struct mpl_tensor *codes;       /* of the shard, until it is copied into the all-gather */
    struct mpl_tensor *scale;       /* of the all-gather that is pending */
};

struct mpl_fsdp2_group {
    struct mpl_fsdp2 *fsdp;
    struct mpl_fsdp2_policy policy;
    struct mpl_fsdp2_parameter *parameters;
    uint32_t count;
    enum mpl_dtype reduce_dtype; /* MPL_DTYPE_NONE: that of the gradients */
    bool is_resharded_after_forward;
    int64_t keepers; /* ranks that share the gathered weights after forward; 0: nobody keeps them */

    enum mpl_fsdp2_activity activity;       /* of the group */
    enum mpl_fsdp2_activity state_activity; /* of the module's state: PRE_BACKWARD until the end */
    bool is_unsharded, is_pending;          /* pending: gathered, not yet copied out */
    bool is_kept;                           /* shared by the keepers */
    struct mpl_tensor *gather;              /* pending all-gather's output; NULL with one shard */
    struct mpl_tensor *all_reduced; /* replicated: buffer kept until its all-reduce is over */
    int64_t last_use;               /* in the order of post-forwards; -1: none */
};

/** A finished forward of a group, in order. */
struct mpl_fsdp2_use {
    struct mpl_fsdp2_group *group;
    int64_t previous_use; /* of the same group; -1: none */
};

/** What all groups of a model share (FSDPCommContext, FSDPStateContext). */
struct mpl_fsdp2 {
    struct mpl_network *network;
    struct mpl_fsdp2_group *groups; /* in the order of named_modules(): the root first */
    uint32_t count;
    int64_t shards, shard_index;
    bool is_replicated;
    bool offloads;                   /* CPUOffloadPolicy */
    bool is_syncing;                 /* reduce gradients in this backward */
    bool is_final_queued;            /* the root's callback waits for the end of backward */
    struct mpl_tensor *last_gather;  /* flat buffer of the group gathered last, in forward */
    struct mpl_tensor *reduce_input; /* of the last reduce-scatter */
    struct mpl_fsdp2_use *uses;      /* arena memory */
    size_t use_count, use_cap;
};

/** The format in which the parameter is gathered. */
static inline enum mpl_dtype mpl_fsdp2_gathered_dtype(const struct mpl_fsdp2_parameter *p)
{
    return p->is_float8 ? MPL_UINT8 : p->dtype;
}

/** Around a group's module; first and last: around the first and the last module of a group of
 * several (_register_group_forward_hooks). */
extern const struct mpl_hooks mpl_fsdp2_hooks, mpl_fsdp2_first_hooks, mpl_fsdp2_last_hooks;

/** A held flat tensor [numel] on a stream. */
struct mpl_tensor *mpl_fsdp2_take(struct mpl_tape *tape, enum mpl_stream stream,
                                  enum mpl_category category, const char *op, enum mpl_dtype dtype,
                                  int64_t numel);

/** unshard(): the all-gather; nothing when it is under way or done. */
void mpl_fsdp2_unshard(struct mpl_tape *tape, struct mpl_fsdp2_group *group);

/** wait_for_unshard(): copies into the parameters' buffers. */
void mpl_fsdp2_wait(struct mpl_tape *tape, struct mpl_fsdp2_group *group);

/** reshard() after forward: _to_sharded_post_forward() where ranks keep the weights. */
void mpl_fsdp2_reshard_after_forward(struct mpl_tape *tape, struct mpl_fsdp2_group *group);

/** Ranks that the weights are gathered from now. */
static inline int64_t mpl_fsdp2_sources(const struct mpl_fsdp2_group *group)
{
    return group->is_kept ? group->keepers : group->fsdp->shards;
}

/** _to_sharded(): frees the parameters' buffers. */
void mpl_fsdp2_reshard(struct mpl_tape *tape, struct mpl_fsdp2_group *group);

/** post_backward(): reshards; reduces the gradients that are there, or keeps them unsharded. */
void mpl_fsdp2_post_backward(struct mpl_tape *tape, struct mpl_fsdp2_group *group);

/** Scratch memory of the kernel that copies an all-gather's output into the parameters' buffers. */
void mpl_fsdp2_book_copy_out(struct mpl_tape *tape, const struct mpl_fsdp2_group *group);

/** ...and of the one that copies gradients into a reduce-scatter's input of format dtype. */
void mpl_fsdp2_book_copy_in(struct mpl_tape *tape, const struct mpl_fsdp2_group *group,
                            enum mpl_dtype dtype);

/** True when a shard of this rank is shorter than the largest one. (fsdp2_short.c) */
bool mpl_fsdp2_has_short(const struct mpl_network *network);

/** model.to_empty() on a rank with short shards: each group pads its own once it has them all. */
void mpl_fsdp2_to_empty(struct mpl_tape *tape, struct mpl_network *network);

/** In place of mpl_network_materialize(): the whole model, then its shards. */
void mpl_fsdp2_cut(struct mpl_tape *tape, struct mpl_network *network);

/** A checkpoint is loaded, as the plan says. (fsdp2_resume.c) */
void mpl_fsdp2_resume(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

/** State dicts of weights and states, as the plan says. (fsdp2_checkpoint.c) */
void mpl_fsdp2_save(struct mpl_tape *tape, struct mpl_network *network, struct mpl_optim *optim);

#endif
