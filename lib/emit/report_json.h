/* SPDX-License-Identifier: MIT */
/* The report as JSON (docs/json.md). */
#ifndef MPL_EMIT_REPORT_JSON_H
#define MPL_EMIT_REPORT_JSON_H

#include "pipeline.h"

/** *json_out is malloc'ed. */
enum memplan_status mpl_report_to_json(const struct memplan_report *report, char **json_out,
                                       struct memplan_error *err);

#endif
