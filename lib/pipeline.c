/* SPDX-License-Identifier: MIT */
/* From a spec to a verdict: the stages in their order. */
#include "pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/strbuf.h"
#include "emit/dump.h"
#include "verdict/interval.h"
#include "verdict/notes.h"
#include "verdict/ranks.h"
#include "verdict/readings.h"
#include "verdict/verdict.h"

#define DEFAULT_RISK 0.01
#define UNBOUND      SIZE_MAX

struct pipeline {
    const struct mpl_spec *spec;
    const struct memplan_options *options;
    const struct mpl_calibration *calibration;
    struct mpl_readings_memo *memo;
    struct memplan_report *report;
    struct mpl_estimator estimator;
    struct mpl_plan *plan; /* of the combination at hand... */
    size_t bound;          /* ...which is this one */
    struct memplan_error *err;
};

/* The farthest length at which something was read. */
static int64_t farthest_reading(const struct mpl_plan *plan)
{
    int64_t farthest = 0;

    for (uint32_t i = 0; i < plan->observation_count; i++)
        if (plan->observations[i].sequence_length > farthest)
            farthest = plan->observations[i].sequence_length;
    return farthest;
}

static bool has_readings_elsewhere(const struct mpl_plan *plan)
{
    for (uint32_t i = 0; i < plan->observation_count; i++)
        if (plan->observations[i].has_set)
            return true;
    return false;
}

static enum memplan_status bind(struct pipeline *p, size_t combination)
{
    enum memplan_status status = MEMPLAN_OK;

    if (combination != p->bound)
        status = mpl_spec_bind(p->spec, combination, p->plan, NULL, p->err);
    p->bound = status ? UNBOUND : combination;
    return status;
}

/* {"path": choice, ...} of a combination, and the same in words. */
static enum memplan_status describe(struct pipeline *p, struct mpl_alternative *a)
{
    struct mpl_strbuf out = {0};
    char *json;

    mpl_spec_describe(p->spec, a->combination, a->text, sizeof(a->text));
    mpl_strbuf_put(&out, "{");
    for (size_t axis = 0; axis < mpl_spec_axis_count(p->spec); axis++) {
        char *choice =
            mpl_spec_choice_json(p->spec, axis, mpl_spec_choice(p->spec, a->combination, axis));

        if (!choice)
            out.has_failed = true;
        mpl_strbuf_printf(&out, "%s\"%s\": %s", axis ? ", " : "", mpl_spec_axis_path(p->spec, axis),
                          choice ? choice : "");
        free(choice);
    }
    mpl_strbuf_put(&out, "}");
    json = mpl_strbuf_steal(&out);
    a->set_json = json ? mpl_arena_strdup(&p->report->arena, json) : NULL;
    free(json);
    if (!a->set_json)
        return mpl_fail(p->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory for the alternatives");
    return MEMPLAN_OK;
}

static enum memplan_status judge(struct pipeline *p, struct mpl_alternative *a)
{
    struct mpl_capacity capacity = a->capacity;
    struct mpl_survival_case judged = {
        &p->estimator, p->plan, &a->estimate, &capacity, a->error, 1, 0, 0};
    struct mpl_survival survival;
    enum memplan_status status;

