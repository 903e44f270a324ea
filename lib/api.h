/* SPDX-License-Identifier: MIT */
/* What stands behind the public handles, for the files of entry points. */
#ifndef MPL_API_H
#define MPL_API_H

#include <memplan.h>

#include "spec/calibration.h"
#include "spec/spec.h"

struct memplan_plan {
    struct mpl_spec *spec;
};

/** NULL for NULL. */
const struct mpl_calibration *mpl_api_calibration(const struct memplan_calibration *calibration);

#endif
