/* SPDX-License-Identifier: MIT */
/* `memplan completion`: scripts for shells, which ask the command itself what may follow. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "complete.h"
#include "message.h"

/* Each script hands over the words up to the cursor, and gets one candidate a line, its help after
 * a tab; what is asked for in lines with a colon only the shell can do. */
/* clang-format off */
static const char *const bash_script[] = {
#include "memplan.bash.inc"
    NULL};
static const char *const zsh_script[] = {
#include "_memplan.inc"
    NULL};
static const char *const fish_script[] = {
#include "memplan.fish.inc"
    NULL};
/* clang-format on */

static const struct {
    const char *shell, *const *lines;
} script_table[] = {
    {"bash", bash_script},
    {"zsh", zsh_script},
    {"fish", fish_script},
};

static void print_lines(const char *const *lines)
{
    for (; *lines; lines++)
        puts(*lines);
}

int cmd_completion(const struct settings *settings)
{
    const char *what = settings->word_count ? settings->words[0] : "";

    if (strcmp(what, "words") == 0 && settings->word_count > 1) {
        complete_print(settings->words + 1, settings->word_count - 1);
        return 0;
    }
    for (size_t i = 0;
         settings->word_count == 1 && i < sizeof(script_table) / sizeof(*script_table); i++)
        if (strcmp(what, script_table[i].shell) == 0) {
            print_lines(script_table[i].lines);
            return 0;
        }
    return message_invalid("completion%s%s: expected bash, zsh or fish", *what ? " " : "", what);
}
