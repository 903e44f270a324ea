/* SPDX-License-Identifier: MIT */
/* Stage "readings": what every alternative predicts for what was measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "verdict/readings.h"

/* A run that failed though its chance was better than this one was not foreseen. */
#define UNEXPECTED 0.5

const struct mpl_observation *mpl_readings_ran_beside(const struct mpl_plan *plan,
                                                      const struct mpl_observation *failed)
{
    for (uint32_t i = 0; i < plan->observation_count; i++) {
        const struct mpl_observation *o = &plan->observations[i];

        if (o->outcome != MPL_OUTCOME_OOM && !o->has_set && !failed->has_set &&
            o->sequence_length >= failed->sequence_length)
            return o;
    }
    return NULL;
}

/* How much more than predicted a run that failed must have needed. */
static enum memplan_status wonder(const struct mpl_survival_case *judged,
                                  struct mpl_correction *correction, struct memplan_error *err)
{
    struct mpl_estimate estimate;
    enum memplan_status status =
        mpl_estimate_run(judged->estimator, judged->plan, MPL_ESTIMATE_NEEDS, &estimate, err);

    if (!status && estimate.needs.high_bytes)
        correction->surprise =
            fmax(correction->surprise,
                 log((double)judged->capacity->usable_bytes / (double)estimate.needs.high_bytes));
    return status;
}

static enum memplan_status predict_one(const struct mpl_spec *spec, struct memplan_report *report,
                                       struct mpl_alternative *alternative, uint32_t i,
                                       struct mpl_plan *plan, struct mpl_estimator *estimator,
                                       struct memplan_error *err)
{
    const struct mpl_observation *o = &report->plan.observations[i];
    struct mpl_prediction *p = &alternative->predictions[i];
    const struct mpl_capacity *c = &alternative->capacity;
    struct mpl_capacity own;
    struct mpl_estimate estimate;
    enum memplan_status status;

    p->survival = -1;
    status = mpl_spec_bind_reading(spec, alternative->combination, i, plan, err);
    if (!status && o->has_set) { /* maybe on another card, or with other groups */
        status = mpl_capacity_find(plan, &own, err);
        c = &own;
    }
    if (status)
        return status;
    mpl_capacity_complete_plan(c, plan);
    status = mpl_estimate_run(estimator, plan, MPL_ESTIMATE_PEAKS, &estimate, err);
    if (status)
        return status;
    p->allocated_bytes = estimate.unlimited.allocated_peak;
    p->reserved_bytes = estimate.unlimited.reserved_peak;
    p->device_bytes = mpl_add(p->reserved_bytes, mpl_capacity_taken(c));
    if (o->outcome != MPL_OUTCOME_NUMBER && c->state == MPL_CAPACITY_KNOWN) {
        const double error =
            mpl_accuracy_error(&report->accuracy, o->sequence_length, report->farthest_reading);
        const struct mpl_survival_case judged = {estimator, plan, &estimate, c, error, 1, 0, 0};
        struct mpl_survival survival;

        status = mpl_survival_judge(&judged, &survival, err);
        p->survival = survival.probability;
        if (!status && o->outcome == MPL_OUTCOME_OOM && p->survival > UNEXPECTED &&
            !mpl_readings_ran_beside(&report->plan, o))
            status = wonder(&judged, &alternative->correction, err);
    }
    return status;
}

static enum memplan_status make_room(struct memplan_report *report, struct memplan_error *err)
{
    for (size_t a = 0; a < report->alternative_count; a++) {
        struct mpl_alternative *alternative = &report->alternatives[a];

        alternative->predictions =
            mpl_arena_zalloc(&report->arena, ((size_t)report->plan.observation_count + 1) *
                                                 sizeof(*alternative->predictions));
        if (!alternative->predictions)
            return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading readings");
    }
    return MEMPLAN_OK;
}

/* ---- predictions that are kept ----------------------------------------------------------------
 */

void mpl_readings_memo_free(struct mpl_readings_memo *memo)
{
    free(memo->predictions);
    free(memo->surprise);
    *memo = (struct mpl_readings_memo){0};
}

static bool is_remembered(const struct mpl_readings_memo *memo, const struct memplan_report *report)
{
    return memo && memo->predictions && memo->alternatives == report->alternative_count &&
           memo->readings == report->plan.observation_count;
}

static void recall(const struct mpl_readings_memo *memo, struct memplan_report *report)
{
    for (size_t a = 0; a < memo->alternatives; a++) {
        memcpy(report->alternatives[a].predictions, &memo->predictions[a * memo->readings],
               memo->readings * sizeof(*memo->predictions));
        report->alternatives[a].correction.surprise = memo->surprise[a];
    }
}

/* Without memory for it nothing is kept: the next run predicts anew. */
static void remember(struct mpl_readings_memo *memo, const struct memplan_report *report)
{
    mpl_readings_memo_free(memo);
    memo->alternatives = report->alternative_count;
    memo->readings = report->plan.observation_count;
    memo->predictions = calloc(memo->alternatives * memo->readings, sizeof(*memo->predictions));
    memo->surprise = calloc(memo->alternatives, sizeof(*memo->surprise));
    if (!memo->predictions || !memo->surprise) {
        mpl_readings_memo_free(memo);
        return;
    }
    for (size_t a = 0; a < memo->alternatives; a++) {
        memcpy(&memo->predictions[a * memo->readings], report->alternatives[a].predictions,
               memo->readings * sizeof(*memo->predictions));
        memo->surprise[a] = report->alternatives[a].correction.surprise;
    }
}

enum memplan_status mpl_readings_predict(const struct mpl_spec *spec, struct memplan_report *report,
                                         struct mpl_estimator *estimator,
                                         struct mpl_readings_memo *memo, struct memplan_error *err)
{
    struct mpl_plan *plan = mpl_arena_alloc(&report->arena, sizeof(*plan));
    enum memplan_status status;

    if (!plan)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading readings");
    if ((status = make_room(report, err)))
        return status;
    if (is_remembered(memo, report)) {
        recall(memo, report);
        return MEMPLAN_OK;
    }
    for (size_t a = 0; a < report->alternative_count; a++)
        for (uint32_t i = 0; i < report->plan.observation_count; i++)
            if ((status =
                     predict_one(spec, report, &report->alternatives[a], i, plan, estimator, err)))
                return status;
    if (memo)
        remember(memo, report);
    return MEMPLAN_OK;
}
