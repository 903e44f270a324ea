/* SPDX-License-Identifier: MIT */
/* The report as JSON (docs/json.md). */
#include "emit/report_json.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "emit/report_out.h"
#include "verdict/interval.h"
#include "verdict/readings.h"

static uint64_t device_bytes(const struct mpl_alternative *a)
{
    return mpl_add(a->estimate.unlimited.reserved_peak, mpl_capacity_taken(&a->capacity));
}

/* The quantities that ranks, peak and alternatives share. */
static void put_quantities(struct out *out, json_t *object, const struct memplan_report *report,
                           const struct mpl_alternative *a)
{
    put(out, object, "live_bytes", bytes(a->estimate.live_peak));
    put(out, object, "allocated_bytes", bytes(a->estimate.unlimited.allocated_peak));
    put(out, object, "reserved_bytes", bytes(a->estimate.unlimited.reserved_peak));
    if (!report->has_peaks_only)
        put(out, object, "needs_bytes",
            json_pack("[o, o]", bytes(a->estimate.needs.low_bytes),
                      bytes(a->estimate.needs.high_bytes)));
    put(out, object, "device_bytes", bytes(device_bytes(a)));
}

/* ---- peak -------------------------------------------------------------------------------------
 */

static json_t *by_category(struct out *out, const struct mpl_composition *c)
{
    json_t *object = json_object();

    for (int i = 0; i < MPL_CATEGORY_COUNT; i++)
        if (c->by_category[i])
            put(out, object, mpl_category_name((enum mpl_category)i), bytes(c->by_category[i]));
    return object;
}

static json_t *by_order(struct out *out, const struct mpl_composition *c)
{
    json_t *object = json_object();

    for (int i = 0; i < MPL_ORDER_COUNT; i++)
        put(out, object, mpl_order_name((enum mpl_order)i), bytes(c->by_order[i]));
    return object;
}

static json_t *by_stream(struct out *out, const struct mpl_estimate *e)
{
    json_t *object = json_object();

    for (int i = 0; i < MPL_STREAM_COUNT; i++)
        if (e->stream_peak[i])
            put(out, object, mpl_stream_name((enum mpl_stream)i), bytes(e->stream_peak[i]));
    return object;
}

static json_t *largest(struct out *out, const struct mpl_composition *c)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < c->largest_count; i++) {
        const struct mpl_largest *l = &c->largest[i];
        json_t *item = json_object(), *shape = json_array();

        for (int k = 0; k < l->info.ndim; k++)
            push(out, shape, json_integer(l->info.shape[k]));
        put(out, item, "bytes", bytes(l->bytes));
        put(out, item, "count", json_integer(l->count));
        put(out, item, "op", text(l->op));
        put(out, item, "phase", text(mpl_phase_name(l->phase)));
        put(out, item, "shape", shape);
        put(out, item, "dtype", text(mpl_dtype_name((enum mpl_dtype)l->info.dtype)));
        put(out, item, "category", text(mpl_category_name(l->category)));
        push(out, array, item);
    }
    return array;
}

static json_t *interval(struct out *out, const struct memplan_report *report)
{
    const struct mpl_interval i = mpl_interval_of(report, MPL_FIGURE_NEEDS);
    json_t *object = json_object();

    put(out, object, "coverage", json_real(MPL_INTERVAL_COVERAGE));
    put(out, object, "low_bytes", bytes(i.low_bytes));
    put(out, object, "high_bytes", bytes(i.high_bytes));
    return object;
}

/* One for each figure that can be measured, and needs, with what stands behind its width. */
static json_t *intervals(struct out *out, const struct memplan_report *report)
{
    json_t *object = json_object();

    put(out, object, "coverage", json_real(MPL_INTERVAL_COVERAGE));
    put(out, object, "kind", text(mpl_openness_name(report->openness)));
    for (enum mpl_figure f = MPL_FIGURE_ALLOCATED; f < MPL_FIGURE_COUNT; f++) {
        const struct mpl_interval i = mpl_interval_of(report, f);
        json_t *one = json_object();

        put(out, one, "low_bytes", bytes(i.low_bytes));
        put(out, one, "high_bytes", bytes(i.high_bytes));
        put(out, one, "deviation", json_real(i.deviation));
        put(out, one, "measured", json_real(i.spread->deviation));
        put(out, one, "points", json_integer(i.spread->points));
        put(out, one, "source", text(i.spread->source));
        put(out, object, mpl_figure_name(f), one);
    }
    return object;
}

