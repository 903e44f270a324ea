/* SPDX-License-Identifier: MIT */
/* Stage "estimate": the peaks of one run without alternatives, and what they are made of. */
#include "estimate/estimate.h"

#include <string.h>

#include "base/fail.h"

enum memplan_status mpl_estimator_init(struct mpl_estimator *estimator, struct memplan_error *err)
{
    *estimator = (struct mpl_estimator){.replay = mpl_replay_new()};
    if (estimator->replay)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
}

void mpl_estimator_free(struct mpl_estimator *estimator)
{
    mpl_replay_free(estimator->replay);
    mpl_trace_free(&estimator->trace);
    estimator->replay = NULL;
}

enum memplan_status mpl_estimate_trace(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                       bool has_infos, struct mpl_estimate *estimate,
                                       struct memplan_error *err)
{
    const struct mpl_trace_options options = {.has_kernels = true,
                                              .has_infos = has_infos,
                                              .ranks = estimator->ranks,
                                              .ranks_arena = estimator->ranks_arena};
    struct mpl_trace *trace = &estimator->trace;
    enum memplan_status status;

    mpl_replay_follow(estimator->replay, NULL, 0); /* what it followed is written anew */
    status = mpl_trace_run(plan, &options, trace, err);
    memset(estimate, 0, sizeof(*estimate));
    if (status)
        return status;
    estimate->parameters = trace->parameters;
    estimate->trainable_parameters = trace->trainable_parameters;
    estimate->parameter_bytes = trace->parameter_bytes;
    estimate->buffer_bytes = trace->buffer_bytes;
    estimate->optimizer_bytes = trace->optimizer_bytes;
    estimate->live_peak = trace->live_peak;
    mpl_replay_follow(estimator->replay, &trace->timeline, estimate->live_peak);
    return MEMPLAN_OK;
}

enum memplan_status mpl_estimator_set_conf(struct mpl_estimator *estimator,
                                           const struct mpl_plan *plan, struct memplan_error *err)
{
    const struct mpl_replay_settings settings = {
        .conf = plan->device.allocator_conf,
        .release = {plan->pytorch.major, plan->pytorch.minor},
        .total_bytes = plan->device.total_bytes > 0 ? (uint64_t)plan->device.total_bytes
                                                    : plan->device.table_total_bytes};

    return mpl_replay_set_conf(estimator->replay, &settings, err);
}

enum memplan_status mpl_estimate_peaks(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                       struct mpl_estimate *estimate, struct memplan_error *err)
{
    enum memplan_status status = mpl_estimator_set_conf(estimator, plan, err);

    if (status)
        return status;
    return mpl_replay_run(estimator->replay, &estimator->trace.timeline, MPL_NO_BUDGET,
                          &estimate->unlimited, err);
}

enum memplan_status mpl_estimate_needs(struct mpl_estimator *estimator,
                                       struct mpl_estimate *estimate, struct memplan_error *err)
{
    return mpl_replay_needs(estimator->replay, &estimator->trace.timeline, &estimate->unlimited,
                            estimate->live_peak, MPL_NEEDS_GRID_BYTES, &estimate->needs, err);
}

enum memplan_status mpl_estimate_run(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                     enum mpl_estimate_depth depth, struct mpl_estimate *estimate,
                                     struct memplan_error *err)
{
    const bool has_infos = depth >= MPL_ESTIMATE_ALL;
    enum memplan_status status = mpl_estimate_trace(estimator, plan, has_infos, estimate, err);

    return status ? status : mpl_estimate_rest(estimator, plan, depth, estimate, err);
}

enum memplan_status mpl_estimate_rest(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                      enum mpl_estimate_depth depth, struct mpl_estimate *estimate,
                                      struct memplan_error *err)
{
    enum memplan_status status;

    mpl_estimate_live(&estimator->trace.timeline, estimate);
    status = mpl_estimate_peaks(estimator, plan, estimate, err);
    if (!status && depth >= MPL_ESTIMATE_NEEDS)
        status = mpl_estimate_needs(estimator, estimate, err);
    if (!status && depth >= MPL_ESTIMATE_ALL)
        status = mpl_estimate_compose(&estimator->trace.timeline,
                                      estimate->unlimited.allocated_peak_event,
                                      &estimate->composition, err);
    if (!status && depth >= MPL_ESTIMATE_ALL)
        mpl_estimate_orders(&estimator->trace.timeline, estimate);
    return status;
}
