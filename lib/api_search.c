/* SPDX-License-Identifier: MIT */
/* The public entry points around searches: a plan whose field is varied, judged value by value. */
#include <memplan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "api_struct.h"
#include "base/bytes.h"
#include "base/fail.h"
#include "spec/fields.h"
#include "spec/spec.h"
#include "verdict/boundary.h"

#define SEQUENCE_GRAIN 128
#define FAR            4 /* times what the card can give */

struct memplan_search {
    struct memplan_search_result result;
    struct mpl_boundary boundary;
    struct memplan_point points[MPL_BOUNDARY_MOST];
};

/* A search under way. */
struct varied {
    struct memplan_plan *plan; /* a copy */
    const struct mpl_field *field;
    struct memplan_search_options options;
    struct memplan_search *search;
    size_t point_count;            /* in the order of judgements */
    struct mpl_readings_memo memo; /* readings are pinned: one prediction holds for every value */
    bool has_no_verdict;
};

/* A caller's options, up to the size that he knows. */
static enum memplan_status take_options(const struct memplan_search_options *given,
                                        struct memplan_search_options *own,
                                        struct memplan_error *err)
{
    enum memplan_status status = mpl_api_take(own, sizeof(*own), given, err);

    if (status)
        return status;
    if (!own->field)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "options.field must not be NULL");
    if (own->multiple_of < 0)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL, "multiples of %lld, expected 1 or more",
                        (long long)own->multiple_of);
    return MEMPLAN_OK;
}

/* The field, its range and its grain. */
static enum memplan_status set_up(struct varied *v, struct memplan_error *err)
{
    struct memplan_search_result *r = &v->search->result;
    enum memplan_status status;
    size_t index;

    if ((status = mpl_spec_find_field(v->options.field, &index, err)))
        return status;
    v->field = mpl_field_at(index);
    mpl_spec_field(index, &r->field);
    if (v->field->type != MPL_FIELD_INTEGER && v->field->type != MPL_FIELD_NUMBER &&
        v->field->type != MPL_FIELD_BYTES)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "%s holds no number (%s), expected a field that does", v->field->path,
                        r->field.type);
    r->multiple_of = v->options.multiple_of              ? v->options.multiple_of
                     : v->field->type == MPL_FIELD_BYTES ? (int64_t)MPL_MIB
                     : strcmp(v->field->path, "training.sequence_length") == 0 ? SEQUENCE_GRAIN
                                                                               : 1;
    r->from = v->options.has_from ? v->options.from : v->field->min;
    r->to = v->options.has_to ? v->options.to : v->field->max;
    if (r->from > r->to || r->from < v->field->min || r->to > v->field->max)
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "%s: found the range %lld .. %lld, expected one inside of %s",
                        v->field->path, (long long)r->from, (long long)r->to, r->field.range);
    return MEMPLAN_OK;
}

static enum memplan_status copy_plan(const struct memplan_plan *plan, struct varied *v,
                                     struct memplan_error *err)
{
    enum memplan_status status;
    char *json = NULL;

    status = memplan_plan_to_json(plan, &json, err);
    if (!status)
        status = memplan_plan_load(json, strlen(json), NULL, &v->plan, err);
    if (!status)
        status = memplan_plan_pin_readings(v->plan, v->field->path, err);
    memplan_free(json);
    return status;
}

/* ---- one value --------------------------------------------------------------------------------
 */

static enum memplan_status set_value(struct varied *v, int64_t value, struct memplan_error *err)
{
    char assignment[160];

    snprintf(assignment, sizeof(assignment), "%s=%lld", v->field->path, (long long)value);
    return memplan_plan_set(v->plan, assignment, err);
}

static void keep_first_skipped(struct varied *v, int64_t value, const struct memplan_error *err)
{
    struct memplan_search_result *r = &v->search->result;

    if (r->skipped_text[0])
        return;
    r->skipped_value = value;
    snprintf(r->skipped_text, sizeof(r->skipped_text), "%.255s", err->text);
}

static bool is_ours(enum memplan_status status)
{
    return status == MEMPLAN_ERR_NOMEM || status == MEMPLAN_ERR_ARG ||
           status == MEMPLAN_ERR_INTERNAL;
}

static enum memplan_status look(void *context, int64_t value, bool *is_possible,
                                struct memplan_error *err)
{
    struct varied *v = context;
    enum memplan_status status = set_value(v, value, err);

    if (!status)
        status = memplan_plan_check(v->plan, err);
    *is_possible = !status;
    if (!status || is_ours(status))
        return status;
    keep_first_skipped(v, value, err);
    mpl_fail_clear(err);
    return MEMPLAN_OK;
}

