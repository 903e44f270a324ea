/* SPDX-License-Identifier: MIT */
/* Joins short texts, such as the parts of a name. */
#ifndef MPL_BASE_JOIN_H
#define MPL_BASE_JOIN_H

#include <stddef.h>

/** Writes the count parts one after the other into out, cut to size - 1 bytes, and ends it. Names
 * of all parameters are made for every length that is tried: printf would be a twentieth of the
 * time.
 */
void mpl_join(char *out, size_t size, const char *const *parts, size_t count);

#endif
