/* SPDX-License-Identifier: MIT */
/* `memplan help`: the commands, the options of one, the fields of a plan. */
#include <memplan.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "message.h"

static void print_commands(void)
{
    const struct command *command;

    printf("usage: memplan [estimate] --model PLAN [OPTION...]\n"
           "       memplan COMMAND [OPTION...] [WORD...]\n"
           "\n"
           "Says how much GPU memory a training run will need, and whether it fits.\n"
           "\n"
           "commands:\n");
    for (size_t i = 0; (command = command_at(i)); i++)
        printf("  %-20s %s\n", command->name, command->help);
    printf("\n"
           "options of estimate:\n");
    options_print(&command_find("estimate")->options, stdout);
    printf("\n"
           "exit code: 0 fits, 3 does not fit, 4 inside the margin, 5 cannot tell,\n"
           "           2 wrong usage or invalid plan, 1 internal error\n"
           "\n"
           "memplan COMMAND --help lists the options of a command, memplan help fields those of\n"
           "--set. A first plan: memplan --model llama-3-8b --seq 4096\n");
}

static void print_command(const struct command *command)
{
    printf("usage: memplan %s%s%s\n\n%s\n\n", command->name, *command->arguments ? " " : "",
           command->arguments, command->help);
    options_print(&command->options, stdout);
}

int help_print(const char *topic, bool markdown)
{
    const struct command *command;

    if (!topic) {
        print_commands();
        return 0;
    }
    if (strcmp(topic, "fields") == 0)
        return fields_print(markdown);
    command = command_find(topic);
    if (!command)
        return message_invalid("help %s: expected a command or fields", topic);
    print_command(command);
    return 0;
}

int cmd_help(const struct settings *settings)
{
    if (settings->word_count > 1)
        return message_invalid("help: expected one word: a command or fields");
    return help_print(settings->word_count ? settings->words[0] : NULL, settings->markdown);
}
