/* SPDX-License-Identifier: MIT */
/*
 * DeepSpeed ZeRO, stages 1 and 2: weights lie in one flat buffer on every rank, float32 masters and
 * optimizer states are cut into one partition a rank. Stage 2 reduces gradients while backward
 * runs and keeps those of its own partition; stage 1 keeps them all until the end.
 *
 * The optimizer is PyTorch's own over the flat partition (zero_allow_untested_optimizer); the data
 * types are those of the model, for gradients too. record_stream() is not modelled: see fsdp1.h.
 *
 * source: deepspeed/runtime/zero/stage_1_and_2.py, release 0.19.6
 */
#ifndef MPL_PARALLEL_ZERO_H
#define MPL_PARALLEL_ZERO_H

#include "step/network.h"

/** Wraps the network as the plan's "parallelism" says. Arena memory. */
enum memplan_status mpl_zero_wrap(struct mpl_network *network, struct memplan_error *err);

/** The engine, of all stages: the gradient of a model's output is divided by the steps of an
 * accumulation (_backward_prologue_per_tensor), before release 0.19.6, which divides the loss. */
void mpl_zero_watch_output(struct mpl_tape *tape, const struct mpl_network *network,
                           struct mpl_tensor *output);

/** loss.float() * loss_scale */
struct mpl_tensor *mpl_zero_scale_loss(struct mpl_tape *tape, struct mpl_tensor *loss);

/* ---- for parallel/zero*.c ---------------------------------------------------------------------
 */

struct mpl_zero;

/** A trained parameter: where it lies in the flat buffer. */
struct mpl_zero_member {
    struct mpl_zero *zero;
    struct mpl_parameter *parameter;
    uint64_t start, numel;
    struct mpl_tensor *averaged; /* its reduced gradient, if this rank needs it; else NULL */
};

/** Gradients that are reduced together. */
struct mpl_zero_bucket {
    uint32_t *members, count;
    uint64_t elements;
    struct mpl_tensor *buffers[2]; /* the second one with overlap_comm; NULL: none */
};

struct mpl_zero {
    struct mpl_network *network;
    struct mpl_zero_member *members;
    uint32_t count;
    uint64_t numel, partition_numel; /* aligned */
    uint64_t low, high;              /* this rank's partition */
    enum mpl_dtype dtype;
    struct mpl_zero_bucket bucket;
    struct mpl_tensor *flat;
    struct mpl_tensor *master;  /* NULL: on the host */
    struct mpl_tensor *offload; /* room for one gradient on its way to the host; NULL: none */
    struct mpl_tensor *own;  /* gradients of this rank's partition in this backward; NULL: none */
    struct mpl_tensor *norm; /* of all gradients, from the last step */
    uint64_t bucket_numel;
    bool partitions_gradients; /* stage 2 */
    bool offloads;             /* optimizer states and master weights to the host */
    bool overlaps, is_boundary, is_ready, is_queued;
};

/** True when the parameter lies in this rank's partition, in part or as a whole. */
static inline bool mpl_zero_owns(const struct mpl_zero_member *member)
{
    return member->start < member->zero->high && member->start + member->numel > member->zero->low;
}

/** A held flat tensor [numel] of a category, made by op. */
struct mpl_tensor *mpl_zero_take(struct mpl_tape *tape, enum mpl_category category, const char *op,
                                 enum mpl_dtype dtype, uint64_t numel);

/** A gradient goes into the bucket; a full one is reduced before. */
void mpl_zero_put(struct mpl_tape *tape, struct mpl_zero_member *member);

/** reduce_ipg_grads: what is in the bucket. */
void mpl_zero_flush(struct mpl_tape *tape, struct mpl_zero *zero);

/** engine.step() without the optimizer: overflow, norm; the flat float32 gradient becomes that of
 * the master weights. */
void mpl_zero_prepare_step(struct mpl_tape *tape, struct mpl_zero *zero);

struct mpl_rank_signs;

/** Which members lie in which partition. (zero.c) */
void mpl_zero_sign(const struct mpl_network *network, struct mpl_rank_signs *signs);

#endif
