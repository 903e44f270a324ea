/* SPDX-License-Identifier: MIT */
/*
 * Stage "timeline": what one rank asks of the caching allocator, in order.
 *
 * The tape writes it, the replay reads it. Requests are numbered; an event is a request's
 * allocation, its free, or a mark (a phase begins). Bytes are as asked for, not rounded.
 */
#ifndef MPL_TIMELINE_TIMELINE_H
#define MPL_TIMELINE_TIMELINE_H

#include <stdbool.h>

#include "base/vec.h"
#include "table/dtype.h"

/** CUDA streams that requests are made on; the allocator keeps one pool for each. */
enum mpl_stream {
    MPL_STREAM_DEFAULT = 0,
    MPL_STREAM_ALL_GATHER_COPY_IN,
    MPL_STREAM_ALL_GATHER,
    MPL_STREAM_REDUCE_SCATTER,
    MPL_STREAM_ALL_REDUCE,
    MPL_STREAM_PRE_UNSHARD, /* FSDP1: casts of shards */
    MPL_STREAM_UNSHARD,     /* FSDP1: all-gathers */
    MPL_STREAM_POST_BACKWARD,
    MPL_STREAM_COUNT,
};

enum mpl_phase {
    MPL_PHASE_INIT = 0,
    MPL_PHASE_DATA, /* the batch is made */
    MPL_PHASE_FORWARD,
    MPL_PHASE_BACKWARD,
    MPL_PHASE_OPTIMIZER, /* clipping, step, zero_grad */
    MPL_PHASE_RESUME,    /* a checkpoint is loaded before the first step */
    MPL_PHASE_EVALUATION,
    MPL_PHASE_SAVE, /* state dicts are made, after the last step */
    MPL_PHASE_COUNT,
};

/** What a storage is for. */
enum mpl_category {
    MPL_CATEGORY_TEMPORARY = 0,
    MPL_CATEGORY_PARAMETERS,
    MPL_CATEGORY_BUFFERS,
    MPL_CATEGORY_GRADIENTS,
    MPL_CATEGORY_OPTIMIZER_STATE,
    MPL_CATEGORY_ACTIVATIONS, /* saved for backward */
    MPL_CATEGORY_INPUTS,
    MPL_CATEGORY_COMMUNICATION,
    MPL_CATEGORY_WORKSPACE, /* cuBLAS */
    MPL_CATEGORY_COUNT,
};

/** How a size grows with the sequence length. */
enum mpl_order { MPL_CONSTANT = 0, MPL_LINEAR, MPL_QUADRATIC, MPL_ORDER_COUNT };

#define MPL_MAX_DIMS 5

/** What the replay needs of a request: kept small, it is read many times. */
struct mpl_request {
    uint64_t bytes;
    uint8_t stream;   /* enum mpl_stream */
    uint8_t category; /* enum mpl_category; a temporary becomes an activation when it is saved */
    uint8_t order;    /* enum mpl_order */
    uint8_t phase;    /* enum mpl_phase in which it was made */
};

/** What a person wants to know of a request. */
struct mpl_request_info {
    const char *op; /* PyTorch operator that made it; static text */
    int64_t shape[MPL_MAX_DIMS];
    uint8_t ndim;
    uint8_t dtype; /* enum mpl_dtype */
};

enum mpl_event_kind { MPL_EVENT_ALLOC = 0, MPL_EVENT_FREE, MPL_EVENT_MARK };

/** kind in the top two bits, number of the request (or mark) below. */
typedef uint32_t mpl_event;
#define MPL_EVENT_MAX ((UINT32_C(1) << 30) - 1)

static inline enum mpl_event_kind mpl_event_kind(mpl_event e)
{
    return (enum mpl_event_kind)(e >> 30);
}

static inline uint32_t mpl_event_id(mpl_event e)
{
    return e & MPL_EVENT_MAX;
}

/** A phase begins. micro counts forwards inside a step. */
struct mpl_mark {
    uint16_t step, micro;
    uint8_t phase;
    bool empties_cache; /* torch.cuda.empty_cache(), and peaks count from here */
};

struct mpl_timeline {
    MPL_VEC(mpl_event) events;
    MPL_VEC(struct mpl_request) requests;
    MPL_VEC(struct mpl_request_info) infos; /* as many as requests, or none */
    MPL_VEC(struct mpl_mark) marks;
    uint32_t step_count;
};

/** Peaks of one phase-structured step, in bytes: what the traced cases hold in "steps". */
struct mpl_step_bytes {
    uint64_t forward_peak, after_forward;
    uint64_t backward_peak, after_backward;
    uint64_t optimizer_peak, after_step;
};

/** True for a moment that is no part of a step: its figures go into no step. */
static inline bool mpl_phase_is_apart(enum mpl_phase phase)
{
    return phase == MPL_PHASE_INIT || phase == MPL_PHASE_RESUME || phase == MPL_PHASE_EVALUATION ||
           phase == MPL_PHASE_SAVE;
}

/** Which of a step's figures a phase belongs to: its peak, its end. NULL for init and data. */
uint64_t *mpl_step_peak(struct mpl_step_bytes *step, enum mpl_phase phase);
uint64_t *mpl_step_after(struct mpl_step_bytes *step, enum mpl_phase phase);

const char *mpl_stream_name(enum mpl_stream stream);
const char *mpl_phase_name(enum mpl_phase phase);
const char *mpl_category_name(enum mpl_category category);
const char *mpl_order_name(enum mpl_order order);

/** Forgets all events and keeps the memory. */
void mpl_timeline_reset(struct mpl_timeline *timeline);

void mpl_timeline_free(struct mpl_timeline *timeline);

#endif
