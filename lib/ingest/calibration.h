/* SPDX-License-Identifier: MIT */
/* Calibration files, and the plans that they are of. */
#ifndef MPL_INGEST_CALIBRATION_H
#define MPL_INGEST_CALIBRATION_H

#include "spec/calibration.h"
#include "spec/spec.h"

/** Reads a calibration file. *out is new: free with mpl_calibration_free. */
enum memplan_status mpl_calibration_load(const void *json, size_t len, const char *source,
                                         struct mpl_calibration **out, struct memplan_error *err);

#endif
