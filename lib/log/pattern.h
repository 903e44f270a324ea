/* SPDX-License-Identifier: MIT */
/* Regular expressions with a limit on the work of one match. */
#ifndef MPL_LOG_PATTERN_H
#define MPL_LOG_PATTERN_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>

struct mpl_log_pattern;

/** A size as c10::format_size prints it. The unit at its end makes one that was cut no match; what
 * has begun as a number is never tried in another way. */
#define MPL_LOG_SIZE "\\d{1,20}+(?:\\.\\d{1,3}+)?+ (?:bytes|[KMGT]iB)"

/** Compiles a pattern of ours. *pattern_out is new. */
enum memplan_status mpl_log_pattern_new(const char *text, struct mpl_log_pattern **pattern_out,
                                        struct memplan_error *err);
void mpl_log_pattern_free(struct mpl_log_pattern *pattern);

/** The first match at or after from; at from itself when anchored. What takes more work than the
 * limit allows does not match. */
bool mpl_log_pattern_match(struct mpl_log_pattern *pattern, const char *text, size_t len,
                           size_t from, bool is_anchored);

/** Of the last match: the whole of it. */
void mpl_log_pattern_range(const struct mpl_log_pattern *pattern, size_t *start, size_t *end);

/** Of the last match: where a named group lies in the text; false when it took no part. */
bool mpl_log_pattern_group(const struct mpl_log_pattern *pattern, const char *name, size_t *start,
                           size_t *end);

#endif
