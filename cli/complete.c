/* SPDX-License-Identifier: MIT */
/* What may stand at the end of a command line: from the tables that parse it. */
#include "complete.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "text.h"

/* A command line up to the word that is being written. */
struct line {
    const struct command *command;
    const struct option_row *open; /* an option that still wants its value; NULL: none */
    const char *last;              /* the last word that is no option or value; NULL: none */
    size_t first_word;             /* index of the first of them; SIZE_MAX: none */
    bool are_options_over;         /* after "--" */
};

static const struct option_row *find_row(const struct option_set *set, const char *name, size_t len)
{
    for (size_t t = 0; t < OPTION_TABLES && set->tables[t]; t++)
        for (const struct option_row *row = set->tables[t]; row->name; row++)
            if (strlen(row->name) == len && strncmp(row->name, name, len) == 0)
                return row;
    return NULL;
}

static bool wants_value(const struct option_row *row)
{
    return row && row->argument && row->kind != OPTION_HELP;
}

/* The option that a word names whose value is the next word; NULL: there is none. */
static const struct option_row *opens(const struct option_set *set, const char *word)
{
    const struct option_row *row = NULL;

    if (strcmp(word, "-o") == 0)
        row = find_row(set, "output", strlen("output"));
    else if (strncmp(word, "--", 2) == 0 && !strchr(word, '='))
        row = find_row(set, word + 2, strlen(word + 2));
    return wants_value(row) ? row : NULL;
}

/* Reads the words before the last, from `from` on, as options_parse would. */
static void read_words(struct line *line, char **words, size_t from, size_t count)
{
    const struct option_set *set = &line->command->options;

    for (size_t i = from; i + 1 < count; i++) {
        if (line->open)
            line->open = NULL;
        else if (!line->are_options_over && strcmp(words[i], "--") == 0)
            line->are_options_over = true;
        else if (!line->are_options_over && words[i][0] == '-' && words[i][1])
            line->open = opens(set, words[i]);
        else {
            line->last = words[i];
            if (line->first_word == SIZE_MAX)
                line->first_word = i;
            if (set->stop_at_word)
                return;
        }
    }
}

static void offer_options(struct completion *c, const struct option_set *set)
{
    for (size_t t = 0; t < OPTION_TABLES && set->tables[t]; t++)
        for (const struct option_row *row = set->tables[t]; row->name; row++) {
            char *name = text_format("--%s", row->name);

            if (name)
                complete_offer(c, name, "", row->help);
            free(name);
        }
}

/* A card is the one name that is known; others are the user's own. */
static bool offer_values(struct completion *c, const struct option_row *row)
{
    if (strcmp(row->argument, "NAME") == 0)
        return complete_values(c, row->path ? "CARD" : "");
    if (strcmp(row->name, "output") == 0)
        return complete_values(c, "FILE");
    return complete_values(c, row->argument);
}

/* Words that a command's line of usage has: "list [models | gpus [NAME] | fields]" are three, and
 * one after gpus. Words in capitals are arguments; options and their arguments are passed over. */
static bool offer_usage(struct completion *c, const struct line *line)
{
    const char *at = line->command->arguments, *owner = NULL;
    bool wants_files = false, is_options = false, has_argument = false;
    size_t owner_len = 0;

    while (*at) {
        const size_t gap = strspn(at, " []()|"), len = strcspn(at + gap, " []()|");
        const bool is_inner = memchr(at, '[', gap) && !memchr(at, '|', gap) && owner;
        char *token = text_format("%.*s", (int)len, at + gap);
        const bool follows = line->last && owner && strncmp(line->last, owner, owner_len) == 0 &&
                             strlen(line->last) == owner_len;

        at += gap + len;
        if (!token || !*token || strncmp(token, "OPTION", 6) == 0) {
            ;
        } else if (*token == '-') {
            is_options = true;
        } else if (is_options) {
            is_options = false; /* the option's own argument */
        } else if (islower((unsigned char)*token)) {
            owner = at - len;
            owner_len = len;
            if (!line->last)
                complete_offer(c, token, "", "");
        } else if (!has_argument && (!is_inner || follows)) {
            has_argument = true; /* what may be repeated stands there twice */
            wants_files = complete_values(c, strcmp(token, "NAME") == 0 ? "CARD" : token);
        }
        free(token);
    }
    return wants_files;
}

/* "--gpu=": the value is a part of the same word. */
static bool offer_joined(struct completion *c, const struct option_set *set)
{
    const size_t len = strcspn(c->word, "=");
    const struct option_row *row = find_row(set, c->word + 2, len - 2);
    char *before = text_format("%.*s=", (int)len, c->word);
    bool wants_files = false;

    if (row && before && row->kind == OPTION_HELP) {
        c->before = before;
        complete_values(c, "COMMAND");
        complete_offer(c, "fields", "", "the fields of a plan");
    } else if (wants_value(row) && before) {
        c->before = before;
        wants_files = offer_values(c, row);
    }
    c->before = "";
    free(before);
    return wants_files;
}

void complete_print(char **words, size_t count)
{
    struct completion c = {.word = words[count - 1], .before = ""};
    struct line line = {.first_word = SIZE_MAX};
    const bool has_command = count > 1 && words[0][0] != '-';
    bool wants_files = false;

    line.command = has_command ? command_find(words[0]) : command_at(0);
    if (!line.command)
        return;
    read_words(&line, words, has_command, count);
    if (line.command->options.stop_at_word && !line.open &&
        (line.first_word != SIZE_MAX || line.are_options_over)) {
        printf(":command %zu\n", line.first_word != SIZE_MAX ? line.first_word : count - 1);
        return;
    }
    if (line.open)
        wants_files = offer_values(&c, line.open);
    else if (!line.are_options_over && strncmp(c.word, "--", 2) == 0 && strchr(c.word, '='))
        wants_files = offer_joined(&c, &line.command->options);
    else if (!line.are_options_over && *c.word == '-')
        offer_options(&c, &line.command->options);
    else if (count == 1)
        complete_values(&c, "COMMAND");
    else if (line.command->takes_words)
        wants_files = offer_usage(&c, &line);
    if (c.stays_open)
        printf(":open\n");
    if (wants_files)
        printf(":files\n");
}
