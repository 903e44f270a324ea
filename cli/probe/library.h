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

/** A row of symbols for a member of a struct of functions; its names follow. */
#define PROBE_SYMBOL(type, member, is_needed_, ...)                                                \
    {                                                                                              \
        .offset = offsetof(type, member), .names = {__VA_ARGS__}, .is_needed = (is_needed_)        \
    }

/**
 * Opens the library that variable names, or soname, and fills functions. Returns 0 or a state of
 * *answer with its text. The library stays open as long as the process lives.
 */
bool probe_open(const char *variable, const char *soname, const struct probe_symbol *symbols,
                void *functions, struct probe_answer *answer);

#endif
