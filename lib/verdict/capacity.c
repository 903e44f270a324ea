/* SPDX-License-Identifier: MIT */
/* What the card can give to PyTorch's allocator: total minus context, NCCL and other processes. */
#include "verdict/capacity.h"

#include <math.h>

#include "base/fail.h"

/* Ranges of the tables are read as 90 % intervals: 2 x 1.645 standard deviations wide. */
#define DEVIATIONS_IN_RANGE 3.29

static enum memplan_status find_row(const struct mpl_plan *plan,
                                    const struct mpl_device_row **row_out, char *remark,
                                    size_t remark_size, struct memplan_error *err)
{
    enum mpl_device_match match;

    *row_out = NULL;
    remark[0] = '\0';
    if (!plan->device.gpu[0])
        return MEMPLAN_OK;
    *row_out = mpl_device_find(plan->device.gpu, &match, remark, remark_size);
    if (*row_out)
        return MEMPLAN_OK;
    return mpl_fail(err, MEMPLAN_ERR_VALUE, "/device/gpu", "found \"%s\", %s%s", plan->device.gpu,
                    remark[0] ? "" : "expected a card of the table", remark);
}

static struct mpl_range given(int64_t bytes)
{
    return (struct mpl_range){(uint64_t)bytes, (uint64_t)bytes, (uint64_t)bytes, "the plan"};
}

static double spread(const struct mpl_range *range)
{
    return (double)(range->high_bytes - range->low_bytes) / DEVIATIONS_IN_RANGE;
}

static uint64_t left_of(uint64_t total, uint64_t taken)
{
    return total > taken ? total - taken : 0;
}

static void subtract(struct mpl_capacity *c)
{
    const double a = spread(&c->context), b = spread(&c->nccl);
    const uint64_t fixed = left_of(c->total_bytes, c->other_bytes);

    c->usable_bytes = left_of(fixed, mpl_add(c->context.expected_bytes, c->nccl.expected_bytes));
    c->usable_low_bytes = left_of(fixed, mpl_add(c->context.high_bytes, c->nccl.high_bytes));
    c->usable_high_bytes = left_of(fixed, mpl_add(c->context.low_bytes, c->nccl.low_bytes));
    c->spread_bytes = sqrt(a * a + b * b);
}

enum memplan_status mpl_capacity_find(const struct mpl_plan *plan, struct mpl_capacity *capacity,
                                      struct memplan_error *err)
{
    const struct mpl_device *d = &plan->device;
    enum memplan_status status;
    struct mpl_capacity *c = capacity;

    *c = (struct mpl_capacity){0};
    if ((status = find_row(plan, &c->row, c->remark, sizeof(c->remark), err)))
        return status;
    c->total_is_given = d->total_bytes > 0;
    c->context_is_given = d->context_bytes >= 0;
    c->nccl_is_given = d->nccl_bytes >= 0;
    c->total_bytes = c->total_is_given ? (uint64_t)d->total_bytes
                     : c->row          ? c->row->total_bytes
                                       : 0;
    c->other_bytes = (uint64_t)d->other_bytes;
    if (!c->total_bytes)
        return MEMPLAN_OK;
    c->state = MPL_CAPACITY_KNOWN;
    if (c->context_is_given)
        c->context = given(d->context_bytes);
    else if (c->row && c->row->context)
        c->context = *c->row->context;
    else
        c->state = MPL_CAPACITY_NOT_KNOWN;
    mpl_communicators_list(plan, c->row, &c->communicators);
    c->nccl = c->nccl_is_given ? given(d->nccl_bytes) : c->communicators.sum;
    if (c->state == MPL_CAPACITY_KNOWN)
        subtract(c);
    return MEMPLAN_OK;
}

void mpl_capacity_complete_plan(const struct mpl_capacity *capacity, struct mpl_plan *plan)
{
    const struct mpl_device_row *row = capacity->row;

    if (row && plan->device.compute_capability <= 0 && row->compute_capability)
        plan->device.compute_capability = row->compute_capability / 10.0;
    if (row && plan->device.multiprocessors <= 0)
        plan->device.multiprocessors = row->multiprocessors;
}
