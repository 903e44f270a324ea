/* SPDX-License-Identifier: MIT */
/*
 * DDP (torch.nn.parallel.DistributedDataParallel) around a network: the buckets that gradients are
 * reduced in, and what its constructor and forward broadcast.
 *
 * Every parameter is whole on every rank. All-reduces work in place in the buckets, which lie on
 * the default stream; what NCCL itself takes is no matter of the allocator.
 *
 * source: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp, release 2.13
 */
#ifndef MPL_PARALLEL_DDP_H
#define MPL_PARALLEL_DDP_H

#include "step/network.h"

/** Hooks the root as the plan's "parallelism" says. Arena memory. */
enum memplan_status mpl_ddp_wrap(struct mpl_network *network, struct memplan_error *err);

/* ---- for parallel/ddp*.c ----------------------------------------------------------------------
 */

/** A trained parameter and where its gradient lies. */
struct mpl_ddp_member {
    struct mpl_ddp *ddp;
    struct mpl_parameter *parameter;
    uint32_t bucket;
    bool has_come; /* in the list of arrivals */
};

struct mpl_ddp_bucket {
    enum mpl_dtype dtype;
    uint32_t count, pending; /* members, those without gradient in this backward */
    uint64_t numel;
    struct mpl_tensor *contents; /* flat, [numel] */
};

/** The reducer. */
struct mpl_ddp {
    struct mpl_network *network;
    struct mpl_ddp_member *members;                 /* in the order of named_parameters() */
    struct mpl_ddp_bucket *buckets, *spare_buckets; /* in the order of their reduction */
    uint32_t *arrivals; /* members in the order in which their gradients came, once */
    uint32_t count, bucket_count, arrival_count, stale_count;
    uint32_t next_bucket; /* to be reduced in this backward */
    int64_t iterations;   /* forwards that synchronise */
    bool is_view, is_static, finds_unused;
    bool is_syncing;  /* this forward and backward are not under no_sync */
    bool broadcasts;  /* buffers, before the next forward */
    bool is_reducing; /* between the forward and the end of its backward */
    bool has_rebuilt, has_delayed;
    bool has_changed; /* in this step: gradients came for the first time, buckets were rebuilt */
    struct mpl_tensor **stale; /* old buckets that NCCL still holds */
    struct mpl_tensor **sent;  /* what a communication hook sent in this backward... */
    struct mpl_tensor **held;  /* ...and in the one before, the same */
    uint32_t sent_count, held_count;
    struct mpl_tensor *used_map; /* int32 [count]; NULL: none */
};

/** The first buckets: one for each format, or as they fill up when unused parameters are looked
 * for. */
void mpl_ddp_make_buckets(struct mpl_tape *tape, struct mpl_ddp *ddp);

/** Once all gradients came: buckets in that order (_rebuild_buckets). */
void mpl_ddp_rebuild_buckets(struct mpl_tape *tape, struct mpl_ddp *ddp);

/**
 * Lets go of old buckets. ProcessGroupNCCL keeps the tensors of a collective that nobody waits for
 * (DDP waits for its future) until its watchdog, which looks every 100 ms, has seen the end of it
 * and the next collective begins. That may be a collective of the next forward or any later one;
 * taken is the first all-reduce of the next backward.
 *
 * source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (TensorShelf, workEnqueue,
 * Watchdog::runLoop); since 2.8 (before, freed blocks waited for an event)
 */
void mpl_ddp_drop_stale(struct mpl_tape *tape, struct mpl_ddp *ddp);

/** The bucket is full: its all-reduce, or a communication hook in that place. (ddp_hook.c) */
void mpl_ddp_reduce(struct mpl_tape *tape, struct mpl_ddp *ddp, uint32_t index);

/** A communication hook sends a copy of the bucket in another format. */
bool mpl_ddp_compresses(const struct mpl_ddp *ddp, const struct mpl_ddp_bucket *bucket);

/** With gradient_as_bucket_view the gradient moves into its bucket. */
void mpl_ddp_move_gradient(struct mpl_tape *tape, struct mpl_ddp_member *member);

/** What the constructor compares between ranks. */
void mpl_ddp_verify_parameters(struct mpl_tape *tape, const struct mpl_ddp *ddp);

/** Broadcasts tensors, flattened in groups of one format of 250 MiB; two are under way at a time.
 */
void mpl_ddp_broadcast(struct mpl_tape *tape, struct mpl_parameter *const *list, uint32_t count);

/** The same for weights and buffers, or buffers alone, of a network. */
void mpl_ddp_broadcast_network(struct mpl_tape *tape, const struct mpl_network *network,
                               bool only_buffers);

#endif
