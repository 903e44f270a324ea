/* SPDX-License-Identifier: MIT */
/*
 * A launcher that asks before it launches:
 *
 *     launcher PLAN [FIELD=VALUE...] -- COMMAND [ARG...]
 *
 * becomes COMMAND when the plan fits, and else ends with the verdict as its exit code (3, 4 or 5)
 * and one line on standard error. Built against the installed library:
 *
 *     cc -o launcher launcher.c $(pkg-config --cflags --libs memplan)
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20) /* more than any plan written by hand */
#define INVALID    2         /* exit codes besides those of the verdict, as memplan exec has them */
#define NOT_FOUND  127

struct command_line {
    const char *plan;
    char **assignments; /* up to the "--" */
    char **command;     /* ends in NULL, as execvp wants it */
};

static int read_command_line(int argc, char **argv, struct command_line *line)
{
    int at = 2;

    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    if (at + 1 >= argc) {
        fprintf(stderr, "usage: launcher PLAN [FIELD=VALUE...] -- COMMAND [ARG...]\n");
        return INVALID;
    }
    *line = (struct command_line){argv[1], argv + 2, argv + at + 1};
    return 0;
}

static enum memplan_status fail(struct memplan_error *err, const char *text)
{
    *err = (struct memplan_error){.status = MEMPLAN_ERR_VALUE};
    snprintf(err->text, sizeof(err->text), "%s", text);
    return err->status;
}

/* The library itself opens no files. */
static enum memplan_status load(const char *path, struct memplan_plan **plan,
                                struct memplan_error *err)
{
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(MOST_BYTES) : NULL;
    size_t len = text ? fread(text, 1, MOST_BYTES, file) : 0;
    enum memplan_status status;

    if (!text || ferror(file) || len == MOST_BYTES)
        status = fail(err, len == MOST_BYTES ? "the file is too large" : "the file cannot be read");
    else
        status = memplan_plan_load(text, len, path, plan, err);
    free(text);
    if (file)
        fclose(file);
    return status;
}

static enum memplan_status estimate(const struct command_line *line, struct memplan_report **report,
                                    struct memplan_error *err)
{
    /* No figure is printed of a run that fits, so that the verdict is all that is asked for. */
    struct memplan_options options = {.size = sizeof(options), .verdict_only = 1};
    struct memplan_plan *plan = NULL;
    enum memplan_status status = load(line->plan, &plan, err);

    for (char **one = line->assignments; !status && strcmp(*one, "--") != 0; one++)
        status = memplan_plan_set(plan, *one, err);
    if (!status)
        status = memplan_estimate(plan, &options, report, err);
    memplan_plan_free(plan);
    return status;
}

int main(int argc, char **argv)
{
    struct memplan_report *report = NULL;
    struct command_line line;
    struct memplan_error err;
    int code = read_command_line(argc, argv, &line);

    if (code)
        return code;
    if (estimate(&line, &report, &err)) {
        fprintf(stderr, "launcher: %s: %s%s%s\n", line.plan, err.path, *err.path ? ": " : "",
                err.text);
        return err.status == MEMPLAN_ERR_UNSUPPORTED ? MEMPLAN_CANNOT_TELL : INVALID;
    }
    code = (int)memplan_report_verdict(report);
    if (code != MEMPLAN_FITS)
        fprintf(stderr, "launcher: refused: %s\n", memplan_report_reason(report));
    memplan_report_free(report);
    if (code != MEMPLAN_FITS)
        return code;
    execvp(line.command[0], line.command);
    fprintf(stderr, "launcher: %s: %s\n", line.command[0], strerror(errno));
    return NOT_FOUND;
}
