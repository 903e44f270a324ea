/* SPDX-License-Identifier: MIT */
/* Configurations of trainers as a plan, with the model from a preset or a folder. */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>

#include "input.h"

#define IMPORT_MOST_FILES 34 /* one place is kept for the model, one for the weights */
#define IMPORT_MOST_BYTES ((size_t)1 << 20)

#define IMPORT_SAYS     1u /* notes go to standard error */
#define IMPORT_NO_FILES 2u /* a model that is named is a preset, and nothing else is opened */

/** Makes a plan of configurations: *json_out is new, malloc'ed. release: of the trainer, or NULL.
 * Returns 0, or an exit code after a message. */
int import_plan(const struct input *inputs, size_t count, const char *release, unsigned how,
                char **json_out);

/** The model of the preset that a model's name stands for: "meta-llama/Llama-3.1-8B" is
 * llama-3.1-8b. No other file is opened. False: there is none, or it cannot be read. */
bool import_preset(const char *model, struct input *input);

/** The plan of a command that starts a run, with this process's folder and environment. Returns as
 * import_plan. */
int import_command(char **words, size_t count, const char *release, struct input *input);

/** Turns an input that is a configuration of a trainer into its plan; leaves any other as it is.
 * Returns 0, or an exit code after a message. */
int import_input(const char *release, unsigned how, struct input *input);

/** Reads a folder of a model, as import_files_add does, as its plan. */
int import_folder(const char *path, struct input *input);

#endif
