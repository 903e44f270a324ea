/* SPDX-License-Identifier: MIT */
/* `memplan --jsonl`: plans from standard input, one a line; one report or error a line. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "lines.h"
#include "message.h"
#include "run.h"

/* The plan's own id, so that the error can be told from others; NULL when there is none. */
static json_t *find_id(const struct lines *line)
{
    json_t *plan = json_loadb(line->text, line->len, 0, NULL);
    json_t *id = json_incref(json_object_get(plan, "id"));

    json_decref(plan);
    return id;
}

/* {"error": {...}} on one line. Returns the error's exit code. */
static int print_error(const struct lines *line, size_t number, const struct memplan_error *err)
{
    json_t *id = line->too_long ? NULL : find_id(line);
    int code = message_code(err->status);
    json_t *error = json_pack("{s:s, s:i, s:I, s:s, s:s}", "status",
                              memplan_status_name(err->status), "code", code, "line",
                              (json_int_t)number, "path", err->path, "text", message_sentence(err));
    json_t *object = error ? json_pack("{s:o}", "error", error) : NULL;

    if (object && err->column)
        json_object_set_new(error, "column", json_integer((json_int_t)err->column));
    if (object && err->source[0] == '-')
        json_object_set_new(error, "option", json_string(err->source));
    if (object && id)
        json_object_set(object, "id", id);
    if (!object || json_dumpf(object, stdout, JSON_COMPACT)) {
        message_print("stdin:%zu: the error cannot be written", number);
        code = CLI_INTERNAL;
    } else {
        putchar('\n');
    }
    json_decref(object);
    json_decref(id);
    return code;
}

static int run_line(const struct settings *settings, const struct lines *line, size_t number)
{
    char source[] = "stdin";
    struct input input = {.text = line->text, .len = line->len, .source = source};
    struct memplan_error err = {.status = MEMPLAN_ERR_LIMIT};
    struct run run = {0};
    char *text = NULL;
    int code;

    if (line->too_long)
        snprintf(err.text, sizeof(err.text), "the line is larger than %zu MiB",
                 INPUT_MOST_BYTES >> 20);
    else if (!run_estimate(settings, &input, RUN_SUGGESTIONS, 0, &run, &err))
        run_to_json(&run, &text, &err);
    if (text) {
        puts(text);
        code = run_verdict(&run);
    } else {
        code = print_error(line, number, &err);
    }
    memplan_free(text);
    run_free(&run);
    return code;
}

int jsonl_run(const struct settings *settings)
{
    struct lines line = {0};
    bool invalid = false;
    int code = 0, got;

    if (settings->model || settings->dump)
        return message_invalid("--jsonl reads plans from standard input: leave --%s out",
                               settings->model ? "model" : "dump");
    for (size_t number = 1; !(got = lines_read(&line, INPUT_MOST_BYTES)); number++) {
        int next;

        if (lines_is_blank(&line))
            continue;
        next = run_line(settings, &line, number);
        invalid = invalid || next == CLI_INVALID;
        code = message_fold(code, next);
        /* Who feeds plans through a pipe waits for the answer before the next one. */
        fflush(stdout);
    }
    lines_free(&line);
    if (got != EOF)
        return got;
    return invalid ? CLI_INVALID : code;
}