/* What a calibration does to the figures: they stay what was traced, this is what is expected. */
static json_t *calibration(struct out *out, const struct memplan_report *report)
{
    const struct mpl_alternative *a = &report->alternatives[report->best];
    const double tokens = (double)report->plan.training.sequence_length;
    const bool is_inside = !a->correction.is_outside && tokens >= a->correction.low_tokens &&
                           tokens <= a->correction.high_tokens;
    json_t *object = json_object();

    put(out, object, "inside", json_boolean(is_inside));
    put(out, object, "readings_from", json_real(a->correction.low_tokens));
    put(out, object, "readings_to", json_real(a->correction.high_tokens));
    for (enum mpl_figure f = MPL_FIGURE_ALLOCATED; f < MPL_FIGURE_COUNT; f++) {
        double deviation;
        const double shift = mpl_interval_shift(report, a, f, &deviation);

        put(out, object, mpl_figure_name(f),
            json_pack("{s:f, s:f}", "shift", expm1(shift), "deviation", deviation));
    }
    return object;
}

static json_t *peak(struct out *out, const struct memplan_report *report)
{
    const struct mpl_alternative *a = &report->alternatives[report->best];
    const struct mpl_composition *c = &a->estimate.composition;
    json_t *object = json_object();

    put_quantities(out, object, report, a);
    if (report->survival >= 0)
        put(out, object, "survival_probability", json_real(report->survival));
    if (!report->has_peaks_only) {
        put(out, object, "interval", interval(out, report));
        put(out, object, "intervals", intervals(out, report));
    }
    if (report->is_calibrated)
        put(out, object, "calibration", calibration(out, report));
    put(out, object, "error", json_real(a->error));
    if (report->has_peaks_only)
        return object;
    put(out, object, "phase", text(mpl_phase_name(c->phase)));
    put(out, object, "step", json_integer(c->step));
    put(out, object, "moments", mpl_out_moments(out, &a->estimate));
    put(out, object, "by_category", by_category(out, c));
    put(out, object, "by_order", by_order(out, c));
    put(out, object, "by_stream", by_stream(out, &a->estimate));
    put(out, object, "largest", largest(out, c));
    return object;
}

/* ---- steps ------------------------------------------------------------------------------------
 */

static json_t *step_object(struct out *out, const struct mpl_step_bytes *s)
{
    json_t *object = json_object();

    put(out, object, "forward_peak", bytes(s->forward_peak));
    put(out, object, "after_forward", bytes(s->after_forward));
    put(out, object, "backward_peak", bytes(s->backward_peak));
    put(out, object, "after_backward", bytes(s->after_backward));
    put(out, object, "optimizer_peak", bytes(s->optimizer_peak));
    put(out, object, "after_step", bytes(s->after_step));
    return object;
}

static json_t *live_steps(struct out *out, const struct mpl_estimate *e)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < e->step_count; i++)
        push(out, array, step_object(out, &e->live_steps[i]));
    return array;
}

static json_t *steps(struct out *out, const struct mpl_estimate *e)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < e->unlimited.step_count && i < MPL_REPLAY_MAX_STEPS; i++) {
        const struct mpl_replay_step *s = &e->unlimited.steps[i];
        json_t *object = step_object(out, &s->allocated);

        put(out, object, "reserved", bytes(s->reserved));
        put(out, object, "retries", json_integer(s->retries));
        push(out, array, object);
    }
    return array;
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

static uint32_t rank_count(const struct mpl_plan *plan)
{
    return plan->parallelism.strategy == MPL_STRATEGY_NONE ? 1
                                                           : (uint32_t)plan->parallelism.world_size;
}

/* A class of ranks that was computed for the comparison alone. */
static void put_figures(struct out *out, json_t *object, const struct mpl_rank_figures *f)
{
    put(out, object, "live_bytes", bytes(f->live_bytes));
    put(out, object, "allocated_bytes", bytes(f->allocated_bytes));
    put(out, object, "reserved_bytes", bytes(f->reserved_bytes));
    put(out, object, "needs_bytes",
        json_pack("[o, o]", bytes(f->needs.low_bytes), bytes(f->needs.high_bytes)));
}

static json_t *ranks(struct out *out, const struct memplan_report *report)
{
    const struct mpl_alternative *a = &report->alternatives[report->best];
    json_t *array = json_array();

    for (uint32_t i = 0; i < (a->ranks.count ? a->ranks.count : 1); i++) {
        const struct mpl_rank_class *class = a->ranks.count ? &a->ranks.of[i] : NULL;
        json_t *object = json_object();

        put(out, object, "rank", json_integer(class ? class->first : a->rank));
        put(out, object, "equal_ranks", json_integer(class ? class->count : 1));
        if (class)
            put(out, object, "ranks", text(class->ranks));
        if (i == 0)
            put_quantities(out, object, report, a);
        else if (a->figures[i].is_known)
            put_figures(out, object, &a->figures[i]);
        push(out, array, object);
    }
    return array;
}

