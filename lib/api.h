/* SPDX-License-Identifier: MIT */
/* What stands behind the public handles, for the files of entry points. */
#ifndef MPL_API_H
#define MPL_API_H

#include <memplan.h>

#include "pipeline.h"
#include "spec/calibration.h"
#include "spec/spec.h"

struct memplan_plan {
    struct mpl_spec *spec;
};

/** NULL for NULL. */
const struct mpl_calibration *mpl_api_calibration(const struct memplan_calibration *calibration);

/** memplan_estimate, with predictions of readings that are kept; memo may be NULL. */
enum memplan_status mpl_api_estimate(const struct memplan_plan *plan,
                                     const struct memplan_options *options,
                                     struct mpl_readings_memo *memo,
                                     struct memplan_report **report_out, struct memplan_error *err);

#endif
