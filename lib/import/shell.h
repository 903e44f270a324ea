/* SPDX-License-Identifier: MIT */
/* Stage "import": a shell script as commands of words, its own variables filled in. */
#ifndef MPL_IMPORT_SHELL_H
#define MPL_IMPORT_SHELL_H

#include <memplan.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPL_SHELL_MOST_WORDS 1024 /* of one command */

struct mpl_shell_word {
    char *text;
    uint32_t line;
    bool is_open; /* depends on what the script does not set */
};

/** One command under way; the words belong to the reader. */
struct mpl_shell_command {
    struct mpl_shell_word words[MPL_SHELL_MOST_WORDS];
    size_t count;
};

struct mpl_shell;

/** text must live as long as the reader. NULL: out of memory. */
struct mpl_shell *mpl_shell_new(const char *file, const char *text, size_t len);
void mpl_shell_free(struct mpl_shell *shell);

/** The next command; false at the end, or on failure, which fills *err. */
bool mpl_shell_next(struct mpl_shell *shell, struct memplan_error *err);
const struct mpl_shell_command *mpl_shell_command(const struct mpl_shell *shell);

/** Sets a variable as an assignment does. */
bool mpl_shell_set(struct mpl_shell *shell, const char *name, const char *value);
/** Value of a variable, or NULL. */
const char *mpl_shell_get(const struct mpl_shell *shell, const char *name);

/** Takes the variables of another reader over; line: of the script's first one; 0: as it is. */
bool mpl_shell_inherit(struct mpl_shell *shell, const struct mpl_shell *from, uint32_t line);

/** What "$1" and "$@" are. False: out of memory. */
bool mpl_shell_set_arguments(struct mpl_shell *shell, const char *const *words, size_t count);

/** Length of the name in NAME=value, or 0. */
size_t mpl_shell_assignment(const char *word);

#endif