/* The way to read the numbers that is most likely; NULL without numbers. */
static const struct mpl_hypothesis *likely_hypothesis(const struct memplan_report *report)
{
    const struct mpl_hypothesis *likely = NULL;

    for (uint32_t i = 0; i < report->hypothesis_count; i++)
        if (!likely || report->hypotheses[i].weight > likely->weight)
            likely = &report->hypotheses[i];
    return likely;
}

static enum mpl_metric metric_of(const struct mpl_observation *o, const struct mpl_hypothesis *h)
{
    if (h)
        return h->metric;
    return o->metric == MPL_METRIC_UNKNOWN ? MPL_METRIC_ALLOCATED : o->metric;
}

static enum mpl_unit unit_of(const struct mpl_observation *o, const struct mpl_hypothesis *h)
{
    if (h)
        return h->unit;
    return o->unit == MPL_UNIT_UNKNOWN ? MPL_UNIT_GB : o->unit;
}

static json_t *readings(struct out *out, const struct memplan_report *report)
{
    const struct mpl_hypothesis *h = likely_hypothesis(report);
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->plan.observation_count; i++) {
        const struct mpl_observation *o = &report->plan.observations[i];
        json_t *object = json_object();

        put(out, object, "sequence_length", json_integer(o->sequence_length));
        if (o->outcome == MPL_OUTCOME_NUMBER) {
            put(out, object, "value", json_real(o->value));
            put(out, object, "unit", text(mpl_unit_name(unit_of(o, h))));
            put(out, object, "metric", text(mpl_metric_name(metric_of(o, h))));
            put(out, object, "bytes", bytes((uint64_t)mpl_reading_bytes(o->value, unit_of(o, h))));
        } else {
            put(out, object, "outcome", text(o->outcome == MPL_OUTCOME_RAN ? "ran" : "oom"));
        }
        if (o->source[0])
            put(out, object, "source", text(o->source));
        push(out, array, object);
    }
    return array;
}

static json_t *predictions(struct out *out, const struct memplan_report *report,
                           const struct mpl_alternative *a)
{
    const struct mpl_hypothesis *h = likely_hypothesis(report);
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->plan.observation_count; i++) {
        const struct mpl_observation *o = &report->plan.observations[i];
        json_t *object = json_object();

        if (o->outcome == MPL_OUTCOME_NUMBER) {
            const uint64_t value = mpl_prediction_bytes(&a->predictions[i], metric_of(o, h));

            put(out, object, "predicted_bytes", bytes(value));
            put(out, object, "difference",
                json_real((double)value / mpl_reading_bytes(o->value, unit_of(o, h)) - 1));
        } else if (a->predictions[i].survival >= 0) {
            put(out, object, "survival_probability", json_real(a->predictions[i].survival));
        }
        push(out, array, object);
    }
    return array;
}

static json_t *alternative(struct out *out, const struct memplan_report *report, size_t i)
{
    const struct mpl_alternative *a = &report->alternatives[i];
    json_t *object = json_object(), *figures = json_object();

    put(out, object, "set", json_loads(a->set_json, 0, NULL));
    put(out, object, "text", text(a->text));
    put(out, object, "weight", json_real(a->weight));
    if (a->is_excluded)
        put(out, object, "excluded_by", text(a->excluded_by));
    put_quantities(out, figures, report, a);
    if (a->survival >= 0)
        put(out, figures, "survival_probability", json_real(a->survival));
    put(out, object, "peak", figures);
    if (report->uses_readings)
        put(out, object, "readings", predictions(out, report, a));
    return object;
}

static json_t *alternatives(struct out *out, const struct memplan_report *report)
{
    json_t *array = json_array();

    for (size_t i = 0; i < report->alternative_count; i++)
        push(out, array, alternative(out, report, i));
    return array;
}

static json_t *hypotheses(struct out *out, const struct memplan_report *report)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->hypothesis_count; i++) {
        const struct mpl_hypothesis *h = &report->hypotheses[i];
        json_t *object = json_object();

        put(out, object, "metric", text(mpl_metric_name(h->metric)));
        put(out, object, "unit", text(mpl_unit_name(h->unit)));
        put(out, object, "weight", json_real(h->weight));
        put(out, object, "nearest_difference", json_real(h->nearest));
        if (h->is_excluded)
            put(out, object, "excluded_by",
                json_sprintf("the nearest alternative is %.1f %% %s",
                             (h->nearest < 0 ? -h->nearest : h->nearest) * 100,
                             h->nearest < 0 ? "below" : "above"));
        push(out, array, object);
    }
    return array;
}

