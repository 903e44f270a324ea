/* SPDX-License-Identifier: MIT */
/* Files: what the words of an import name: configurations, weights, folders of a model. */
#ifndef CLI_IMPORT_FILES_H
#define CLI_IMPORT_FILES_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>

#include "import.h"

struct import_files {
    struct input inputs[IMPORT_MOST_FILES];
    size_t count;
    struct memplan_weights *weights; /* NULL: none so far */
    char *weights_name;              /* of the first of them */
};

bool import_is_folder(const char *path);

/** Reads a configuration, the header of weights, or a folder of a model. Returns 0, or an exit code
 * after a message. */
int import_files_add(struct import_files *files, const char *path);

/** Puts what the weights say behind the other files. Once, after all are added. */
int import_files_end(struct import_files *files);

void import_files_free(struct import_files *files);

#endif
