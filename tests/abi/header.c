/* SPDX-License-Identifier: MIT */
/* The public header compiles alone as C11, and the layouts that callers rely on are as published.
 */
#include <memplan.h>

/* Frozen: lives in the caller's memory, without a size of its own. */
_Static_assert(offsetof(struct memplan_error, status) == 0, "status moved");
_Static_assert(offsetof(struct memplan_error, line) == 4, "line moved");
_Static_assert(offsetof(struct memplan_error, column) == 8, "column moved");
_Static_assert(offsetof(struct memplan_error, offset) == 16, "offset moved");
_Static_assert(offsetof(struct memplan_error, source) == 24, "source moved");
_Static_assert(offsetof(struct memplan_error, path) == 152, "path moved");
_Static_assert(offsetof(struct memplan_error, text) == 280, "text moved");
_Static_assert(sizeof(struct memplan_error) == 792, "memplan_error changed its size");

/* Carry their size, so they may grow at the end; what is there stays where it is. */
_Static_assert(offsetof(struct memplan_summary, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_options, size) == 0, "size must come first");

_Static_assert(offsetof(struct memplan_gpu, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_library, size) == 0, "size must come first");

_Static_assert(offsetof(struct memplan_identity, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_identity, demands) == sizeof(size_t) + 104, "demands moved");
_Static_assert(sizeof(struct memplan_demand) == 16, "demands changed their size");
_Static_assert(offsetof(struct memplan_search_options, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_search_result, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_point, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_point, summary) + sizeof(struct memplan_summary) ==
                   sizeof(struct memplan_point),
               "a summary may grow: it must come last");

_Static_assert(MEMPLAN_TREND_LEVEL == 0 && MEMPLAN_TREND_RISES == 1 && MEMPLAN_TREND_FALLS == 2 &&
                   MEMPLAN_TREND_TURNS == 3,
               "trends are stable");

_Static_assert(sizeof(struct memplan_entry) == 2 * sizeof(char *), "entries changed their size");

/* Frozen too: parts of others. */
_Static_assert(sizeof(struct memplan_log_size) == 32, "memplan_log_size changed its size");
_Static_assert(sizeof(struct memplan_log_process) == 40, "memplan_log_process changed its size");
_Static_assert(offsetof(struct memplan_log_finding, size) == sizeof(char *), "size moved");
_Static_assert(offsetof(struct memplan_log_finding, text) == sizeof(char *) + 32, "text moved");
_Static_assert(sizeof(struct memplan_log_finding) == sizeof(char *) + 32 + 384,
               "memplan_log_finding changed its size");
_Static_assert(offsetof(struct memplan_log_event, size) == 0, "size must come first");
_Static_assert(offsetof(struct memplan_log_event, line) == 8, "line moved");
_Static_assert(offsetof(struct memplan_log_event, kind) == 24, "kind moved");
_Static_assert(offsetof(struct memplan_log_event, requested) == 48 + 3 * sizeof(char *),
               "requested moved");

_Static_assert(MEMPLAN_LOG_ALLOCATOR == 0 && MEMPLAN_LOG_LIMIT == 1 && MEMPLAN_LOG_ASYNC == 2 &&
                   MEMPLAN_LOG_DRIVER == 3 && MEMPLAN_LOG_LIBRARY == 4 && MEMPLAN_LOG_NCCL == 5 &&
                   MEMPLAN_LOG_WARNING == 6,
               "kinds are stable");

/* Exit codes of the command. */
_Static_assert(MEMPLAN_FITS == 0 && MEMPLAN_DOES_NOT_FIT == 3 && MEMPLAN_INSIDE_MARGIN == 4 &&
                   MEMPLAN_CANNOT_TELL == 5,
               "verdicts are stable");

_Static_assert(MEMPLAN_LIST_FAMILIES == 0 && MEMPLAN_LIST_OPTIMIZERS == 1 &&
                   MEMPLAN_LIST_ATTENTION == 2 && MEMPLAN_LIST_LOSSES == 3,
               "lists are stable");

_Static_assert(MEMPLAN_NOT_KNOWN == 0 && MEMPLAN_RECALLED == 1 && MEMPLAN_DERIVED == 2 &&
                   MEMPLAN_MEASURED == 3,
               "how a figure is known is stable");

/* Statuses are never renumbered. */
_Static_assert(MEMPLAN_OK == 0 && MEMPLAN_ERR_NOMEM == 1 && MEMPLAN_ERR_ARG == 2 &&
                   MEMPLAN_ERR_SYNTAX == 3 && MEMPLAN_ERR_VALUE == 4 &&
                   MEMPLAN_ERR_UNSUPPORTED == 5 && MEMPLAN_ERR_OVERFLOW == 6 &&
                   MEMPLAN_ERR_LIMIT == 7 && MEMPLAN_ERR_INTERNAL == 8,
               "statuses are stable");
