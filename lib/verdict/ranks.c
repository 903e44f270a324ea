/* SPDX-License-Identifier: MIT */
/* Stage "verdict": which rank is judged, where ranks differ. */
#include "verdict/ranks.h"

#include <stdlib.h>

#include "base/fail.h"

/* Those that hold most stand first; equal ones in the order of ranks. */
static int by_bytes(const void *a, const void *b)
{
    const struct mpl_rank_class *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static enum memplan_status estimate_class(struct mpl_estimator *estimator, struct mpl_plan *plan,
                                          struct mpl_alternative *a, uint32_t class,
                                          struct memplan_error *err)
{
    const struct mpl_estimate *e = &a->estimate;
    enum memplan_status status;

    plan->parallelism.rank = a->ranks.of[class].first;
    status = mpl_estimate_run(estimator, plan, MPL_ESTIMATE_NEEDS, &a->estimate, err);
    a->figures[class] = (struct mpl_rank_figures){
        !status, e->live_peak, e->unlimited.allocated_peak, e->unlimited.reserved_peak, e->needs};
    return status;
}

/* A rank fails where its band of needs ends; of equal ones that with the higher peak. */
static bool is_worse(const struct mpl_rank_figures *f, const struct mpl_rank_figures *than)
{
    if (f->needs.high_bytes != than->needs.high_bytes)
        return f->needs.high_bytes > than->needs.high_bytes;
    return f->allocated_bytes > than->allocated_bytes;
}

/* Brings the worst class to the front. */
static void put_first(struct mpl_alternative *a, uint32_t worst)
{
    const struct mpl_rank_class class = a->ranks.of[worst];
    const struct mpl_rank_figures figures = a->figures[worst];

    for (uint32_t i = worst; i > 0; i--) {
        a->ranks.of[i] = a->ranks.of[i - 1];
        a->figures[i] = a->figures[i - 1];
    }
    a->ranks.of[0] = class;
    a->figures[0] = figures;
}

static enum memplan_status compare_all(struct mpl_estimator *estimator, struct mpl_plan *plan,
                                       struct mpl_alternative *a, struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;
    uint32_t worst = 0;

    for (uint32_t i = 0; i < a->ranks.count && !status; i++) {
        status = estimate_class(estimator, plan, a, i, err);
        if (is_worse(&a->figures[i], &a->figures[worst]))
            worst = i;
    }
    put_first(a, worst);
    return status;
}

static enum mpl_estimate_depth depth_of(const struct memplan_report *report)
{
    return report->has_peaks_only ? MPL_ESTIMATE_PEAKS : MPL_ESTIMATE_ALL;
}

static enum memplan_status judge_worst(struct mpl_estimator *estimator, struct mpl_plan *plan,
                                       struct memplan_report *report, struct mpl_alternative *a,
                                       struct memplan_error *err)
{
    enum memplan_status status = MEMPLAN_OK;

    a->figures = mpl_arena_zalloc(&report->arena, a->ranks.count * sizeof(*a->figures));
    if (!a->figures)
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while comparing the ranks");
    qsort(a->ranks.of, a->ranks.count, sizeof(*a->ranks.of), by_bytes);
    if (report->has_all_ranks)
        status = compare_all(estimator, plan, a, err);
    a->rank = plan->parallelism.rank = a->ranks.of[0].first;
    if (!status && !report->has_all_ranks && a->rank == 0) /* which was traced */
        return mpl_estimate_rest(estimator, plan, depth_of(report), &a->estimate, err);
    return status ? status : mpl_estimate_run(estimator, plan, depth_of(report), &a->estimate, err);
}

enum memplan_status mpl_ranks_estimate(struct mpl_estimator *estimator, struct mpl_plan *plan,
                                       struct memplan_report *report, struct mpl_alternative *a,
                                       struct memplan_error *err)
{
    const bool is_given = plan->parallelism.rank >= 0;
    enum memplan_status status;

    if (!is_given)
        plan->parallelism.rank = 0;
    a->rank = plan->parallelism.rank;
    estimator->ranks = is_given ? NULL : &a->ranks;
    estimator->ranks_arena = &report->arena;
    status = mpl_estimate_trace(estimator, plan, !report->has_peaks_only, &a->estimate, err);
    estimator->ranks = NULL;
    if (status)
        return status;
    if (a->ranks.count > 1)
        return judge_worst(estimator, plan, report, a, err);
    return mpl_estimate_rest(estimator, plan, depth_of(report), &a->estimate, err);
}
