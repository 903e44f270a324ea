/* SPDX-License-Identifier: MIT */
/* Files that a job script or a command names. */
#ifndef CLI_IMPORT_NAMED_H
#define CLI_IMPORT_NAMED_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>

#include "input.h"

#define IMPORT_MOST_NAMED 16

/** Where named files are looked for, and those that were read. */
struct import_named {
    bool is_closed;  /* what came through a pipe names nothing that is opened */
    bool here_first; /* the command is about to run here; else beside the file that names it */
    bool says;       /* one line on standard error for each */
    struct input files[IMPORT_MOST_NAMED];
    size_t count;
};

/** The function for struct memplan_import_options, whose user is a struct import_named. */
memplan_import_open import_open_named;

/** Path of a regular file that another one names, or NULL; new. */
char *import_find_named(const struct import_named *named, const char *from, const char *path);

void import_named_free(struct import_named *named);

#endif
