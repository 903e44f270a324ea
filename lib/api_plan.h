/* SPDX-License-Identifier: MIT */
/* Inside of the public plan, for the public entry points. */
#ifndef MPL_API_PLAN_H
#define MPL_API_PLAN_H

#include "spec/spec.h"

struct memplan_plan {
    struct mpl_spec *spec;
};

#endif
