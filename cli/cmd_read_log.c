/* SPDX-License-Identifier: MIT */
/* `memplan read-log`: the out-of-memory messages of a run, and what they prove. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "log_messages.h"
#include "message.h"

static int fail_memory(void)
{
    message_print("out of memory");
    return CLI_INTERNAL;
}

/* Takes what the library found so far. */
static int take(struct memplan_log *log, struct log_messages *messages)
{
    struct memplan_log_event event = {.size = sizeof(event)};

    while (memplan_log_next(log, &event))
        if (!log_messages_add(messages, &event))
            return fail_memory();
    return 0;
}

static uint64_t newlines(const char *bytes, size_t len)
{
    const char *end = bytes + len;
    uint64_t count = 0;

    while (bytes < end && (bytes = memchr(bytes, '\n', (size_t)(end - bytes)))) {
        bytes++;
        count++;
    }
    return count;
}

/* Feeds an open file to its end. */
static int feed(int fd, const char *source, struct memplan_log *log, struct log_messages *messages)
{
    char bytes[1 << 16], last = '\n';
    struct memplan_error err;
    int code = 0;
    ssize_t got;

    while (!code && (got = read(fd, bytes, sizeof(bytes)))) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return message_invalid("%s: %s", source, strerror(errno));
        messages->bytes += (uint64_t)got;
        messages->lines += newlines(bytes, (size_t)got);
        last = bytes[got - 1];
        if (memplan_log_feed(log, bytes, (size_t)got, &err))
            return message_error(&err, source);
        code = take(log, messages);
    }
    messages->lines += last != '\n';
    if (!code && memplan_log_end(log, &err))
        return message_error(&err, source);
    return code ? code : take(log, messages);
}

static int read_file(const char *path, struct log_messages *messages)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    const char *source = is_stdin ? "stdin" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct memplan_log *log = NULL;
    struct memplan_error err;
    int code;

    if (fd < 0)
        return message_invalid("%s: %s", path, strerror(errno));
    code =
        memplan_log_new(&log, &err) ? message_error(&err, source) : feed(fd, source, log, messages);
    memplan_log_free(log);
    if (!is_stdin)
        close(fd);
    return code;
}

/* Adds to the list for --json, or prints. */
static int show(const struct settings *settings, const struct log_messages *messages,
                const char *name, json_t *files)
{
    static bool is_second;

    if (settings->json)
        return json_array_append_new(files, log_messages_to_json(messages, name)) ? fail_memory()
                                                                                  : 0;
    if (is_second)
        putchar('\n');
    is_second = true;
    return log_messages_print(stdout, messages, name) ? 0 : fail_memory();
}

int cmd_read_log(const struct settings *settings)
{
    json_t *files = json_array(), *whole;
    int code = 0;

    if (!settings->word_count) {
        json_decref(files);
        return message_invalid("read-log: no file given; - is standard input");
    }
    for (size_t i = 0; i < settings->word_count && code != CLI_INTERNAL; i++) {
        struct log_messages messages = {0};
        const char *path = settings->words[i];
        int next = read_file(path, &messages);

        if (!next)
            next = show(settings, &messages, strcmp(path, "-") == 0 ? "stdin" : path, files);
        code = next ? next : code;
        log_messages_free(&messages);
    }
    if (!settings->json) {
        json_decref(files);
        return code;
    }
    whole = json_pack("{s:o}", "files", files);
    if (!whole || json_dumpf(whole, stdout, JSON_INDENT(2)))
        code = fail_memory();
    putchar('\n');
    json_decref(whole);
    return code;
}