static enum memplan_status estimate(struct varied *v, int64_t value, bool peaks_only,
                                    struct memplan_point *point, struct memplan_error *err)
{
    const struct memplan_options options = {.size = sizeof(options),
                                            .risk = v->options.risk,
                                            .ignore_readings = v->options.ignore_readings,
                                            .no_suggestions = 1,
                                            .peaks_only = peaks_only};
    struct memplan_report *report = NULL;
    enum memplan_status status = set_value(v, value, err);

    *point = (struct memplan_point){.value = value, .summary.size = sizeof(point->summary)};
    if (!status)
        status = mpl_api_estimate(v->plan, &options, &v->memo, &report, err);
    if (!status)
        status = memplan_report_summary(report, &point->summary, err);
    if (!status && point->summary.verdict == MEMPLAN_CANNOT_TELL && !v->has_no_verdict) {
        v->has_no_verdict = true;
        snprintf(v->search->result.reason, sizeof(v->search->result.reason), "%.255s",
                 memplan_report_reason(report));
    }
    memplan_report_free(report);
    return status;
}

/* What a run that cannot be computed says of its value. */
static enum memplan_status judge_failure(struct varied *v, enum memplan_status status,
                                         struct memplan_error *err, struct mpl_judged *judged,
                                         struct memplan_point *point)
{
    switch (status) {
    case MEMPLAN_ERR_OVERFLOW: /* larger than any card */
        *judged = (struct mpl_judged){judged->value, MPL_SIDE_FAILS, true, UINT64_MAX};
        point->summary.verdict = MEMPLAN_DOES_NOT_FIT;
        break;
    case MEMPLAN_ERR_LIMIT:
        judged->side = MPL_SIDE_END;
        point->summary.verdict = MEMPLAN_CANNOT_TELL;
        break;
    case MEMPLAN_ERR_VALUE:
    case MEMPLAN_ERR_UNSUPPORTED:
        judged->side = MPL_SIDE_INVALID;
        v->search->boundary.skipped++;
        keep_first_skipped(v, judged->value, err);
        break;
    default:
        return status;
    }
    snprintf(point->text, sizeof(point->text), "%.255s", err->text);
    mpl_fail_clear(err);
    return MEMPLAN_OK;
}

static enum memplan_status judge(void *context, int64_t value, struct mpl_judged *judged,
                                 struct memplan_error *err)
{
    struct varied *v = context;
    struct memplan_point *point = &v->search->points[v->point_count];
    const struct memplan_summary *s = &point->summary;
    enum memplan_status status = estimate(v, value, true, point, err);

    if (status)
        status = judge_failure(v, status, err, judged, point);
    else if (s->verdict == MEMPLAN_CANNOT_TELL)
        judged->side = MPL_SIDE_END;
    else
        judged->side = s->verdict == MEMPLAN_FITS ? MPL_SIDE_FITS : MPL_SIDE_FAILS;
    if (!status && !point->text[0]) {
        judged->bytes = s->allocated_bytes;
        judged->is_far = s->live_bytes / FAR > s->usable_bytes;
    }
    if (!status && judged->side != MPL_SIDE_INVALID)
        v->point_count++;
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    const int64_t x = ((const struct memplan_point *)a)->value;
    const int64_t y = ((const struct memplan_point *)b)->value;

    return (x > y) - (x < y);
}

/* Both sides of the boundary once more, with all figures. */
static enum memplan_status complete(struct varied *v, size_t place, struct memplan_error *err)
{
    struct memplan_point *point = &v->search->points[place];

    return point->text[0] ? MEMPLAN_OK : estimate(v, point->value, false, point, err);
}

static void tell_trend(const struct mpl_boundary *b, struct memplan_search_result *r)
{
    static const enum memplan_trend trends[] = {[MPL_TREND_LEVEL] = MEMPLAN_TREND_LEVEL,
                                                [MPL_TREND_RISES] = MEMPLAN_TREND_RISES,
                                                [MPL_TREND_FALLS] = MEMPLAN_TREND_FALLS,
                                                [MPL_TREND_TURNS] = MEMPLAN_TREND_TURNS};

    r->trend = trends[b->trend];
    memcpy(r->turn, b->turn, sizeof(r->turn));
    r->has_hole = b->has_hole;
    memcpy(r->hole, b->hole, sizeof(r->hole));
}

static enum memplan_status tell(struct varied *v, struct memplan_error *err)
{
    struct memplan_search_result *r = &v->search->result;
    const struct mpl_boundary *b = &v->search->boundary;
    enum memplan_status status = MEMPLAN_OK;
    bool has_failed = false;