    mpl_correction_judge(&a->correction, &p->report->accuracy,
                         (double)p->plan->training.sequence_length,
                         (double)a->estimate.unlimited.allocated_peak, &capacity, &judged.error);
    a->error = judged.error;
    if (p->report->has_bounds)
        judged.risk = judged.enough = p->report->risk;
    status = mpl_survival_judge(&judged, &survival, p->err);
    a->survival = survival.probability;
    a->survival_at_least = survival.at_least;
    return status;
}

/* The calibration's part for one alternative; NULL: it excludes it. */
static const struct mpl_calibration_alternative *calibrated(const struct pipeline *p,
                                                            const struct mpl_alternative *a)
{
    const struct mpl_calibration *c = p->report->calibration;

    for (uint32_t i = 0; i < c->alternative_count; i++)
        if (!strcmp(c->alternatives[i].set, a->text))
            return &c->alternatives[i];
    return NULL;
}

static void correct(struct pipeline *p, struct mpl_alternative *a)
{
    const struct mpl_calibration *c = p->report->calibration;
    const struct mpl_calibration_alternative *own = c ? calibrated(p, a) : NULL;
    const double tokens = (double)p->plan->training.sequence_length;

    if (!own)
        return;
    mpl_correction_sum(c, own, &a->estimate, tokens,
                       tokens * (double)p->plan->training.micro_batch_size, &a->correction);
    for (uint32_t i = 0; i < c->field_count; i++)
        if (!strcmp(c->fields[i].path, MPL_CALIBRATION_LENGTH)) {
            a->correction.low_tokens = c->fields[i].low;
            a->correction.high_tokens = c->fields[i].high;
        }
    a->correction.is_outside = mpl_calibration_is_outside(p->spec, c);
}

/* Spec to estimate, for one alternative. */
static enum memplan_status estimate(struct pipeline *p, struct mpl_alternative *a)
{
    enum memplan_status status;

