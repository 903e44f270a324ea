/* SPDX-License-Identifier: MIT */
/* What stands behind the public handles, for the files of entry points. */
#ifndef MPL_API_H
#define MPL_API_H

#include "spec/spec.h"

struct memplan_plan {
    struct mpl_spec *spec;
};

#endif
