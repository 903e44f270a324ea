/* SPDX-License-Identifier: MIT */
/* Dumps of stages as tab-separated text: the timeline's events, the allocator's counters. */
#include "emit/dump.h"

#include "base/fail.h"
#include "base/strbuf.h"

static void put_shape(struct mpl_strbuf *out, const struct mpl_request_info *info)
{
    mpl_strbuf_put(out, "(");
    for (int i = 0; i < info->ndim; i++)
        mpl_strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)info->shape[i]);
    mpl_strbuf_put(out, info->ndim == 1 ? ",)" : ")");
}

/* alloc, number, bytes rounded up to 512, operator, phase, shape, dtype, stream, category;
 * free, number, bytes, phase; mark, step, micro-batch, phase. */
static void put_event(struct mpl_strbuf *out, const struct mpl_timeline *t, mpl_event event,
                      enum mpl_phase *phase)
{
    const uint32_t id = mpl_event_id(event);
    const struct mpl_request *request;
    unsigned long long bytes;

    if (mpl_event_kind(event) == MPL_EVENT_MARK) {
        const struct mpl_mark *mark = &t->marks.data[id];

        *phase = (enum mpl_phase)mark->phase;
        mpl_strbuf_printf(out, "mark\t%u\t%u\t%s\n", mark->step, mark->micro,
                          mpl_phase_name(*phase));
        return;
    }
    request = &t->requests.data[id];
    bytes = (unsigned long long)mpl_round_up(request->bytes, 512);
    if (mpl_event_kind(event) == MPL_EVENT_FREE) {
        mpl_strbuf_printf(out, "free\t%u\t%llu\t%s\n", id, bytes, mpl_phase_name(*phase));
        return;
    }
    mpl_strbuf_printf(out, "alloc\t%u\t%llu\t%s\t%s\t", id, bytes, t->infos.data[id].op,
                      mpl_phase_name(*phase));
    put_shape(out, &t->infos.data[id]);
    mpl_strbuf_printf(out, "\t%s\t%s\t%s\n",
                      mpl_dtype_name((enum mpl_dtype)t->infos.data[id].dtype),
                      mpl_stream_name((enum mpl_stream)request->stream),
                      mpl_category_name((enum mpl_category)request->category));
}

static void put_timeline(struct mpl_strbuf *out, const struct mpl_timeline *t)
{
    enum mpl_phase phase = MPL_PHASE_INIT;

    for (size_t i = 0; i < t->events.len; i++)
        put_event(out, t, t->events.data[i], &phase);
}

/* One line a step; the needs band last. */
static void put_replay(struct mpl_strbuf *out, const struct mpl_estimate *e)
{
    mpl_strbuf_put(out, "step\tforward_peak\tafter_forward\tbackward_peak\tafter_backward\t"
                        "optimizer_peak\tafter_step\treserved\tretries\n");
    for (uint32_t i = 0; i < e->unlimited.step_count && i < MPL_REPLAY_MAX_STEPS; i++) {
        const struct mpl_replay_step *s = &e->unlimited.steps[i];

        mpl_strbuf_printf(out, "%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%u\n", i,
                          (unsigned long long)s->allocated.forward_peak,
                          (unsigned long long)s->allocated.after_forward,
                          (unsigned long long)s->allocated.backward_peak,
                          (unsigned long long)s->allocated.after_backward,
                          (unsigned long long)s->allocated.optimizer_peak,
                          (unsigned long long)s->allocated.after_step,
                          (unsigned long long)s->reserved, s->retries);
    }
    mpl_strbuf_printf(out, "needs\t%llu\t%llu\n", (unsigned long long)e->needs.low_bytes,
                      (unsigned long long)e->needs.high_bytes);
}

static enum memplan_status take(struct mpl_strbuf *out, char **text_out, struct memplan_error *err)
{
    *text_out = mpl_strbuf_steal(out);
    if (*text_out)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while writing a dump");
}

enum memplan_status mpl_dump_run(struct mpl_estimator *estimator, const struct mpl_plan *plan,
                                 uint32_t stages, char **timeline_out, char **replay_out,
                                 struct memplan_error *err)
{
    struct mpl_strbuf timeline = {0}, counters = {0};
    struct mpl_estimate estimate;
    enum memplan_status status =
        mpl_estimate_run(estimator, plan, MPL_ESTIMATE_ALL, &estimate, err);

    if (status)
        return status;
    if (stages & MEMPLAN_STAGE_TIMELINE) {
        put_timeline(&timeline, &estimator->trace.timeline);
        status = take(&timeline, timeline_out, err);
    }
    if (!status && stages & MEMPLAN_STAGE_REPLAY) {
        put_replay(&counters, &estimate);
        status = take(&counters, replay_out, err);
    }
    return status;
}
