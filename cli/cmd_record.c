/* SPDX-License-Identifier: MIT */
/* `memplan record`: what became of a run, for the next one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "ledger_entry.h"
#include "message.h"
#include "oom_watch.h"
#include "run.h"
#include "text.h"

static int check_settings(const struct settings *settings)
{
    const int outcomes = settings->ran + settings->oom + (settings->log != NULL);

    if (!settings->model)
        return message_invalid("no plan: give --model PLAN; see memplan list for presets");
    if (settings->no_ledger)
        return message_invalid("record: --no-ledger leaves nothing to write to");
    if (outcomes > 1 || (!outcomes && !settings->bytes))
        return message_invalid("record: expected what became of the run, one of --bytes SIZE, "
                               "--ran, --oom and --log FILE");
    if (settings->bytes && (settings->oom || settings->log))
        return message_invalid("record: a run that ran out of memory has no peak: leave --bytes "
                               "out");
    if (settings->metric && !settings->bytes)
        return message_invalid("record: --metric says what --bytes is, which is missing");
    return 0;
}

/* The failure that a log tells of. */
static int read_log(const char *path, json_t **message_out)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct oom_watch watch = {0};
    char bytes[1 << 16];
    ssize_t got = -1;

    if (fd >= 0)
        while ((got = read(fd, bytes, sizeof(bytes))) > 0 || (got < 0 && errno == EINTR))
            if (got > 0)
                oom_watch_feed(&watch, bytes, (size_t)got);
    if (got < 0) {
        message_print("%s: %s", path, strerror(errno));
    } else {
        oom_watch_end(&watch);
        *message_out = oom_watch_message(&watch);
        if (!*message_out)
            message_print("%s: no out-of-memory message found; a run that ended well is recorded "
                          "with --ran",
                          path);
    }
    oom_watch_free(&watch);
    if (fd >= 0 && !is_stdin)
        close(fd);
    return *message_out ? 0 : CLI_INVALID;
}

/* {"bytes", "metric"} or {"outcome"}, as plans have readings. */
static json_t *make_reading(const struct settings *settings)
{
    json_t *reading = json_object();
    json_t *number = settings->bytes ? json_loads(settings->bytes, JSON_DECODE_ANY, NULL) : NULL;

    if (settings->bytes && !json_is_number(number)) {
        json_decref(number);
        number = json_string(settings->bytes);
    }
    if (number)
        json_object_set_new(reading, "bytes", number);
    if (settings->metric)
        json_object_set_new(reading, "metric", json_string(settings->metric));
    if (!settings->bytes)
        json_object_set_new(reading, "outcome", json_string(settings->ran ? "ran" : "oom"));
    return reading;
}

/* The library's own check of a reading, in the option's name. */
static int check_reading(struct memplan_plan *plan, const json_t *reading)
{
    json_t *copy = json_copy((json_t *)reading);
    struct memplan_error err = {0};
    char *text, *assignment;
    int code = 0;

    json_object_set_new(copy, "sequence_length", json_integer(1));
    text = json_dumps(copy, JSON_COMPACT);
    assignment = text_format("observations=[%s]", text ? text : "");
    if (!assignment || memplan_plan_set(plan, assignment, &err) || memplan_plan_check(plan, &err)) {
        snprintf(err.source, sizeof(err.source), "--%s",
                 strstr(err.path, "metric") ? "metric" : "bytes");
        code = message_error(&err, "record");
    }
    free(assignment);
    free(text);
    json_decref(copy);
    return code;
}

static int append(const struct settings *settings, json_t *record)
{
    char *path = ledger_path(settings), *file = NULL;
    char demands[160], says[64];
    struct ledger_entry entry = {.record = record};
    int code;

    if (!path)
        return message_invalid("no ledger: neither XDG_STATE_HOME nor HOME is set; give --ledger "
                               "PATH");
    code = ledger_append(path, record, &file);
    if (!code) {
        ledger_entry_check(&entry);
        ledger_demands_text(&entry.id, demands, sizeof(demands));
        printf("recorded %s: %s, %s; in %s\n", ledger_entry_text(&entry, "id"),
               ledger_entry_says(&entry, says, sizeof(says)), demands, file);
    }
    free(file);
    free(path);
    return code;
}

static int record(const struct settings *settings, struct memplan_plan *plan, const char *source)
{
    json_t *message = NULL, *made = NULL, *reading = make_reading(settings);
    int code = memplan_plan_check(plan, NULL) ? 0 : check_reading(plan, reading);

    if (!code && settings->log)
        code = read_log(settings->log, &message);
    if (code) {
        json_decref(reading);
        return code;
    }
    code = ledger_record_make(plan, source, reading, message, &made);
    if (!code)
        code = append(settings, made);
    json_decref(made);
    return code;
}

int cmd_record(const struct settings *settings)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err;
    struct input input;
    int code = check_settings(settings);

    if (code || (code = run_read(settings, &input)))
        return code;
    if (run_load(settings, &input, &plan, &err))
        code = message_error(&err, input.source);
    else
        code = record(settings, plan, input.source);
    memplan_plan_free(plan);
    input_free(&input);
    return code;
}
