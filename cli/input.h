/* SPDX-License-Identifier: MIT */
/* Files: a plan's bytes, from a file, a preset or standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#define INPUT_MOST_BYTES ((size_t)64 << 20)

struct input {
    char *text; /* owned */
    size_t len;
    char *source; /* name for messages, owned */
};

/** Reads what --model names. Returns 0, or an exit code after a message; *input is set on success
 * only. */
int input_read(const char *model, struct input *input);

/** Reads a file that is no plan, "-" for standard input, of at most most_bytes. Returns as
 * input_read. */
int input_read_file(const char *path, size_t most_bytes, struct input *input);

/** Reads the preset of that name, and no other file. Returns as input_read. */
int input_read_preset(const char *name, struct input *input);

/** Whether there is a preset of that name. */
bool input_has_preset(const char *name);

void input_free(struct input *input);

/** Folder i in which presets are looked for, in order; NULL past the last. Borrowed. */
const char *input_folder(size_t i);

#endif
