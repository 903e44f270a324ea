/* SPDX-License-Identifier: MIT */
/* Stage "timeline": what one rank asks of the caching allocator, in order. */
#include "timeline/timeline.h"

static const char *const stream_names[MPL_STREAM_COUNT] = {
    [MPL_STREAM_DEFAULT] = "default",       [MPL_STREAM_ALL_GATHER_COPY_IN] = "all_gather_copy_in",
    [MPL_STREAM_ALL_GATHER] = "all_gather", [MPL_STREAM_REDUCE_SCATTER] = "reduce_scatter",
    [MPL_STREAM_ALL_REDUCE] = "all_reduce", [MPL_STREAM_PRE_UNSHARD] = "pre_unshard",
    [MPL_STREAM_UNSHARD] = "unshard",       [MPL_STREAM_POST_BACKWARD] = "post_backward",
};

static const char *const phase_names[MPL_PHASE_COUNT] = {
    [MPL_PHASE_INIT] = "init",
    [MPL_PHASE_DATA] = "data",
    [MPL_PHASE_FORWARD] = "forward",
    [MPL_PHASE_BACKWARD] = "backward",
    [MPL_PHASE_OPTIMIZER] = "optimizer",
    [MPL_PHASE_RESUME] = "resume",
    [MPL_PHASE_EVALUATION] = "evaluation",
    [MPL_PHASE_SAVE] = "save",
};

static const char *const category_names[MPL_CATEGORY_COUNT] = {
    [MPL_CATEGORY_TEMPORARY] = "temporaries",
    [MPL_CATEGORY_PARAMETERS] = "parameters",
    [MPL_CATEGORY_BUFFERS] = "buffers",
    [MPL_CATEGORY_GRADIENTS] = "gradients",
    [MPL_CATEGORY_OPTIMIZER_STATE] = "optimizer_state",
    [MPL_CATEGORY_ACTIVATIONS] = "activations",
    [MPL_CATEGORY_INPUTS] = "inputs",
    [MPL_CATEGORY_COMMUNICATION] = "communication",
    [MPL_CATEGORY_WORKSPACE] = "workspaces",
};

static const char *const order_names[MPL_ORDER_COUNT] = {
    [MPL_CONSTANT] = "constant",
    [MPL_LINEAR] = "linear",
    [MPL_QUADRATIC] = "quadratic",
};

const char *mpl_stream_name(enum mpl_stream stream)
{
    return stream_names[stream];
}

const char *mpl_phase_name(enum mpl_phase phase)
{
    return phase_names[phase];
}

const char *mpl_category_name(enum mpl_category category)
{
    return category_names[category];
}

const char *mpl_order_name(enum mpl_order order)
{
    return order_names[order];
}

uint64_t *mpl_step_peak(struct mpl_step_bytes *step, enum mpl_phase phase)
{
    switch (phase) {
    case MPL_PHASE_FORWARD:
        return &step->forward_peak;
    case MPL_PHASE_BACKWARD:
        return &step->backward_peak;
    case MPL_PHASE_OPTIMIZER:
        return &step->optimizer_peak;
    default:
        return NULL;
    }
}

uint64_t *mpl_step_after(struct mpl_step_bytes *step, enum mpl_phase phase)
{
    switch (phase) {
    case MPL_PHASE_FORWARD:
        return &step->after_forward;
    case MPL_PHASE_BACKWARD:
        return &step->after_backward;
    case MPL_PHASE_OPTIMIZER:
        return &step->after_step;
    default:
        return NULL;
    }
}

void mpl_timeline_reset(struct mpl_timeline *timeline)
{
    timeline->events.len = timeline->requests.len = 0;
    timeline->infos.len = timeline->marks.len = 0;
    timeline->step_count = 0;
}

void mpl_timeline_free(struct mpl_timeline *timeline)
{
    mpl_vec_free(&timeline->events);
    mpl_vec_free(&timeline->requests);
    mpl_vec_free(&timeline->infos);
    mpl_vec_free(&timeline->marks);
    timeline->step_count = 0;
}
