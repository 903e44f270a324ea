/* SPDX-License-Identifier: MIT */
/* What may stand at the end of a command line: from the tables that parse it. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

/** The word that is being written. */
struct completion {
    const char *word;
    const char *before; /* what candidates begin with besides, as "--gpu="; "" */
    bool stays_open;    /* a candidate goes on: no space after it */
};

/** Prints a candidate that begins with the word: text and suffix, and after a tab its help. */
void complete_offer(struct completion *c, const char *text, const char *suffix, const char *help);

/** Values of what --help calls `argument`, as "PLAN" or "FIELD=VALUE"; true: files, too. */
bool complete_values(struct completion *c, const char *argument);

/** Prints what may follow: words after "memplan", the last of which is being written. Lines that
 * begin with a colon ask for more: files, or the words of another program. */
void complete_print(char **words, size_t count);

#endif
