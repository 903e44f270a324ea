/* SPDX-License-Identifier: MIT */
/* The report as JSON: what the card can give, and what takes the rest. */
#include "emit/report_out.h"
#include "table/outside.h"

static const char *const status_names[] = {"not known", "recalled", "derived", "measured"};

/* What the card's row says of its memory: how it is known, and the range seen. */
static void put_row(struct out *out, json_t *object, const struct mpl_device_row *row)
{
    put(out, object, "gpu", text(row->name));
    put(out, object, "table_total_bytes", bytes(row->total_bytes));
    put(out, object, "table_total_low_bytes", bytes(row->total_low_bytes));
    put(out, object, "table_total_high_bytes", bytes(row->total_high_bytes));
    put(out, object, "table_total_status", text(status_names[row->total_status]));
    put(out, object, "table_total_source", text(row->source));
    if (row->smi_total_bytes) {
        put(out, object, "smi_total_bytes", bytes(row->smi_total_bytes));
        put(out, object, "smi_total_status", text(status_names[row->smi_status]));
    }
}

static void put_range(struct out *out, json_t *object, const char *name,
                      const struct mpl_range *range)
{
    json_t *part = json_object();

    put(out, part, "low_bytes", bytes(range->low_bytes));
    put(out, part, "expected_bytes", bytes(range->expected_bytes));
    put(out, part, "high_bytes", bytes(range->high_bytes));
    if (range->source)
        put(out, part, "source", text(range->source));
    put(out, object, name, part);
}

static json_t *ranges(struct out *out, const struct mpl_capacity *c)
{
    json_t *object = json_object();

    put_range(out, object, "context", &c->context);
    put_range(out, object, "nccl", &c->nccl);
    if (c->other_contexts.high_bytes)
        put_range(out, object, "other_contexts", &c->other_contexts);
    return object;
}

static json_t *libraries(struct out *out, uint32_t compute_capability)
{
    json_t *array = json_array();
    const struct mpl_library_row *row;

    for (size_t i = 0; (row = mpl_library_at(i)); i++) {
        json_t *object;

        if (!mpl_library_applies(row, compute_capability))
            continue;
        object = json_object();
        put(out, object, "name", text(row->name));
        put(out, object, "where", text(row->where));
        put(out, object, "counted", text(row->counted));
        put(out, object, "low_bytes", bytes(row->low_bytes));
        put(out, object, "high_bytes", bytes(row->high_bytes));
        put(out, object, "source", text(row->source));
        push(out, array, object);
    }
    return array;
}

/* Ten times CUDA's. */
static uint32_t capability_of(const struct mpl_capacity *c, const struct mpl_plan *plan)
{
    if (plan->device.compute_capability > 0)
        return (uint32_t)(plan->device.compute_capability * 10 + 0.5);
    return c->row ? c->row->compute_capability : 0;
}

json_t *mpl_out_capacity(struct out *out, const struct mpl_capacity *c, const struct mpl_plan *plan)
{
    const char *given = c->given_source[0] ? c->given_source : "the plan";
    json_t *object = json_object();

    if (c->row)
        put_row(out, object, c->row);
    put(out, object, "usable_bytes", bytes(c->usable_bytes));
    put(out, object, "usable_low_bytes", bytes(c->usable_low_bytes));
    put(out, object, "usable_high_bytes", bytes(c->usable_high_bytes));
    put(out, object, "total_bytes", bytes(c->total_bytes));
    put(out, object, "context_bytes", bytes(c->context.expected_bytes));
    put(out, object, "nccl_bytes", bytes(c->nccl.expected_bytes));
    put(out, object, "other_contexts_bytes", bytes(c->other_contexts.expected_bytes));
    put(out, object, "other_bytes", bytes(c->other_bytes));
    put(out, object, "reserve_bytes", bytes(c->reserve_bytes));
    put(out, object, "source", text(c->total_is_given ? "plan" : "table"));
    put(out, object, "total_source", text(c->total_is_given ? given : c->row->source));
    if (c->context.source)
        put(out, object, "context_source", text(c->context.source));
    if (c->nccl.source)
        put(out, object, "nccl_source", text(c->nccl.source));
    if (c->other_contexts.source)
        put(out, object, "other_contexts_source", text(c->other_contexts.source));
    if (c->other_bytes)
        put(out, object, "other_source", text(given));
    if (c->reserve_bytes)
        put(out, object, "reserve_source", text("device.reserve_bytes"));
    put(out, object, "ranges", ranges(out, c));
    if (c->communicators.count && !c->nccl_is_given)
        put(out, object, "communicators", mpl_out_communicators(out, &c->communicators));
    put(out, object, "libraries", libraries(out, capability_of(c, plan)));
    if (c->remark[0])
        put(out, object, "remark", text(c->remark));
    return object;
}
