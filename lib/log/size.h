/* SPDX-License-Identifier: MIT */
/* Sizes as PyTorch prints them, and what is known of the true ones. */
#ifndef MPL_LOG_SIZE_H
#define MPL_LOG_SIZE_H

#include <memplan.h>
#include <stdbool.h>

/** "3.47 GiB", "20.00 MiB", "0 bytes" in len bytes: the figure and the bounds that its rounding
 * leaves. What is not one, or larger than any memory, is not known. */
struct memplan_log_size mpl_log_size_read(const char *text, size_t len);

/** A size that is known to the byte. */
struct memplan_log_size mpl_log_size_exact(uint64_t bytes);

/** Both sizes together; not known when one of them is not. */
struct memplan_log_size mpl_log_size_add(const struct memplan_log_size *a,
                                         const struct memplan_log_size *b);

/** a - b, not below 0 in any figure; not known when one of them is not. */
struct memplan_log_size mpl_log_size_sub(const struct memplan_log_size *a,
                                         const struct memplan_log_size *b);

/** True when the true size may be this one. */
bool mpl_log_size_may_be(const struct memplan_log_size *size, uint64_t bytes);

#endif
