/* SPDX-License-Identifier: MIT */
/* What lives at one moment of a timeline: by category, by order, the largest groups. */
#include <string.h>

#include "base/fail.h"
#include "estimate/estimate.h"

#define BLOCK_BYTES 512

/* Marks which requests live after the event: one byte each. */
static void find_living(const struct mpl_timeline *t, uint32_t event, unsigned char *is_alive,
                        struct mpl_composition *composition)
{
    for (uint32_t i = 0; i <= event && i < t->events.len; i++) {
        const mpl_event e = t->events.data[i];
        const uint32_t id = mpl_event_id(e);

        if (mpl_event_kind(e) == MPL_EVENT_MARK) {
            composition->phase = (enum mpl_phase)t->marks.data[id].phase;
            composition->step = t->marks.data[id].step;
        } else {
            is_alive[id] = mpl_event_kind(e) == MPL_EVENT_ALLOC;
        }
    }
}

static bool is_same_group(const struct mpl_largest *group, const struct mpl_request *request,
                          const struct mpl_request_info *info)
{
    return group->op == info->op && group->phase == (enum mpl_phase)request->phase &&
           group->category == (enum mpl_category)request->category &&
           group->info.dtype == info->dtype && group->info.ndim == info->ndim &&
           !memcmp(group->info.shape, info->shape, sizeof(info->shape[0]) * info->ndim);
}

#define MAX_GROUPS 512

/* Groups found so far; past MAX_GROUPS small ones are left out of the list, not of the sums. */
struct groups {
    struct mpl_largest items[MAX_GROUPS];
    uint32_t count;
};

static void add_to_group(struct groups *groups, const struct mpl_request *request,
                         const struct mpl_request_info *info, uint64_t bytes)
{
    for (uint32_t i = groups->count; i-- > 0;)
        if (is_same_group(&groups->items[i], request, info)) {
            groups->items[i].bytes += bytes;
            groups->items[i].count++;
            return;
        }
    if (groups->count == MAX_GROUPS)
        return;
    groups->items[groups->count++] = (struct mpl_largest){bytes,
                                                          1,
                                                          info->op,
                                                          *info,
                                                          (enum mpl_phase)request->phase,
                                                          (enum mpl_category)request->category};
}

static int by_bytes(const void *a, const void *b)
{
    const struct mpl_largest *x = a, *y = b;

    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

enum memplan_status mpl_estimate_compose(const struct mpl_timeline *t, uint32_t event,
                                         struct mpl_composition *composition,
                                         struct memplan_error *err)
{
    unsigned char *is_alive = calloc(t->requests.len + 1, 1);
    struct groups *groups = calloc(1, sizeof(*groups));

    *composition = (struct mpl_composition){0};
    if (!is_alive || !groups) {
        free(is_alive);
        free(groups);
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory while composing the peak");
    }
    find_living(t, event, is_alive, composition);
    for (size_t id = 0; id < t->requests.len; id++) {
        const struct mpl_request *request = &t->requests.data[id];
        const uint64_t bytes = mpl_round_up(request->bytes, BLOCK_BYTES);

        if (!is_alive[id])
            continue;
        composition->live_bytes += bytes;
        composition->by_category[request->category] += bytes;
        composition->by_order[request->order] += bytes;
        composition->by_both[request->category][request->order] += bytes;
        add_to_group(groups, request, &t->infos.data[id], bytes);
    }
    qsort(groups->items, groups->count, sizeof(groups->items[0]), by_bytes);
    composition->largest_count = groups->count < MPL_MAX_LARGEST ? groups->count : MPL_MAX_LARGEST;
    memcpy(composition->largest, groups->items,
           composition->largest_count * sizeof(groups->items[0]));
    free(is_alive);
    free(groups);
    return MEMPLAN_OK;
}
