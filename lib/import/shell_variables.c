/* SPDX-License-Identifier: MIT */
/* Stage "import": variables of a shell script. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "import/shell_inside.h"

const char *mpl_shell_get(const struct mpl_shell *shell, const char *name)
{
    for (size_t i = 0; i < shell->variable_count; i++)
        if (strcmp(shell->variables[i].name, name) == 0)
            return shell->variables[i].value;
    return NULL;
}

bool mpl_shell_set(struct mpl_shell *shell, const char *name, const char *value)
{
    char *copy = mpl_import_copy(value, strlen(value));
    struct variable *variable;

    for (size_t i = 0; copy && i < shell->variable_count; i++)
        if (strcmp(shell->variables[i].name, name) == 0) {
            free(shell->variables[i].value);
            shell->variables[i].value = copy;
            return true;
        }
    if (!copy || shell->variable_count == MOST_VARIABLES) {
        free(copy);
        return false;
    }
    variable = &shell->variables[shell->variable_count];
    *variable = (struct variable){mpl_import_copy(name, strlen(name)), copy};
    shell->variable_count += variable->name != NULL;
    return variable->name != NULL;
}

bool mpl_shell_inherit(struct mpl_shell *shell, const struct mpl_shell *from, uint32_t line)
{
    if (line)
        shell->line = line;
    for (size_t i = 0; i < from->variable_count; i++)
        if (!mpl_shell_set(shell, from->variables[i].name, from->variables[i].value))
            return false;
    return true;
}

size_t mpl_shell_assignment(const char *word)
{
    size_t len = 0;

    while (isalnum((unsigned char)word[len]) || word[len] == '_')
        len++;
    return len && len < 64 && word[len] == '=' && !isdigit((unsigned char)*word) ? len : 0;
}
