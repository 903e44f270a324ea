/* SPDX-License-Identifier: MIT */
/* The public entry points: check arguments, call the stages, wrap results. */
#include <memplan.h>

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "api_struct.h"
#include "base/fail.h"
#include "emit/report_json.h"
#include "pipeline.h"

/* ---- plans ------------------------------------------------------------------------------------
 */

enum memplan_status memplan_plan_load(const void *json, size_t len, const char *source,
                                      struct memplan_plan **plan_out, struct memplan_error *err)
{
    struct memplan_plan *plan;
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!json || !plan_out)
        return mpl_api_missing(err, json ? "plan_out" : "json");
    plan = calloc(1, sizeof(*plan));
    if (!plan)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while reading a plan");
    status = mpl_spec_load(json, len, source ? source : "", &plan->spec, err);
    if (status)
        free(plan);
    else
        *plan_out = plan;
    return status;
}

enum memplan_status memplan_plan_set(struct memplan_plan *plan, const char *assignment,
                                     struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!plan || !assignment)
        return mpl_api_missing(err, plan ? "assignment" : "plan");
    return mpl_spec_set(plan->spec, assignment, err);
}

enum memplan_status memplan_plan_check(const struct memplan_plan *plan, struct memplan_error *err)
{
    mpl_fail_clear(err);
    return plan ? mpl_spec_check(plan->spec, err) : mpl_api_missing(err, "plan");
}

enum memplan_status memplan_plan_to_json(const struct memplan_plan *plan, char **json_out,
                                         struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!plan || !json_out)
        return mpl_api_missing(err, plan ? "json_out" : "plan");
    return mpl_spec_to_json(plan->spec, json_out, err);
}

void memplan_plan_free(struct memplan_plan *plan)
{
    if (!plan)
        return;
    mpl_spec_free(plan->spec);
    free(plan);
}

int memplan_plan_field(size_t i, struct memplan_field *field_out)
{
    return field_out && mpl_spec_field(i, field_out);
}

enum memplan_status memplan_field_find(const char *name, struct memplan_field *field_out,
                                       struct memplan_error *err)
{
    enum memplan_status status;
    size_t index = 0;

    mpl_fail_clear(err);
    if (!name || !field_out)
        return mpl_api_missing(err, name ? "field_out" : "name");
    status = mpl_spec_find_field(name, &index, err);
    if (!status)
        mpl_spec_field(index, field_out);
    return status;
}

enum memplan_status memplan_plan_pin_readings(struct memplan_plan *plan, const char *field,
                                              struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!plan || !field)
        return mpl_api_missing(err, plan ? "field" : "plan");
    return mpl_spec_pin_readings(plan->spec, field, err);
}

int memplan_list_entry(enum memplan_list list, size_t i, struct memplan_entry *entry_out)
{
    return entry_out && mpl_spec_entry(list, i, entry_out);
}

enum memplan_status memplan_plan_schema(char **json_out, struct memplan_error *err)
{
    mpl_fail_clear(err);
    return json_out ? mpl_spec_schema(json_out, err) : mpl_api_missing(err, "json_out");
}

/* ---- estimates --------------------------------------------------------------------------------
 */

static enum memplan_status take_options(const struct memplan_options *given,
                                        struct memplan_options *own, struct memplan_error *err)
{
    enum memplan_status status = mpl_api_take(own, sizeof(*own), given, err);

    if (status)
        return status;
    if (!(own->risk >= 0 && own->risk < 0.5))
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "risk must be at least 0 and below 0.5");
    return MEMPLAN_OK;
}

enum memplan_status mpl_api_estimate(const struct memplan_plan *plan,
                                     const struct memplan_options *options,
                                     struct mpl_readings_memo *memo,
                                     struct memplan_report **report_out, struct memplan_error *err)
{
    struct memplan_options own = {0};
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!plan || !report_out)
        return mpl_api_missing(err, plan ? "report_out" : "plan");
    if (options && (status = take_options(options, &own, err)))
        return status;
    if ((status = mpl_spec_check(plan->spec, err)))
        return status;
    return mpl_pipeline_run(plan->spec, &own, mpl_api_calibration(own.calibration), memo,
                            report_out, err);
}

enum memplan_status memplan_estimate(const struct memplan_plan *plan,
                                     const struct memplan_options *options,
                                     struct memplan_report **report_out, struct memplan_error *err)
{
    return mpl_api_estimate(plan, options, NULL, report_out, err);
}