static json_t *notes(struct out *out, const struct memplan_report *report)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->note_count; i++) {
        const struct mpl_note_row *row = mpl_note_row(report->notes[i].code);
        json_t *object = json_object();

        put(out, object, "code", text(row->code));
        put(out, object, "title", text(row->title));
        put(out, object, "path", text(report->notes[i].path));
        put(out, object, "text", text(report->notes[i].text));
        push(out, array, object);
    }
    return array;
}

static json_t *suggestions(struct out *out, const struct mpl_suggestion *s)
{
    json_t *object = json_object(), *set = json_object();

    put(out, set, "training.sequence_length", json_integer(s->sequence_length));
    put(out, object, "set", set);
    put(out, object, "needs_bytes", bytes(s->needs_bytes));
    put(out, object, "survival_probability", json_real(s->survival));
    if (s->fails_at)
        put(out, object, "fails", json_integer(s->fails_at));
    return json_pack("[o]", object);
}

static json_t *field(struct out *out, const struct mpl_plan *plan)
{
    const struct mpl_length_list *lengths = &plan->training.sequence_lengths;
    json_t *object = json_object();

    put(out, object, "model_type", text(plan->model.model_type));
    put(out, object, "sequence_length", json_integer(plan->training.sequence_length));
    if (lengths->count) {
        json_t *list = json_array();

        for (uint32_t i = 0; i < lengths->count; i++)
            json_array_append_new(list, json_integer(lengths->of[i]));
        put(out, object, "sequence_lengths", list);
    }
    put(out, object, "micro_batch_size", json_integer(plan->training.micro_batch_size));
    put(out, object, "world_size", json_integer(rank_count(plan)));
    if (plan->device.gpu[0])
        put(out, object, "gpu", text(plan->device.gpu));
    return object;
}

static void put_verdict(struct out *out, json_t *root, const struct memplan_report *report)
{
    put(out, root, "schema", json_integer(1));
    if (report->plan.name[0])
        put(out, root, "name", text(report->plan.name));
    if (report->id[0])
        put(out, root, "id", text(report->id));
    put(out, root, "verdict", text(memplan_verdict_name(report->verdict)));
    put(out, root, "code", json_integer(report->verdict));
    put(out, root, "reason", text(report->reason));
    put(out, root, "risk", json_real(report->risk));
    put(out, root, "field", field(out, &report->plan));
}

static void put_model(struct out *out, json_t *root, const struct mpl_estimate *e)
{
    put(out, root, "live_steps", live_steps(out, e));
    put(out, root, "steps", steps(out, e));
    put(out, root, "parameters", bytes(e->parameters));
    put(out, root, "trainable_parameters", bytes(e->trainable_parameters));
    put(out, root, "parameter_bytes", bytes(e->parameter_bytes));
    put(out, root, "optimizer_bytes", bytes(e->optimizer_bytes));
}

enum memplan_status mpl_report_to_json(const struct memplan_report *report, char **json_out,
                                       struct memplan_error *err)
{
    const struct mpl_alternative *best = &report->alternatives[report->best];
    struct out out = {false};
    json_t *root = json_object();
    char *json = NULL;

    put_verdict(&out, root, report);
    put(&out, root, "ranks", ranks(&out, report));
    if (report->has_all_ranks)
        put(&out, root, "all_ranks", json_true());
    put(&out, root, "peak", peak(&out, report));
    put_model(&out, root, &best->estimate);
    if (best->capacity.state == MPL_CAPACITY_KNOWN)
        put(&out, root, "capacity", mpl_out_capacity(&out, &best->capacity, &report->plan));
    put(&out, root, "host", mpl_out_host(&out, report));
    if (report->alternative_count > 1 || report->uses_readings)
        put(&out, root, "alternatives", alternatives(&out, report));
    if (report->uses_readings) {
        put(&out, root, "readings", readings(&out, report));
        put(&out, root, "reading_hypotheses", hypotheses(&out, report));
    }
    put(&out, root, "notes", notes(&out, report));
    if (report->suggestion.is_found)
        put(&out, root, "suggestions", suggestions(&out, &report->suggestion));
    if (!out.has_failed)
        json = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!json)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while writing the report");
    *json_out = json;
    return MEMPLAN_OK;
}
