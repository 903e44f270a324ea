/* SPDX-License-Identifier: MIT */
/* Untrusted bytes to a JSON value: size, nesting and duplicates checked, errors with a position. */
#ifndef MPL_INGEST_JSON_H
#define MPL_INGEST_JSON_H

#include <jansson.h>
#include <memplan.h>

#define MPL_JSON_MOST_BYTES (UINT64_C(64) << 20)
#define MPL_JSON_MOST_DEPTH 64

/**
 * Reads one JSON value. A byte order mark is skipped. The words Infinity, -Infinity and NaN, which
 * Python's writer emits and published configs carry, become null, null and an empty list, of the
 * same length, so that offsets stay right. *json_out is new; untouched on failure.
 */
enum memplan_status mpl_json_read(const void *text, size_t len, json_t **json_out,
                                  struct memplan_error *err);

/** The same for up to most_bytes of input. */
enum memplan_status mpl_json_read_up_to(const void *text, size_t len, uint64_t most_bytes,
                                        json_t **json_out, struct memplan_error *err);

/** What a value is, for a message: the number 3.5, the text "abc", a list. */
const char *mpl_json_describe(const json_t *json, char *text, size_t size);

/** Writes "/a/b" for "a.b" into text. */
const char *mpl_json_pointer(const char *path, char *text, size_t size);

/** Bytes of text, at most most, that do not cut a UTF-8 character in two. */
size_t mpl_json_cut(const char *text, size_t most);

/** The value at a dotted path below root, or NULL. Names in paths hold no dots. */
json_t *mpl_json_get(const json_t *root, const char *path);

/** Puts a new reference of value at a dotted path, making objects on the way; null is replaced by
 * an object. MEMPLAN_ERR_VALUE: something else than an object is in the way. */
enum memplan_status mpl_json_put(json_t *root, const char *path, json_t *value);

#endif
