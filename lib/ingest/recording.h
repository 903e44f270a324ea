/* SPDX-License-Identifier: MIT */
/* Recorded allocator events: a case, or a memory snapshot of PyTorch, from JSON. */
#ifndef MPL_INGEST_RECORDING_H
#define MPL_INGEST_RECORDING_H

#include <jansson.h>

#include "ingest/slots.h"
#include "replay/recording.h"

#define MPL_RECORDING_MOST_BYTES (UINT64_C(1) << 30)

/**
 * Reads a recording (docs/replay.md has both forms). source names the input in messages. *recording
 * must be zero; free it with mpl_recording_free, also on failure.
 */
enum memplan_status mpl_recording_load(const void *json, size_t len, const char *source,
                                       struct mpl_recording *recording, struct memplan_error *err);

/* ---- between the readers ---- */

struct mpl_recording_reader {
    struct mpl_recording *recording;
    struct memplan_error *err;
    struct mpl_slots slots, pools;
    char path[96]; /* of what is read, a JSON pointer */
};

/** "found X, expected Y" at the reader's path. */
enum memplan_status mpl_recording_expect(struct mpl_recording_reader *r, const json_t *found,
                                         const char *expected);

/** A whole number from 0 up to most. */
enum memplan_status mpl_recording_whole(struct mpl_recording_reader *r, const json_t *json,
                                        uint64_t most, uint64_t *value);

/** Keeps a copy of the allocator's settings. */
enum memplan_status mpl_recording_take_conf(struct mpl_recording_reader *r, const char *conf);

enum memplan_status mpl_recording_put(struct mpl_recording_reader *r,
                                      struct mpl_recorded_event event);

/** The index of a stream, a new one when the recording did not have it yet. */
enum memplan_status mpl_recording_stream(struct mpl_recording_reader *r, int64_t name,
                                         uint8_t *stream);

enum memplan_status mpl_recording_from_case(struct mpl_recording_reader *r, const json_t *root);
enum memplan_status mpl_recording_from_snapshot(struct mpl_recording_reader *r, const json_t *root);

#endif
