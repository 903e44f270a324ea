/* SPDX-License-Identifier: MIT */
/* What the card can give to PyTorch's allocator: total minus context, NCCL and other processes. */
#include "verdict/capacity.h"

#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "table/outside.h"

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
    return mpl_device_fail(plan->device.gpu, match, remark, err);
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

uint64_t mpl_capacity_taken(const struct mpl_capacity *c)
{
    return mpl_add(mpl_add(c->context.expected_bytes, c->nccl.expected_bytes),
                   mpl_add(c->other_contexts.expected_bytes, c->other_bytes));
}

static void subtract(struct mpl_capacity *c)
{
    const double a = spread(&c->context), b = spread(&c->nccl), d = spread(&c->other_contexts);
    const uint64_t fixed = left_of(c->total_bytes, mpl_add(c->other_bytes, c->reserve_bytes));

    c->usable_bytes = left_of(left_of(c->total_bytes, c->reserve_bytes), mpl_capacity_taken(c));
    c->usable_low_bytes = left_of(fixed, mpl_add(mpl_add(c->context.high_bytes, c->nccl.high_bytes),
                                                 c->other_contexts.high_bytes));
    c->usable_high_bytes = left_of(fixed, mpl_add(mpl_add(c->context.low_bytes, c->nccl.low_bytes),
                                                  c->other_contexts.low_bytes));
    c->spread_bytes = sqrt(a * a + b * b + d * d);
}

/* The context of the run, and those of others. False: the table has no figure. */
static bool find_contexts(const struct mpl_plan *plan, struct mpl_capacity *c)
{
    const struct mpl_range *card = c->row ? c->row->context : NULL;
    const struct mpl_context_setup setup = {plan->device.module_loading, plan->cuda.major,
                                            plan->cuda.minor};
    const uint64_t count = (uint64_t)plan->device.other_contexts;

    if (c->context_is_given)
        c->context = given(plan->device.context_bytes);
    else if (card)
        c->context = mpl_context_bytes(card, &setup);
    else
        return false;
    if (!count)
        return true;
    /* Of a card that is not in the table each is as large as the run's own. */
    c->other_contexts = card ? mpl_bare_context_bytes(card) : c->context;
    c->other_contexts.low_bytes = mpl_mul(count, c->other_contexts.low_bytes);
    c->other_contexts.expected_bytes = mpl_mul(count, c->other_contexts.expected_bytes);
    c->other_contexts.high_bytes = mpl_mul(count, c->other_contexts.high_bytes);
    return true;
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
    snprintf(c->given_source, sizeof(c->given_source), "%s", d->source);
    c->total_is_given = d->total_bytes > 0;
    c->context_is_given = d->context_bytes >= 0;
    c->nccl_is_given = d->nccl_bytes >= 0;
    c->total_bytes = c->total_is_given ? (uint64_t)d->total_bytes
                     : c->row          ? c->row->total_bytes
                                       : 0;
    c->other_bytes = (uint64_t)d->other_bytes;
    c->reserve_bytes = (uint64_t)d->reserve_bytes;
    if (!c->total_bytes)
        return MEMPLAN_OK;
    c->state = find_contexts(plan, c) ? MPL_CAPACITY_KNOWN : MPL_CAPACITY_NOT_KNOWN;
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
    plan->device.table_total_bytes = row ? row->total_bytes : 0;
}
