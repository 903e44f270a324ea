/* SPDX-License-Identifier: MIT */
/* A timeline as it should be at another sequence length. */
#include "timeline/grow.h"

#include <string.h>

/* Larger sizes are not exact as a double, and no card has them. */
#define LARGEST_BYTES 0x1p52

static enum memplan_status make_room(struct mpl_timeline *to, size_t count,
                                     struct memplan_error *err)
{
    if (count <= to->requests.cap)
        return MEMPLAN_OK;
    mpl_vec_free(&to->requests);
    if (!(to->requests.data = malloc(count * sizeof(*to->requests.data))))
        return mpl_fail(err, MEMPLAN_ERR_NOMEM, NULL, "out of memory");
    to->requests.cap = count;
    return MEMPLAN_OK;
}

enum memplan_status mpl_timeline_grow(const struct mpl_timeline *from, double ratio,
                                      struct mpl_timeline *to, struct memplan_error *err)
{
    const double factor[MPL_ORDER_COUNT] = {1, ratio, ratio * ratio};
    const enum memplan_status status = make_room(to, from->requests.len, err);

    if (status)
        return status;
    for (size_t i = 0; i < from->requests.len; i++) {
        const struct mpl_request *request = &from->requests.data[i];
        const double bytes = (double)request->bytes * factor[request->order];

        to->requests.data[i] = *request;
        if (request->order != MPL_CONSTANT)
            to->requests.data[i].bytes = bytes < LARGEST_BYTES ? (uint64_t)bytes : UINT64_MAX;
    }
    to->requests.len = from->requests.len;
    memcpy(&to->events, &from->events, sizeof(to->events));
    memcpy(&to->marks, &from->marks, sizeof(to->marks));
    to->step_count = from->step_count;
    return MEMPLAN_OK;
}

void mpl_timeline_free_grown(struct mpl_timeline *to)
{
    mpl_vec_free(&to->requests);
}
