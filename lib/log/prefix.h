/* SPDX-License-Identifier: MIT */
/* What launchers put before each line: the rank it is from. */
#ifndef MPL_LOG_PREFIX_H
#define MPL_LOG_PREFIX_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPL_LOG_PREFIXES 8 /* forms, at most */

struct mpl_log_prefixes {
    struct mpl_log_pattern *patterns[MPL_LOG_PREFIXES];
};

/** Who wrote a line. -1 where its prefix does not say. */
struct mpl_log_writer {
    int32_t rank, local_rank;
    int64_t process;
};

enum memplan_status mpl_log_prefixes_init(struct mpl_log_prefixes *prefixes,
                                          struct memplan_error *err);
void mpl_log_prefixes_free(struct mpl_log_prefixes *prefixes);

/** Bytes of the prefixes at the start of a line; *writer is what they say. *is_named is true when
 * they say anything of it: a time alone does not. */
size_t mpl_log_prefixes_read(const struct mpl_log_prefixes *prefixes, const char *line, size_t len,
                             struct mpl_log_writer *writer, bool *is_named);

#endif