    if ((status = describe(p, a)) || (status = bind(p, a->combination)) ||
        (status = mpl_capacity_find(p->plan, &a->capacity, p->err)))
        return status;
    mpl_capacity_complete_plan(&a->capacity, p->plan);
    if ((status = mpl_ranks_estimate(&p->estimator, p->plan, p->report, a, p->err)))
        return status;
    correct(p, a);
    a->error = mpl_accuracy_error(&p->report->accuracy, p->plan->training.sequence_length,
                                  p->report->farthest_reading);
    a->survival = a->survival_at_least = -1;
    return a->capacity.state == MPL_CAPACITY_KNOWN ? judge(p, a) : MEMPLAN_OK;
}

static enum memplan_status estimate_all(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    enum memplan_status status;

    report->alternative_count = mpl_spec_combination_count(p->spec);
    report->alternatives =
        mpl_arena_zalloc(&report->arena, report->alternative_count * sizeof(*report->alternatives));
    if (!report->alternatives)
        return mpl_fail(p->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory for the alternatives");
    for (size_t i = 0; i < report->alternative_count; i++) {
        report->alternatives[i].combination = i;
        report->alternatives[i].weight = 1.0 / (double)report->alternative_count;
        if ((status = estimate(p, &report->alternatives[i])))
            return status;
    }
    return MEMPLAN_OK;
}

/* A calibration has weighed the alternatives by its readings, which hold the plan's own. */
static enum memplan_status weigh_by_calibration(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    double total = 0;

    for (size_t i = 0; i < report->alternative_count; i++) {
        struct mpl_alternative *a = &report->alternatives[i];
        const struct mpl_calibration_alternative *own = calibrated(p, a);

        a->weight = own ? own->weight : 0;
        a->is_excluded = !(a->weight > 0);
        if (a->is_excluded && !a->excluded_by[0])
            snprintf(a->excluded_by, sizeof(a->excluded_by), "the readings of the calibration");
        else if (!a->is_excluded)
            a->excluded_by[0] = '\0';
        total += a->weight;
    }
    for (size_t i = 0; i < report->alternative_count && total > 0; i++)
        report->alternatives[i].weight /= total;
    return total > 0 ? MEMPLAN_OK
                     : mpl_fail(p->err, MEMPLAN_ERR_VALUE, NULL,
                                "the calibration knows none of the plan's alternatives");
}

/* The readings' weights; without readings all alternatives weigh the same. */
static enum memplan_status weigh(struct pipeline *p)
{
    enum memplan_status status = MEMPLAN_OK;

    if (p->report->calibration && !p->report->uses_readings)
        return weigh_by_calibration(p);
    if (!p->report->uses_readings)
        return MEMPLAN_OK;
    if ((status = mpl_readings_predict(p->spec, p->report, &p->estimator, p->memo, p->err)))
        return status;
    status = mpl_readings_weigh(p->report, p->err);
    return status || !p->report->calibration ? status : weigh_by_calibration(p);
}

/* A failure that was not foreseen says that needs are higher: judged again are the alternatives of
 * which it says so. */
static enum memplan_status judge_again(struct pipeline *p)
{
    enum memplan_status status = MEMPLAN_OK;

    for (size_t i = 0; i < p->report->alternative_count && !status; i++) {
        struct mpl_alternative *a = &p->report->alternatives[i];

        if (a->is_excluded || a->correction.is_known || !(a->correction.surprise > 0) ||
            a->capacity.state != MPL_CAPACITY_KNOWN)
            continue;
        if (!(status = bind(p, a->combination))) {
            mpl_capacity_complete_plan(&a->capacity, p->plan);
            status = mpl_ranks_estimate(&p->estimator, p->plan, p->report, a, p->err);
        }
        if (!status)
            status = judge(p, a);
    }
    return status;
}

/* Survival over what is left, and which alternative the figures at the top are of. */
static void sum_up(struct memplan_report *report)
{
    report->survival = 0;
    for (size_t i = 0; i < report->alternative_count; i++) {
        const struct mpl_alternative *a = &report->alternatives[i];

        if (a->is_excluded)
            continue;
        report->kept_count++;
        if (report->alternatives[report->best].is_excluded ||
            a->weight > report->alternatives[report->best].weight)
            report->best = i;
        report->survival += a->weight * a->survival;
    }
    if (report->alternatives[report->best].capacity.state != MPL_CAPACITY_KNOWN)
        report->survival = -1;
}

static enum memplan_status dump(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    const uint32_t stages = p->options ? p->options->dump_stages : 0;
    const size_t best = report->alternatives[report->best].combination;
    enum memplan_status status = MEMPLAN_OK;

    if (stages & MEMPLAN_STAGE_SPEC)
        status = mpl_spec_to_full_json(p->spec, best, &report->spec_json, p->err);
    if (!status && stages & (MEMPLAN_STAGE_TIMELINE | MEMPLAN_STAGE_REPLAY))
        status = mpl_dump_run(&p->estimator, &report->plan, stages, &report->timeline_text,
                              &report->replay_text, p->err);
    return status;
}

/* The first combination into the report: plan, and how open it is. */
static enum memplan_status read_plan(struct pipeline *p)
{
    struct mpl_notes *notes = mpl_arena_alloc(&p->report->arena, sizeof(*notes));
    enum memplan_status status =
        notes ? mpl_spec_bind(p->spec, 0, p->plan, notes, p->err)
              : mpl_fail(p->err, MEMPLAN_ERR_NOMEM, NULL, "out of memory for the notes");

    if (status)
        return status;
    p->bound = 0;
    p->report->plan = *p->plan;
    p->report->openness = mpl_interval_openness(p->plan, notes);
    p->report->accuracy = mpl_accuracy_judging(p->plan, p->report->openness);
    return MEMPLAN_OK;
}

static enum memplan_status start(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    const char *id = mpl_spec_id(p->spec);
    enum memplan_status status;

    report->risk = p->options && p->options->risk > 0 ? p->options->risk : DEFAULT_RISK;
    report->has_all_ranks = p->options && p->options->all_ranks;
    report->has_peaks_only = p->options && (p->options->peaks_only || p->options->verdict_only);
    report->calibration = p->calibration;
    report->is_calibrated = p->calibration != NULL;
    if (id)
        snprintf(report->id, sizeof(report->id), "%s", id);
    if (p->calibration && (status = mpl_calibration_match(p->spec, p->calibration, p->err)))
        return status;
    if ((status = read_plan(p)))
        return status;
    report->uses_readings =
        report->plan.observation_count > 0 && !(p->options && p->options->ignore_readings);
    if (report->uses_readings)
        report->farthest_reading = farthest_reading(&report->plan);
    /* A calibration weighs by its own readings, and one that was made elsewhere, on another card
     * or with other groups, may be of what cannot be modelled: these are never left out. */
    report->has_bounds = p->options && p->options->verdict_only && !p->calibration &&
                         !(report->uses_readings && has_readings_elsewhere(&report->plan));
    return MEMPLAN_OK;
}

static enum memplan_status finish(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    enum memplan_status status;

    sum_up(report);
    if ((status = bind(p, report->alternatives[report->best].combination)))
        return status;
    mpl_capacity_complete_plan(&report->alternatives[report->best].capacity, p->plan);
    p->plan->parallelism.rank = report->alternatives[report->best].rank;
    report->plan = *p->plan;
    mpl_verdict_decide(report);
    if (report->survival >= 0 && !report->has_peaks_only &&
        !(p->options && p->options->no_suggestions) &&
        !report->plan.training.sequence_lengths.count && /* no one length to search for */
        (status = mpl_verdict_suggest(p->spec, report, &p->estimator, p->err)))
        return status;
    if ((status = mpl_notes_collect(p->spec, report, p->err)))
        return status;
    return dump(p);
}

/* A run that failed may make needs higher than they were computed. */
static bool has_failures(const struct memplan_report *report)
{
    for (uint32_t o = 0; report->uses_readings && o < report->plan.observation_count; o++)
        if (report->plan.observations[o].outcome == MPL_OUTCOME_OOM)
            return true;
    return false;
}

/* Whether all alternatives have one verdict whatever their weights are; then readings, which tell
 * the alternatives apart, have nothing to tell. */
static bool is_settled(struct memplan_report *report)
{
    double low = 1, high = 0;

    for (size_t i = 0; i < report->alternative_count; i++) {
        if (report->alternatives[i].survival < 0)
            return false;
        low = fmin(low, report->alternatives[i].survival_at_least);
        high = fmax(high, report->alternatives[i].survival);
    }
    if (mpl_verdict_of(low, report->risk) == MEMPLAN_FITS && !has_failures(report))
        for (size_t i = 0; i < report->alternative_count; i++)
            report->alternatives[i].survival = report->alternatives[i].survival_at_least;
    else if (mpl_verdict_of(high, report->risk) != MEMPLAN_DOES_NOT_FIT)
        return false;
    return true;
}

/* Readings must be sound even where nothing is asked of them. */
static enum memplan_status check_readings(struct pipeline *p)
{
    enum memplan_status status = MEMPLAN_OK;

    p->bound = UNBOUND;
    for (size_t i = 0; i < p->report->alternative_count; i++)
        for (uint32_t o = 0; o < p->report->plan.observation_count && !status; o++)
            status = mpl_spec_bind_reading(p->spec, p->report->alternatives[i].combination, o,
                                           p->plan, p->err);
    return status;
}

/* The estimates as they must be where bounds did not settle the verdict. */
static enum memplan_status estimate_again(struct pipeline *p)
{
    p->report->has_bounds = false;
    return estimate_all(p);
}

static enum memplan_status run_stages(struct pipeline *p)
{
    struct memplan_report *report = p->report;
    enum memplan_status status;

    if ((status = start(p)) || (status = estimate_all(p)))
        return status;
    if (report->has_bounds && is_settled(report)) {
        if (report->uses_readings && (status = check_readings(p)))
            return status;
        report->uses_readings = false;
        return finish(p);
    }
    if (report->has_bounds && (status = estimate_again(p)))
        return status;
    if ((status = weigh(p)) || (status = judge_again(p)))
        return status;
    return finish(p);
}

enum memplan_status mpl_pipeline_run(const struct mpl_spec *spec,
                                     const struct memplan_options *options,
                                     const struct mpl_calibration *calibration,
                                     struct mpl_readings_memo *memo,
                                     struct memplan_report **report_out, struct memplan_error *err)
{
    struct pipeline p = {.spec = spec,
                         .options = options,
                         .calibration = calibration,
                         .memo = memo,
                         .bound = UNBOUND,
                         .err = err};
    enum memplan_status status;

    p.report = calloc(1, sizeof(*p.report));
    p.plan = malloc(sizeof(*p.plan));
    if (!p.report || !p.plan || mpl_estimator_init(&p.estimator, err))
        status = mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    else
        status = run_stages(&p);
    free(p.plan);
    mpl_estimator_free(&p.estimator);
    if (p.report)
        p.report->calibration = NULL;
    if (status)
        memplan_report_free(p.report);
    else
        *report_out = p.report;
    return status;
}
