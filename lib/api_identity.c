/* SPDX-License-Identifier: MIT */
/* The public entry points of identities: which run a plan is, and which asks for more. */
#include <memplan.h>

#include <string.h>

#include "api.h"
#include "base/fail.h"

enum memplan_status memplan_plan_identity(const struct memplan_plan *plan,
                                          struct memplan_identity *identity_out,
                                          struct memplan_error *err)
{
    struct memplan_identity own;
    enum memplan_status status;
    size_t size;

    mpl_fail_clear(err);
    if (!plan || !identity_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL",
                        plan ? "identity_out" : "plan");
    size = identity_out->size;
    if (size < sizeof(size) || size > 1 << 16)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "the size of the identity is %zu, expected %zu",
                        size, sizeof(own));
    if ((status = mpl_spec_check(plan->spec, err)) ||
        (status = mpl_spec_identity(plan->spec, &own, err)))
        return status;
    memset(identity_out, 0, size);
    memcpy(identity_out, &own, size < sizeof(own) ? size : sizeof(own));
    identity_out->size = size;
    return MEMPLAN_OK;
}

const char *memplan_demand_field(size_t i)
{
    return mpl_demand_at(i);
}

int memplan_identity_dominates(const struct memplan_identity *plan,
                               const struct memplan_identity *other)
{
    if (!plan || !other || strcmp(plan->kin, other->kin) != 0)
        return 0;
    for (size_t i = 0; mpl_demand_at(i); i++)
        if (plan->demands[i].low < other->demands[i].high)
            return 0;
    /* A card that is not named is like no other, and like itself. */
    if (!plan->card_high_bytes || !other->card_low_bytes)
        return plan->card_high_bytes == other->card_high_bytes;
    return plan->card_high_bytes <= other->card_low_bytes;
}
