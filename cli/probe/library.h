/* SPDX-License-Identifier: MIT */
/* Probe: a driver's shared library, opened at run time. */
#ifndef CLI_PROBE_LIBRARY_H
#define CLI_PROBE_LIBRARY_H

#include <stddef.h>

#include "probe.h"

/** A function to look up: its names from new to old. */
struct probe_symbol {
    size_t offset;        /* of the pointer, in the struct of functions */
    const char *names[3]; /* NULL after the last */
    bool is_needed;
};

/**
 * Opens the library that variable names, or soname, and fills functions. Returns 0 or a state of
 * *answer with its text. The library stays open as long as the process lives.
 */
bool probe_open(const char *variable, const char *soname, const struct probe_symbol *symbols,
                void *functions, struct probe_answer *answer);

#endif
