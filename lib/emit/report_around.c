/* SPDX-License-Identifier: MIT */
/* The report as JSON: communicators, moments, the node's host. */
#include "emit/report_out.h"
#include "verdict/host.h"

json_t *mpl_out_communicators(struct out *out, const struct mpl_communicators *list)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < list->count; i++) {
        const struct mpl_communicator *c = &list->of[i];
        json_t *object = json_object();

        put(out, object, "group", text(c->group.name));
        put(out, object, "why", text(c->group.why));
        put(out, object, "count", json_integer(c->count));
        put(out, object, "ranks", json_integer(c->group.ranks));
        put(out, object, "nodes", json_integer(c->group.nodes));
        put(out, object, "low_bytes", bytes(c->each.low_bytes));
        put(out, object, "expected_bytes", bytes(c->each.expected_bytes));
        put(out, object, "high_bytes", bytes(c->each.high_bytes));
        put(out, object, "source", text(c->each.source));
        push(out, array, object);
    }
    return array;
}

json_t *mpl_out_moments(struct out *out, const struct mpl_estimate *e)
{
    json_t *object = json_object();

    for (int i = 0; i < MPL_PHASE_COUNT; i++)
        if (e->unlimited.phase_peaks[i])
            put(out, object, mpl_phase_name((enum mpl_phase)i), bytes(e->unlimited.phase_peaks[i]));
    return object;
}

static const char *host_moment(uint32_t when)
{
    if (when & MPL_HOST_TRAINING)
        return when & MPL_HOST_SAVING ? "training, saving" : "training";
    if (when & MPL_HOST_NVME)
        return "NVMe";
    return when & MPL_HOST_LOADING ? "loading" : when & MPL_HOST_SAVING ? "saving" : "page cache";
}

json_t *mpl_out_host(struct out *out, const struct memplan_report *report)
{
    json_t *object = json_object(), *lines = json_array();
    struct mpl_host_sum sum;

    mpl_host_add_up(&report->plan, &report->alternatives[report->best].estimate, &sum);
    for (uint32_t i = 0; i < sum.count; i++) {
        json_t *line = json_object();

        put(out, line, "name", text(sum.lines[i].name));
        put(out, line, "bytes", bytes(sum.lines[i].bytes));
        put(out, line, "moment", text(host_moment(sum.lines[i].when)));
        put(out, line, "source", text(sum.lines[i].source));
        push(out, lines, line);
    }
    put(out, object, "ranks", json_integer(sum.ranks));
    put(out, object, "asked_for", json_boolean(sum.is_asked_for));
    put(out, object, "loading_bytes", bytes(sum.loading_bytes));
    put(out, object, "training_bytes", bytes(sum.training_bytes));
    put(out, object, "saving_bytes", bytes(sum.saving_bytes));
    put(out, object, "peak_bytes", bytes(sum.peak_bytes));
    if (report->plan.host.memory_bytes > 0) {
        put(out, object, "memory_bytes", bytes((uint64_t)report->plan.host.memory_bytes));
        put(out, object, "exceeds", json_boolean(sum.exceeds));
    }
    put(out, object, "lines", lines);
    return object;
}