enum memplan_verdict memplan_report_verdict(const struct memplan_report *report)
{
    return report ? report->verdict : MEMPLAN_CANNOT_TELL;
}

const char *memplan_report_reason(const struct memplan_report *report)
{
    return report ? report->reason : "";
}

enum memplan_status memplan_report_summary(const struct memplan_report *report,
                                           struct memplan_summary *summary,
                                           struct memplan_error *err)
{
    const struct mpl_alternative *best;
    struct memplan_summary own = {0};
    size_t size;

    mpl_fail_clear(err);
    if (!report || !summary)
        return mpl_api_missing(err, report ? "summary" : "report");
    best = &report->alternatives[report->best];
    size = summary->size < sizeof(own) ? summary->size : sizeof(own);
    own.size = size;
    own.verdict = report->verdict;
    own.alternatives = (uint32_t)report->kept_count;
    own.survival_probability = report->survival;
    own.live_bytes = best->estimate.live_peak;
    own.allocated_bytes = best->estimate.unlimited.allocated_peak;
    own.reserved_bytes = best->estimate.unlimited.reserved_peak;
    own.needs_low_bytes = best->estimate.needs.low_bytes;
    own.needs_high_bytes = best->estimate.needs.high_bytes;
    own.device_bytes = mpl_add(own.reserved_bytes, mpl_capacity_taken(&best->capacity));
    own.usable_bytes = best->capacity.usable_bytes;
    own.parameters = best->estimate.parameters;
    own.trainable_parameters = best->estimate.trainable_parameters;
    if (summary->size > sizeof(own))
        memset((char *)summary + sizeof(own), 0, summary->size - sizeof(own));
    memcpy(summary, &own, size);
    return MEMPLAN_OK;
}

enum memplan_status memplan_report_to_json(const struct memplan_report *report, char **json_out,
                                           struct memplan_error *err)
{
    mpl_fail_clear(err);
    if (!report || !json_out)
        return mpl_api_missing(err, report ? "json_out" : "report");
    return mpl_report_to_json(report, json_out, err);
}

enum memplan_status memplan_report_dump(const struct memplan_report *report,
                                        enum memplan_stage stage, char **text_out,
                                        struct memplan_error *err)
{
    const char *text;
    size_t size;

    mpl_fail_clear(err);
    if (!report || !text_out)
        return mpl_api_missing(err, report ? "text_out" : "report");
    text = stage == MEMPLAN_STAGE_SPEC       ? report->spec_json
           : stage == MEMPLAN_STAGE_TIMELINE ? report->timeline_text
           : stage == MEMPLAN_STAGE_REPLAY   ? report->replay_text
                                             : NULL;
    if (!text)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL,
                        "that stage was not asked for in options.dump_stages");
    size = strlen(text) + 1;
    *text_out = malloc(size);
    if (!*text_out)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while copying a dump");
    memcpy(*text_out, text, size);
    return MEMPLAN_OK;
}

void memplan_report_free(struct memplan_report *report)
{
    if (!report)
        return;
    mpl_arena_free(&report->arena);
    free(report->spec_json);
    free(report->timeline_text);
    free(report->replay_text);
    free(report);
}

/* ---- names ------------------------------------------------------------------------------------
 */

const char *memplan_verdict_name(enum memplan_verdict verdict)
{
    switch (verdict) {
    case MEMPLAN_FITS:
        return "fits";
    case MEMPLAN_DOES_NOT_FIT:
        return "does_not_fit";
    case MEMPLAN_INSIDE_MARGIN:
        return "inside_margin";
    case MEMPLAN_CANNOT_TELL:
        return "cannot_tell";
    }
    return "unknown";
}

const char *memplan_status_name(enum memplan_status status)
{
    static const char *const names[] = {
        [MEMPLAN_OK] = "ok",
        [MEMPLAN_ERR_NOMEM] = "out of memory",
        [MEMPLAN_ERR_ARG] = "bad argument",
        [MEMPLAN_ERR_SYNTAX] = "not well formed",
        [MEMPLAN_ERR_VALUE] = "impossible value",
        [MEMPLAN_ERR_UNSUPPORTED] = "not modelled",
        [MEMPLAN_ERR_OVERFLOW] = "byte count overflow",
        [MEMPLAN_ERR_LIMIT] = "input too large",
        [MEMPLAN_ERR_INTERNAL] = "internal error",
    };

    return (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}

const char *memplan_version(void)
{
    return MEMPLAN_VERSION_STRING;
}

void memplan_free(void *ptr)
{
    free(ptr);
}
