/* SPDX-License-Identifier: MIT */
/*
 * Activation checkpointing without re-entrance: a call keeps its input and forgets what its
 * operators save; the first saved tensor that backward asks for runs the call again. A selective
 * call also keeps the results of some operators, which then do not run again.
 *
 * source: torch/utils/checkpoint.py (_CheckpointFrame, _checkpoint_hook, _recomputation_hook,
 * early stop, _CachingTorchDispatchMode, _CachedTorchDispatchMode), release 2.13.0;
 * torchtitan/distributed/activation_checkpoint.py (SelectiveAC), release 0.3.0.
 */
#include <string.h>

#include "tape/tape.h"

/* A result that a selective call keeps. */
struct kept {
    struct kept *next;
    struct mpl_tensor *tensor;
};

struct mpl_frame {
    uint32_t refs; /* saved slots that wait for it */
    uint32_t count;
    uint32_t next; /* of the recomputation */
    bool is_recomputing, is_recomputed;
    mpl_forward *forward;
    void *context;
    struct mpl_tensor *input;
    struct mpl_tensor *kwargs[MPL_MAX_KWARGS];
    struct mpl_tensor **recomputed; /* count entries, arena memory */
    bool *is_dead;                  /* dead_cap entries: slots that nobody waits for any more */
    uint32_t dead_cap;
    struct mpl_checkpoint_options options;
    enum mpl_dtype autocast;
    const struct mpl_host_copy *host; /* of the input, where it went to the host */
    struct kept *kept, **kept_end;    /* in the order of the calls */
    unsigned products;                /* matrix products so far, in this pass */
};

static void frame_free(struct mpl_tape *tape, struct mpl_frame *frame)
{
    mpl_drop(tape, frame->input);
    for (; frame->kept; frame->kept = frame->kept->next)
        mpl_drop(tape, frame->kept->tensor);
    for (int i = 0; i < MPL_MAX_KWARGS; i++)
        mpl_drop(tape, frame->kwargs[i]);
}

static void unref(struct mpl_tape *tape, struct mpl_frame *frame)
{
    if (!--frame->refs)
        frame_free(tape, frame);
}

/* Most calls have none of these: a graph that leads to no result died before backward. */
static void mark_dead(struct mpl_tape *tape, struct mpl_frame *frame, uint32_t index)
{
    if (index >= frame->dead_cap) {
        const uint32_t cap = 2 * (index + 1);
        bool *grown = mpl_arena_zalloc(&tape->arena, cap * sizeof(*grown));

        if (!grown) {
            mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
            return;
        }
        if (frame->dead_cap)
            memcpy(grown, frame->is_dead, frame->dead_cap * sizeof(*grown));
        frame->is_dead = grown;
        frame->dead_cap = cap;
    }
    frame->is_dead[index] = true;
}

void mpl_frame_forget(struct mpl_tape *tape, struct mpl_saved *slot)
{
    struct mpl_frame *frame = slot->frame;

    if (!frame->is_recomputed) {
        mark_dead(tape, frame, slot->index);
    } else if (frame->recomputed[slot->index]) {
        mpl_drop(tape, frame->recomputed[slot->index]);
        frame->recomputed[slot->index] = NULL;
    }
    unref(tape, frame);
}

bool mpl_frame_pack(struct mpl_tape *tape, struct mpl_saved *slot, struct mpl_tensor *tensor)
{
    struct mpl_frame *frame = tape->frame;
    uint32_t index;

    if (!frame->is_recomputing) {
        slot->frame = frame;
        slot->index = frame->count++;
        frame->refs++;
        return true;
    }
    index = frame->next++;
    if (index >= frame->dead_cap || !frame->is_dead[index])
        frame->recomputed[index] = mpl_hold(mpl_alias(tape, tensor));
    if (frame->next == frame->count && !frame->options.has_no_early_stop)
        tape->is_stopped = true; /* early stop: nothing that follows is needed */
    return false;
}

/* Does SelectiveAC always keep what op returns? */
static bool is_always_kept(const char *op)
{
    static const char *const kept_table[] = {
        "addmm.default",
        "bmm.default",
        "_scaled_dot_product_flash_attention.default",
        "_scaled_dot_product_efficient_attention.default",
        "_scaled_dot_product_cudnn_attention.default",
    };

    for (size_t i = 0; i < sizeof(kept_table) / sizeof(kept_table[0]); i++)
        if (!strcmp(op, kept_table[i]))
            return true;
    return false;
}

/* The same with products without bias: every second one is made again. */
static bool is_kept(struct mpl_frame *frame, const char *op)
{
    if (!frame->options.is_selective)
        return false;
    return strcmp(op, "mm.default") ? is_always_kept(op) : ++frame->products % 2;
}

