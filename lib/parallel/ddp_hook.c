/* SPDX-License-Identifier: MIT */
/*
 * DDP: what communication hooks take while a bucket is reduced.
 *
 * source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py (allreduce_hook,
 * _compress_hook), release 2.14
 */
#include "parallel/ddp.h"
#include "spec/text.h"

static enum mpl_dtype sent_dtype(enum mpl_comm_hook hook, enum mpl_dtype dtype)
{
    switch (hook) {
    case MPL_COMM_HOOK_FP16:
        return MPL_FLOAT16;
    case MPL_COMM_HOOK_BF16:
        return MPL_BFLOAT16;
    case MPL_COMM_HOOK_NONE:
    case MPL_COMM_HOOK_ALLREDUCE:
        break;
    }
    return dtype;
}

bool mpl_ddp_compresses(const struct mpl_ddp *ddp, const struct mpl_ddp_bucket *bucket)
{
    return sent_dtype(ddp->network->plan->parallelism.comm_hook, bucket->dtype) != bucket->dtype;
}

/* shape: [elements of the bucket]; what comes back is widened in place. NCCL holds what was sent:
 * see mpl_ddp_drop_stale(). */
static void send_compressed(struct mpl_tape *tape, struct mpl_ddp *ddp,
                            const struct mpl_ddp_bucket *bucket, enum mpl_dtype dtype)
{
    struct mpl_tensor *sent;

    tape->category = MPL_CATEGORY_COMMUNICATION;
    sent = mpl_hold(mpl_empty(tape, "_to_copy.default", dtype, &bucket->contents->shape));
    tape->category = MPL_CATEGORY_TEMPORARY;
    if (tape->has_kernel_scratch && mpl_version_at_least(&tape->pytorch, 2, 8, 0))
        ddp->sent[ddp->sent_count++] = sent;
    else
        mpl_drop(tape, sent);
}

void mpl_ddp_reduce(struct mpl_tape *tape, struct mpl_ddp *ddp, uint32_t index)
{
    const enum mpl_comm_hook hook = ddp->network->plan->parallelism.comm_hook;
    const struct mpl_ddp_bucket *bucket = &ddp->buckets[index];
    const enum mpl_dtype dtype = sent_dtype(hook, bucket->dtype);

    if (bucket->contents->is_void)
        return;
    if (!index) { /* those of the backward before go with this collective */
        struct mpl_tensor **swap = ddp->held;

        ddp->held = ddp->sent;
        ddp->held_count = ddp->sent_count;
        ddp->sent = swap;
        ddp->sent_count = 0;
    }
    if (dtype != bucket->dtype)
        send_compressed(tape, ddp, bucket, dtype);
    while (ddp->held_count)
        mpl_drop(tape, ddp->held[--ddp->held_count]);
    mpl_ddp_drop_stale(tape, ddp);
}
