/* SPDX-License-Identifier: MIT */
/* The answer to a recording, as JSON and as a drawing. */
#ifndef MPL_EMIT_RECORDING_JSON_H
#define MPL_EMIT_RECORDING_JSON_H

#include "replay/recording.h"

/** streams: the names of the recording's streams, one for each index. */

/** The object "result" of a case (docs/replay.md), on one line. *json_out is malloc'ed. */
enum memplan_status mpl_recording_to_json(const struct mpl_recording_result *result,
                                          const int64_t *streams, char **json_out,
                                          struct memplan_error *err);

/** Segments and blocks at the end as SVG. *svg_out is malloc'ed. */
enum memplan_status mpl_recording_to_svg(const struct mpl_recording_result *result,
                                         const int64_t *streams, char **svg_out,
                                         struct memplan_error *err);

#endif
