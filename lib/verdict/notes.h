/* SPDX-License-Identifier: MIT */
/* What a report must admit: defaults taken, figures from tables, open readings. */
#ifndef MPL_VERDICT_NOTES_H
#define MPL_VERDICT_NOTES_H

#include "pipeline.h"

/** Fills report->notes. */
enum memplan_status mpl_notes_collect(const struct mpl_spec *spec, struct memplan_report *report,
                                      struct memplan_error *err);

#endif
