/* SPDX-License-Identifier: MIT */
/* The commands: each has a file of its own and a row in main.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

/** One command. Its function gets the parsed command line and returns the exit code. */
struct command {
    const char *name;
    const char *arguments; /* for the first line of its help */
    const char *help;      /* one line */
    int (*run)(const struct settings *settings);
    struct option_set options;
    bool takes_words; /* words may follow the options */
};

/** Command i, or NULL past the last. */
const struct command *command_at(size_t i);

/** The command of that name, or NULL. */
const struct command *command_find(const char *name);

int cmd_estimate(const struct settings *settings);
int cmd_check(const struct settings *settings);
int cmd_exec(const struct settings *settings);
int cmd_review(const struct settings *settings);
int cmd_max(const struct settings *settings);
int cmd_min(const struct settings *settings);
int cmd_sweep(const struct settings *settings);
int cmd_calibrate(const struct settings *settings);
int cmd_replay(const struct settings *settings);
int cmd_pack(const struct settings *settings);
int cmd_probe(const struct settings *settings);
int cmd_import(const struct settings *settings);
int cmd_list(const struct settings *settings);
int cmd_read_log(const struct settings *settings);
int cmd_record(const struct settings *settings);
int cmd_history(const struct settings *settings);
int cmd_next(const struct settings *settings);
int cmd_completion(const struct settings *settings);
int cmd_schema(const struct settings *settings);
int cmd_help(const struct settings *settings);

/** The part of estimate that reads many plans, one a line. */
int jsonl_run(const struct settings *settings);

/** Help on one topic: a command's name, "fields", or NULL for the list of commands. */
int help_print(const char *topic, bool markdown);

/** Prints the card table, or one card of it. */
int gpus_print(const struct settings *settings);

/** Prints what libraries take of a card. */
int libraries_print(void);

/** Prints the list of fields, for people or in Markdown. */
int fields_print(bool markdown);

#endif