bool mpl_frame_spares(const struct mpl_tape *tape, const char *op)
{
    const struct mpl_frame *frame = tape->frame;

    return frame && frame->is_recomputing && frame->options.is_selective && is_always_kept(op);
}

struct mpl_tensor *mpl_frame_recall(struct mpl_tape *tape, const char *op)
{
    struct mpl_frame *frame = tape->frame;
    struct mpl_tensor *tensor;

    if (!frame->is_recomputing || tape->is_stopped || !is_kept(frame, op) || !frame->kept)
        return NULL;
    tensor = frame->kept->tensor;
    frame->kept = frame->kept->next;
    return mpl_return(tensor);
}

void mpl_frame_keep(struct mpl_tape *tape, const char *op, const struct mpl_tensor *tensor)
{
    struct mpl_frame *frame = tape->frame;
    struct kept *kept;

    if (frame->is_recomputing || !is_kept(frame, op))
        return;
    kept = mpl_arena_zalloc(&tape->arena, sizeof(*kept));
    if (!kept) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    kept->tensor = mpl_hold(mpl_alias(tape, tensor));
    if (!frame->kept)
        frame->kept_end = &frame->kept;
    *frame->kept_end = kept;
    frame->kept_end = &kept->next;
}

/* Runs the call again until its last saved tensor is there. */
static void recompute(struct mpl_tape *tape, struct mpl_frame *frame)
{
    struct mpl_frame *outer = tape->frame;
    struct mpl_tensor *result;

    frame->recomputed = mpl_arena_zalloc(&tape->arena, frame->count * sizeof(*frame->recomputed));
    if (!frame->recomputed) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return;
    }
    if (frame->host)
        frame->input = mpl_host_unpack(tape, frame->host);
    frame->is_recomputing = true;
    frame->products = 0;
    tape->frame = frame;
    tape->is_grad_enabled = true;
    tape->autocast = frame->autocast;
    result = frame->forward(tape, frame->context, frame->input);
    mpl_consume(tape, result);
    mpl_autocast_exit(tape);
    tape->autocast = MPL_DTYPE_NONE;
    tape->is_grad_enabled = false;
    tape->frame = outer;
    if (tape->err.status == MEMPLAN_OK)
        tape->is_stopped = false;
    if (frame->host) {
        mpl_drop(tape, frame->input);
        frame->input = NULL;
    }
    frame->is_recomputing = false;
    frame->is_recomputed = true;
}

struct mpl_tensor *mpl_unpack(struct mpl_tape *tape, struct mpl_saved *slot)
{
    struct mpl_frame *frame = slot->frame;

    if (tape->is_stopped)
        return tape->void_tensor;
    if (slot->host && !slot->tensor)
        slot->tensor = mpl_host_unpack(tape, slot->host);
    if (!frame || slot->tensor)
        return slot->tensor;
    if (!frame->is_recomputed)
        recompute(tape, frame);
    if (tape->is_stopped || !frame->recomputed[slot->index])
        return tape->void_tensor;
    /* the slot takes it over; the frame stays until the node lets go of what it kept */
    slot->tensor = frame->recomputed[slot->index];
    frame->recomputed[slot->index] = NULL;
    return slot->tensor;
}

struct mpl_tensor *mpl_checkpoint(struct mpl_tape *tape, mpl_forward *forward, void *context,
                                  struct mpl_tensor *input,
                                  struct mpl_tensor **const kwargs[MPL_MAX_KWARGS])
{
    struct mpl_frame *outer = tape->frame, *frame;
    struct mpl_tensor *result;

    if (tape->is_stopped)
        return tape->void_tensor;
    if (tape->checkpoint.is_reentrant)
        return mpl_checkpoint_reentrant(tape, forward, context, input, kwargs);
    frame = mpl_arena_zalloc(&tape->arena, sizeof(*frame));
    if (!frame) {
        mpl_tape_fail(tape, MEMPLAN_ERR_NOMEM, "out of memory while tracing the step");
        return tape->void_tensor;
    }
    frame->refs = 1;
    frame->forward = forward;
    frame->context = context;
    frame->input = mpl_hold(input);
    for (int i = 0; i < MPL_MAX_KWARGS; i++)
        if (kwargs[i] && *kwargs[i])
            frame->kwargs[i] = mpl_hold(*kwargs[i]);
    frame->autocast = tape->autocast;
    frame->options = tape->checkpoint;
    tape->frame = frame;
    if (!outer && tape->saves_on_host)
        frame->host = mpl_host_pack(tape, input);
    result = forward(tape, context, frame->input);
    tape->frame = outer;
    if (frame->host) {
        mpl_drop(tape, frame->input);
        frame->input = NULL;
    }
    unref(tape, frame);
    return result;
}
