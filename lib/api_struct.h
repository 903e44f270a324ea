/* SPDX-License-Identifier: MIT */
/* Structs that carry their size, and missing arguments: what every public entry point does with
 * them. */
#ifndef MPL_API_STRUCT_H
#define MPL_API_STRUCT_H

#include <memplan.h>

/** "what must not be NULL", MEMPLAN_ERR_ARG. */
enum memplan_status mpl_api_missing(struct memplan_error *err, const char *what);

/**
 * Takes a caller's options into our own struct of own_size bytes, which is zero. A caller built
 * with an older header knows fewer members, one with a newer header more: those must be zero, since
 * nothing here would heed them. Both begin with their size.
 */
enum memplan_status mpl_api_take(void *own, size_t own_size, const void *given,
                                 struct memplan_error *err);

/** Gives our own struct to a caller, as much of it as his size says; it keeps his size. */
enum memplan_status mpl_api_give(void *to, void *own, size_t own_size, struct memplan_error *err);

#endif
