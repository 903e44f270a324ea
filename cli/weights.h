/* SPDX-License-Identifier: MIT */
/* Files: headers of .safetensors files, never their data. */
#ifndef CLI_WEIGHTS_H
#define CLI_WEIGHTS_H

#include <memplan.h>
#include <stdbool.h>

/** Whether a file of that name holds weights, or is the index of some. */
bool weights_is_file(const char *path);
bool weights_is_index(const char *path);

/** Adds the header of a file: 8 bytes are read, and as many as they say. Returns 0, or an exit code
 * after a message. */
int weights_add(struct memplan_weights *weights, const char *path);

/** Adds an index, and the headers of those files that it names and that lie beside it. */
int weights_add_index(struct memplan_weights *weights, const char *path);

#endif
