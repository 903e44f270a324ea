/* SPDX-License-Identifier: MIT */
/* A calibration as JSON: the file, and all that was found on the way (docs/calibrate.md). */
#ifndef MPL_EMIT_CALIBRATION_JSON_H
#define MPL_EMIT_CALIBRATION_JSON_H

#include "calib/calibrate.h"

/** *json_out is malloc'ed. */
enum memplan_status mpl_calibration_to_json(const struct mpl_calib_report *report, char **json_out,
                                            struct memplan_error *err);

#endif