    qsort(v->search->points, v->point_count, sizeof(*v->search->points), by_value);
    tell_trend(b, r);
    r->points = (uint32_t)b->count;
    r->skipped = (uint32_t)(b->skipped < UINT32_MAX ? b->skipped : UINT32_MAX);
    r->is_spent = b->is_spent;
    r->is_cut = b->is_cut;
    r->cut_at = b->count ? b->judged[b->count - 1].value : 0;
    for (size_t i = 0; i < b->count; i++)
        has_failed |= b->judged[i].side == MPL_SIDE_FAILS;
    r->verdict = b->is_found  ? MEMPLAN_FITS
                 : has_failed ? MEMPLAN_DOES_NOT_FIT
                              : MEMPLAN_CANNOT_TELL;
    if (b->is_found) {
        r->value = b->judged[b->found].value;
        status = complete(v, b->found, err);
    }
    if (b->is_proven && !status) {
        r->has_beyond = 1;
        r->beyond = b->judged[b->beyond].value;
        status = complete(v, b->beyond, err);
    }
    if (r->verdict != MEMPLAN_CANNOT_TELL)
        r->reason[0] = '\0';
    else if (!r->reason[0])
        snprintf(r->reason, sizeof(r->reason), "%.255s",
                 b->count ? v->search->points[0].text : r->skipped_text);
    return status;
}

/* The value that the plan has; 0: none, or the plan is no possible run. */
static int64_t value_now(const struct memplan_plan *plan, const struct mpl_field *field)
{
    struct mpl_plan *bound = malloc(sizeof(*bound));
    int64_t value = 0;

    if (bound && field->type != MPL_FIELD_NUMBER && field->offset != MPL_FIELD_NOWHERE &&
        !mpl_spec_bind(plan->spec, 0, bound, NULL, NULL))
        memcpy(&value, (const char *)bound + field->offset, sizeof(value));
    free(bound);
    return value;
}

static enum memplan_status find(const struct memplan_plan *plan, struct varied *v,
                                struct memplan_error *err)
{
    struct mpl_boundary_search search = {.judge = judge, .look = look, .context = v};
    enum memplan_status status;

    if ((status = set_up(v, err)) || (status = copy_plan(plan, v, err)))
        return status;
    search.hint = value_now(plan, v->field);
    search.from = v->search->result.from;
    search.to = v->search->result.to;
    search.grain = v->search->result.multiple_of;
    search.wants_least = v->options.wants_least;
    if ((status = mpl_boundary_find(&search, &v->search->boundary, err)))
        return status;
    if (!v->search->boundary.count) /* no value is possible: say why, as the plan's own error */
        return mpl_fail(err, MEMPLAN_ERR_VALUE, NULL,
                        "no value of %s is possible; with %lld: %.255s", v->field->path,
                        (long long)v->search->result.skipped_value, v->search->result.skipped_text);
    return tell(v, err);
}

enum memplan_status memplan_search(const struct memplan_plan *plan,
                                   const struct memplan_search_options *options,
                                   struct memplan_search **search_out, struct memplan_error *err)
{
    struct varied v = {0};
    enum memplan_status status;

    mpl_fail_clear(err);
    if (!plan || !options || !search_out)
        return mpl_api_missing(err, !plan ? "plan" : !options ? "options" : "search_out");
    if ((status = take_options(options, &v.options, err)))
        return status;
    if (!(v.search = calloc(1, sizeof(*v.search))))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    status = find(plan, &v, err);
    memplan_plan_free(v.plan);
    mpl_readings_memo_free(&v.memo);
    if (status)
        memplan_search_free(v.search);
    else
        *search_out = v.search;
    return status;
}

enum memplan_status memplan_search_describe(const struct memplan_search *search,
                                            struct memplan_search_result *result,
                                            struct memplan_error *err)
{
    struct memplan_search_result own;

    mpl_fail_clear(err);
    if (!search || !result)
        return mpl_api_missing(err, search ? "result" : "search");
    own = search->result;
    return mpl_api_give(result, &own, sizeof(own), err);
}

int memplan_search_point(const struct memplan_search *search, size_t i,
                         struct memplan_point *point_out)
{
    struct memplan_point own;

    if (!search || !point_out || i >= search->result.points)
        return 0;
    own = search->points[i];
    return !mpl_api_give(point_out, &own, sizeof(own), NULL);
}

void memplan_search_free(struct memplan_search *search)
{
    free(search);
}
