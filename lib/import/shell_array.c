/* SPDX-License-Identifier: MIT */
/* Stage "import": arrays of a shell script, as launch scripts keep their flags in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "import/shell_inside.h"

/* An array stands beside the variables, under the name that is asked for. */
static bool array_name(const char *name, size_t len, char *text, size_t size)
{
    return len && (size_t)snprintf(text, size, "%.*s[@]", (int)len, name) < size;
}

const char *mpl_shell_array(const struct mpl_shell *shell, const char *name, size_t len)
{
    char text[72];

    return array_name(name, len, text, sizeof(text)) ? mpl_shell_get(shell, text) : NULL;
}

bool mpl_shell_open_array(struct mpl_shell *shell)
{
    size_t len = shell->len;

    if (!shell->has_word || shell->in_array || !len || shell->word[len - 1] != '=')
        return false;
    len--;
    shell->adds = len && shell->word[len - 1] == '+';
    len -= shell->adds;
    if (!len || len >= sizeof(shell->array))
        return false;
    shell->word[len] = '=';
    shell->word[len + 1] = '\0';
    if (mpl_shell_assignment(shell->word) != len)
        return false;
    memcpy(shell->array, shell->word, len);
    shell->array[len] = '\0';
    shell->in_array = true;
    shell->array_from = shell->command.count;
    shell->len = 0;
    shell->has_word = shell->is_open = false;
    return true;
}

/* Size of the values with what stands between them, and of those that were there before. */
static size_t measure(const struct mpl_shell *shell, const char *before)
{
    size_t size = before ? strlen(before) + 1 : 0;

    for (size_t i = shell->array_from; i < shell->command.count; i++)
        size += strlen(shell->command.words[i].text) + 1;
    return size + 1;
}

static void join(const struct mpl_shell *shell, const char *before, char *text)
{
    size_t used = 0;

    if (before && *before) {
        used = strlen(before);
        memcpy(text, before, used);
    }
    for (size_t i = shell->array_from; i < shell->command.count; i++) {
        const size_t len = strlen(shell->command.words[i].text);

        if (used)
            text[used++] = MPL_SHELL_BETWEEN;
        memcpy(text + used, shell->command.words[i].text, len);
        used += len;
    }
    text[used] = '\0';
}

bool mpl_shell_set_arguments(struct mpl_shell *shell, const char *const *words, size_t count)
{
    size_t size = 1, used = 0;
    bool is_set;
    char *text;

    for (size_t i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    text = size <= MOST_BYTES ? malloc(size) : NULL;
    if (!text)
        return false;
    *text = '\0';
    for (size_t i = 0; i < count; i++) {
        const char name[2] = {(char)('1' + i), '\0'};

        used += (size_t)snprintf(text + used, size - used, "%s%s", words[i],
                                 i + 1 < count ? (const char[]){MPL_SHELL_BETWEEN, '\0'} : "");
        if (i < 9)
            mpl_shell_set(shell, name, words[i]);
    }
    is_set = mpl_shell_set(shell, "@", text);
    free(text);
    return is_set;
}

void mpl_shell_close_array(struct mpl_shell *shell)
{
    const char *before =
        shell->adds ? mpl_shell_array(shell, shell->array, strlen(shell->array)) : NULL;
    const size_t size = measure(shell, before);
    char name[72], *text = size <= MOST_BYTES ? malloc(size) : NULL;

    shell->in_array = false;
    if (text) {
        join(shell, before, text);
        array_name(shell->array, strlen(shell->array), name, sizeof(name));
    }
    if (!text || !mpl_shell_set(shell, name, text))
        mpl_shell_fail(shell, "more than 1024 variables");
    free(text);
    while (shell->command.count > shell->array_from)
        free(shell->command.words[--shell->command.count].text);
}
