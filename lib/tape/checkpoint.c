/* SPDX-License-Identifier: MIT */
/*
 * Activation checkpointing without re-entrance: a call keeps its input and forgets what its
 * operators save; the first saved tensor that backward asks for runs the call again.
 *
 * source: torch/utils/checkpoint.py (_CheckpointFrame, _checkpoint_hook, _recomputation_hook,
 * early stop).
 */
#include <string.h>

#include "tape/tape.h"

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
    enum mpl_dtype autocast;
};

static void frame_free(struct mpl_tape *tape, struct mpl_frame *frame)
{
    mpl_drop(tape, frame->input);
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
    if (frame->next == frame->count)
        tape->is_stopped = true; /* early stop: nothing that follows is needed */
    return false;
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
    frame->is_recomputing = true;
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
    frame->is_recomputing = false;
    frame->is_recomputed = true;
}

struct mpl_tensor *mpl_unpack(struct mpl_tape *tape, struct mpl_saved *slot)
{
    struct mpl_frame *frame = slot->frame;

    if (tape->is_stopped)
        return tape->void_tensor;
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
    tape->frame = frame;
    result = forward(tape, context, frame->input);
    tape->frame = outer;
    unref(tape, frame);
    return result;
}
