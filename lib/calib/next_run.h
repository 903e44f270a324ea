/* SPDX-License-Identifier: MIT */
/* Which further run would tell most. */
#ifndef MPL_CALIB_NEXT_RUN_H
#define MPL_CALIB_NEXT_RUN_H

#include "calib/calibrate.h"

/** Fills report->runs with lengths whose run is expected to tell, most telling first, by the
 * linearized posterior; on a known card only those that survive with at least 1 - risk. */
void mpl_calib_next_run(struct mpl_calib_report *report, double risk);

#endif
