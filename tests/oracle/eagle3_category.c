/* SPDX-License-Identifier: MIT */
/* What lives at the peak of a drafter's step, under the names that the traced cases use. */
#include "eagle3_category.h"

#include <stdlib.h>
#include <string.h>

struct row {
    const struct mpl_request *request;
    const struct mpl_request_info *info;
    const struct mpl_model *model;
};

static bool is_shape(const struct row *r, int64_t rows, int64_t columns)
{
    return r->info->ndim == 2 && r->info->shape[0] == rows && r->info->shape[1] == columns;
}

static int64_t last_dim(const struct row *r)
{
    return r->info->ndim ? r->info->shape[r->info->ndim - 1] : -1;
}

static bool is_weight(const struct row *r)
{
    const struct mpl_model *m = r->model;
    const int64_t h = m->hidden_size, a = m->num_attention_heads * m->head_dim;
    const int64_t k = m->num_key_value_heads * m->head_dim;

    return is_shape(r, m->draft_vocab_size, h) || is_shape(r, h, 3 * h) ||
           is_shape(r, m->intermediate_size, h) || is_shape(r, h, m->intermediate_size) ||
           is_shape(r, a, 2 * h) || is_shape(r, k, 2 * h) || is_shape(r, h, a);
}

static const char *flat_name(const struct row *r)
{
    const bool is_refilled =
        !strcmp(r->info->op, "resize_storage") || !strncmp(r->info->op, "empty.", 6);

    if ((is_refilled && r->info->dtype == MPL_BFLOAT16) || r->request->phase == MPL_PHASE_FORWARD)
        return "unsharded_parameters";
    return "reduce_scatter_input_or_refilled_parameters";
}

static const char *name_of(const struct row *r)
{
    const int64_t h = r->model->hidden_size;
    const enum mpl_phase phase = (enum mpl_phase)r->request->phase;

    if (r->request->stream == MPL_STREAM_ALL_GATHER ||
        r->request->stream == MPL_STREAM_ALL_GATHER_COPY_IN)
        return "all_gather_buffers";
    if (r->request->stream == MPL_STREAM_REDUCE_SCATTER)
        return "sharded_gradients";
    if (phase == MPL_PHASE_INIT)
        return "parameter_shards";
    if (phase == MPL_PHASE_OPTIMIZER)
        return "optimizer_state";
    if (phase == MPL_PHASE_DATA)
        return "batch";
    if (r->info->ndim == 1 && r->info->shape[0] >= 7 * 1024)
        return flat_name(r);
    if (last_dim(r) == r->model->draft_vocab_size)
        return phase == MPL_PHASE_FORWARD ? "logits_and_targets" : "logit_gradients";
    if (phase == MPL_PHASE_BACKWARD && is_weight(r))
        return "unsharded_gradients";
    if (r->info->ndim == 4 && last_dim(r) == r->model->head_dim)
        return "attention_q_k_v_out";
    if (last_dim(r) == r->model->intermediate_size)
        return "mlp_intermediate";
    if (last_dim(r) == h || last_dim(r) == 2 * h || last_dim(r) == 3 * h)
        return r->info->dtype == MPL_FLOAT32 ? "hidden_states_fp32" : "hidden_states_bf16";
    return "other";
}

static void add(struct eagle3_composition *c, const char *name, uint64_t bytes)
{
    int i = 0;

    while (i < c->count && strcmp(c->names[i], name))
        i++;
    if (i == c->count) {
        c->names[c->count] = name;
        c->bytes[c->count++] = 0;
    }
    c->bytes[i] += bytes;
    c->total += bytes;
}

uint64_t eagle3_bytes_of(const struct eagle3_composition *composition, const char *name)
{
    for (int i = 0; i < composition->count; i++)
        if (!strcmp(composition->names[i], name))
            return composition->bytes[i];
    return 0;
}

static uint64_t rounded(const struct mpl_request *request)
{
    return mpl_round_up(request->bytes, 512);
}

/* The event at which the live sum is first highest, once steps have begun. */
static size_t peak_event(const struct mpl_timeline *t, uint64_t *peak)
{
    uint64_t live = 0;
    bool has_begun = false;
    size_t at = 0;

    *peak = 0;
    for (size_t i = 0; i < t->events.len; i++) {
        const mpl_event e = t->events.data[i];
        const uint32_t id = mpl_event_id(e);

        if (mpl_event_kind(e) == MPL_EVENT_MARK)
            has_begun |= t->marks.data[id].phase != MPL_PHASE_INIT;
        else if (mpl_event_kind(e) == MPL_EVENT_FREE)
            live -= rounded(&t->requests.data[id]);
        else
            live += rounded(&t->requests.data[id]);
        if (has_begun && live > *peak) {
            *peak = live;
            at = i;
        }
    }
    return at;
}

uint64_t eagle3_live_peak(const struct case_run *run, struct eagle3_composition *composition)
{
    const struct mpl_timeline *t = &run->estimator.trace.timeline;
    unsigned char *is_alive = calloc(t->requests.len, 1);
    uint64_t peak;
    size_t at = peak_event(t, &peak);

    memset(composition, 0, sizeof(*composition));
    for (size_t i = 0; i <= at; i++)
        if (mpl_event_kind(t->events.data[i]) != MPL_EVENT_MARK)
            is_alive[mpl_event_id(t->events.data[i])] =
                mpl_event_kind(t->events.data[i]) == MPL_EVENT_ALLOC;
    for (size_t id = 0; id < t->requests.len; id++)
        if (is_alive[id]) {
            const struct row row = {&t->requests.data[id], &t->infos.data[id], &run->plan.model};

            add(composition, name_of(&row), rounded(&t->requests.data[id]));
        }
    free(is_alive);
    return peak;
}
