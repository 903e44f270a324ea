/* SPDX-License-Identifier: MIT */
/* Inside of the reader of shell scripts: shell.c, shell_array.c. */
#ifndef MPL_IMPORT_SHELL_INSIDE_H
#define MPL_IMPORT_SHELL_INSIDE_H

#include "import/shell.h"

#define MOST_VARIABLES 1024
#define MOST_WORD      8192
#define MOST_COMMANDS  20000
#define MOST_BYTES     ((size_t)16 << 20) /* of all words, after variables are filled in */

struct variable {
    char *name, *value;
};

struct mpl_shell {
    const char *file, *text, *end, *at;
    uint32_t line;
    size_t commands, bytes;
    struct variable variables[MOST_VARIABLES];
    size_t variable_count;
    struct mpl_shell_command command;
    /* the word under way */
    char word[MOST_WORD];
    size_t len;
    uint32_t word_line;
    bool has_word, is_open, has_failed;
    /* the array under way; the command's words before it */
    char array[64];
    bool in_array, adds;
    size_t array_from;
    const char *failure;
};

/** What the values of an array are kept apart by. */
#define MPL_SHELL_BETWEEN '\x1f'

/** NAME=( ... ): words up to the bracket are the array's values. False: no assignment stands
 * before the bracket. */
bool mpl_shell_open_array(struct mpl_shell *shell);
void mpl_shell_close_array(struct mpl_shell *shell);

/** Values of an array between MPL_SHELL_BETWEEN, or NULL. */
const char *mpl_shell_array(const struct mpl_shell *shell, const char *name, size_t len);

/** The word under way is one of the command. */
void mpl_shell_end_word(struct mpl_shell *shell);
void mpl_shell_fail(struct mpl_shell *shell, const char *text);

#endif
