/* SPDX-License-Identifier: MIT */
/* The program: finds the command's row, parses its options, calls its function. */
#include <errno.h>
#include <memplan.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "memory.h"
#include "message.h"
#include "probe/probe.h"
#include "text.h"

static const struct command command_table[] = {
    {"estimate",
     "[--model PLAN] [OPTION...]",
     "Prints the peaks, where they come from, the verdict, and what would fit.",
     cmd_estimate,
     {{options_plan, options_calibrated, options_estimate, options_ledger, options_common}, false},
     false},
    {"check",
     "[OPTION...] PLAN...",
     "Prints one line per plan; for hooks.",
     cmd_check,
     {{options_plan, options_check, options_calibrated, options_ledger, options_common}, false},
     true},
    {"exec",
     "[OPTION...] -- CMD [ARG...]",
     "Becomes CMD if the plan, or CMD as it stands, fits; refuses with 3, 4 or 5.",
     cmd_exec,
     {{options_plan, options_calibrated, options_exec, options_ledger, options_common}, true},
     true},
    {"review",
     "[OPTION...]",
     "Answers a Kubernetes AdmissionReview from standard input: refuses what does not fit.",
     cmd_review,
     {{options_review, options_calibrated, options_ledger, options_common}, false},
     false},
    {"max",
     "--model PLAN [OPTION...] FIELD",
     "Finds the largest value of a field with which the plan fits, and proves it.",
     cmd_max,
     {{options_plan, options_search, options_common}, false},
     true},
    {"min",
     "--model PLAN [OPTION...] FIELD",
     "Finds the least value of a field with which the plan fits, and proves it.",
     cmd_min,
     {{options_plan, options_search, options_common}, false},
     true},
    {"sweep",
     "--model PLAN [OPTION...] FIELD=A..B[:STEP|*FACTOR] | FIELD=A,B,... [FIELD=...]",
     "Estimates the plan for each value of a field, or of two, as a table or a drawing.",
     cmd_sweep,
     {{options_plan, options_sweep, options_common}, false},
     true},
    {"calibrate",
     "--model PLAN [OPTION...]",
     "Compares a plan with its readings, and writes corrections for --calibration.",
     cmd_calibrate,
     {{options_plan, options_calibrate, options_common}, false},
     false},
    {"replay",
     "[OPTION...] TRACE",
     "Runs a recorded trace through the allocator under other settings.",
     cmd_replay,
     {{options_replay, options_common}, false},
     true},
    {"pack",
     "--rule RULE --seq N[,N...] [OPTION...] LENGTHS",
     "Packs samples as training code does: steps of an epoch, padding, memory at each length.",
     cmd_pack,
     {{options_pack, options_common}, false},
     true},
    {"probe",
     "[--json] [--context] [--timeout SECONDS]",
     "Shows the cards of this machine, their memory, and what processes hold of it.",
     cmd_probe,
     {{options_probe, options_common}, false},
     false},
    {"import",
     "[-o PLAN] [--release VERSION] FILE...",
     "Makes a plan of a model's folder, trainers' configurations, a job script.",
     cmd_import,
     {{options_import, options_common}, false},
     true},
    {"list",
     "[models | families | optimizers | attention | losses | gpus [NAME] | libraries | fields]",
     "Lists presets and families; or one of optimizers, losses, cards and more.",
     cmd_list,
     {{options_common}, false},
     true},
    {"read-log",
     "[OPTION...] FILE...",
     "Finds out-of-memory messages in a run's log, and says what they prove.",
     cmd_read_log,
     {{options_read_log, options_common}, false},
     true},
    {"record",
     "--model PLAN (--bytes SIZE | --ran | --oom | --log FILE) [OPTION...]",
     "Writes into the ledger what became of a run.",
     cmd_record,
     {{options_plan, options_record, options_ledger, options_common}, false},
     false},
    {"history",
     "[--model PLAN] [OPTION...]",
     "Lists what became of runs, or of those that are like a plan.",
     cmd_history,
     {{options_plan, options_history, options_ledger, options_common}, false},
     false},
    {"next",
     "--model PLAN [OPTION...]",
     "Proposes what to run next, given what ran and what failed.",
     cmd_next,
     {{options_plan, options_next, options_ledger, options_common}, false},
     false},
    {"schema",
     "",
     "Prints the JSON schema of a plan.",
     cmd_schema,
     {{options_common}, false},
     false},
    {"completion",
     "bash | zsh | fish",
     "Prints the script that completes command lines in a shell.",
     cmd_completion,
     {{options_common}, true},
     true},
    {"help",
     "[COMMAND | fields]",
     "Explains a command, or lists the fields of a plan.",
     cmd_help,
     {{options_help, options_common}, false},
     true},
};

const struct command *command_at(size_t i)
{
    return i < sizeof(command_table) / sizeof(*command_table) ? &command_table[i] : NULL;
}

const struct command *command_find(const char *name)
{
    const struct command *command;

    for (size_t i = 0; (command = command_at(i)); i++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

/* A program that meets another library than it was compiled for should say so at once. */
static void compare_versions(void)
{
    if (strcmp(memplan_version(), MEMPLAN_VERSION_STRING) != 0)
        message_print("compiled for libmemplan %s, running with %s", MEMPLAN_VERSION_STRING,
                      memplan_version());
}

static int print_version(void)
{
    printf("memplan %s, libmemplan %s\n", MEMPLAN_VERSION_STRING, memplan_version());
    return 0;
}

/* One probe serves all plans of a call. */
static int probe_once(struct settings *settings)
{
    for (size_t i = 0; i < settings->assignment_count; i++)
        if (options_is_auto(&settings->assignments[i]))
            return probe_run(PROBE_SECONDS, false, &settings->probe);
    return 0;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct settings settings = {0};
    int code = options_parse(&command->options, argc, argv, &settings);

    if (code)
        ;
    else if (settings.help)
        code = help_print(settings.topic ? settings.topic : command->name, false);
    else if (settings.version)
        code = print_version();
    else if (settings.word_count && !command->takes_words)
        code =
            message_invalid("%s: unexpected word %s%s", command->name, settings.words[0],
                            command->run == cmd_estimate ? "; plans are given with --model" : "");
    else if (!(code = probe_once(&settings)))
        code = command->run(&settings);
    options_free(&settings);
    return code;
}

static int fail_command(const char *word)
{
    const struct command *command;

    if (access(word, F_OK) == 0)
        return message_invalid("%s is not a command; to estimate a plan: memplan --model %s", word,
                               word);
    for (size_t i = 0; (command = command_at(i)); i++)
        if (text_is_near(word, command->name))
            return message_invalid("unknown command %s, did you mean %s?", word, command->name);
    return message_invalid("unknown command %s; see memplan help", word);
}

static int dispatch(int argc, char **argv)
{
    const struct command *command = &command_table[0];

    if (argc < 2)
        return message_invalid("no command and no --model; see memplan help");
    if (argv[1][0] == '-') {
        /* --help without a command explains all of them. */
        if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
            return help_print(NULL, false);
        return run_command(command, argc, argv);
    }
    command = command_find(argv[1]);
    return command ? run_command(command, argc - 1, argv + 1) : fail_command(argv[1]);
}

int main(int argc, char **argv)
{
    int code;

    memory_prepare();
    compare_versions();
    code = dispatch(argc, argv);
    /* A report that did not reach its reader must not look like an answer. */
    if (fflush(stdout) || ferror(stdout)) {
        message_print("standard output: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    return code;
}
