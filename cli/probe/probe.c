/* SPDX-License-Identifier: MIT */
/* Probe: asks every driver in a child process, and reads its answer. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../message.h"
#include "runtime.h"

#define MOST_BYTES ((size_t)16 << 20)

struct probe_card *probe_add(struct probe *probe, enum probe_source source)
{
    struct probe_card *card = &probe->cards[probe->count];

    if (probe->count == PROBE_MOST_CARDS)
        return NULL;
    probe->count++;
    *card = (struct probe_card){
        .source = source,
        .number = -1,
        .parent = -1,
        .visible = -1,
        .node = -1,
        .instance = -1,
        .driver_total_bytes = PROBE_UNKNOWN,
        .reserved_bytes = PROBE_UNKNOWN,
        .free_bytes = PROBE_UNKNOWN,
        .total_bytes = PROBE_UNKNOWN,
        .context_bytes = PROBE_UNKNOWN,
    };
    return card;
}

void probe_path(char *path, size_t size, const char *format, ...)
{
    const char *root = getenv("MEMPLAN_PROBE_ROOT");
    int len = snprintf(path, size, "%s", root ? root : "");
    va_list args;

    if (len < 0 || (size_t)len >= size)
        return;
    va_start(args, format);
    vsnprintf(path + len, size - (size_t)len, format, args);
    va_end(args);
}

void probe_format(char *text, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
}

bool probe_read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool found = file && fgets(line, (int)size, file);

    if (file)
        fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}

/* The child: whatever a driver prints must not reach our reader, so its streams lead nowhere. */
static void ask(int fd, bool make_contexts)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    json_t *document;

    if (nowhere >= 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    if (!probe)
        _exit(1);
    probe_ask_nvml(probe);
    probe_ask_cuda(probe);
    probe_ask_amd(probe);
    probe_find_visible(probe);
    if (make_contexts)
        probe_ask_runtime(probe);
    document = probe_document(probe);
    _exit(document && json_dumpfd(document, fd, JSON_COMPACT) == 0 ? 0 : 1);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the child closes its end. False: the time is over. */
static bool read_answer(int fd, unsigned seconds, char *text, size_t *len)
{
    const int64_t end = now_ms() + (int64_t)seconds * 1000;

    *len = 0;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int64_t left = end - now_ms();
        int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        ssize_t got;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        got = read(fd, text + *len, MOST_BYTES - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        *len += (size_t)got;
    }
}

/* A probe that came to nothing: nothing is known of cards, and why. */
static json_t *failed_document(const char *why)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    json_t *document = NULL;

    if (!probe)
        return NULL;
    for (int i = 0; i < PROBE_SOURCE_COUNT; i++) {
        probe->answers[i].state = PROBE_FAILED;
        snprintf(probe->answers[i].text, sizeof(probe->answers[i].text), "%s", why);
    }
    document = probe_document(probe);
    free(probe);
    return document;
}

/* A child inside a driver's call that never returns cannot be killed: it is not waited for. */
static int end_child(pid_t child, bool answered)
{
    int status = -1;

    if (!answered)
        kill(child, SIGKILL);
    while (waitpid(child, &status, answered ? 0 : WNOHANG) < 0 && errno == EINTR)
        ;
    return status;
}

static json_t *collect(pid_t child, int fd, unsigned seconds, char *text)
{
    char why[96];
    size_t len;
    bool answered = read_answer(fd, seconds, text, &len);
    int status = end_child(child, answered);
    json_t *document = answered ? json_loadb(text, len, 0, NULL) : NULL;

    if (document)
        return document;
    if (!answered)
        snprintf(why, sizeof(why), "a driver did not answer within %u s", seconds);
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "a driver's library crashed (signal %d)", WTERMSIG(status));
    else
        snprintf(why, sizeof(why), "a driver's library ended the program");
    return failed_document(why);
}

int probe_run(unsigned seconds, bool make_contexts, json_t **document_out)
{
    char *text = malloc(MOST_BYTES);
    int ends[2] = {-1, -1};
    pid_t child = -1;

    *document_out = NULL;
    if (text && pipe2(ends, O_CLOEXEC) == 0) {
        fflush(NULL);
        child = fork();
    }
    if (child == 0)
        ask(ends[1], make_contexts);
    if (ends[1] >= 0)
        close(ends[1]);
    if (child > 0)
        *document_out = collect(child, ends[0], seconds, text);
    if (ends[0] >= 0)
        close(ends[0]);
    free(text);
    if (*document_out)
        return 0;
    message_print("probe: %s", child > 0 || !text ? "out of memory" : strerror(errno));
    return CLI_INTERNAL;
}

const json_t *probe_visible_card(const json_t *document, size_t i)
{
    const json_t *card;
    size_t k;

    json_array_foreach(json_object_get(document, "cards"), k, card)
    {
        const json_t *visible = json_object_get(card, "visible");

        if (json_is_integer(visible) && (size_t)json_integer_value(visible) == i)
            return card;
    }
    return NULL;
}

size_t probe_visible_count(const json_t *document)
{
    size_t count = 0;

    while (probe_visible_card(document, count))
        count++;
    return count;
}

/* The variable that hides cards; NULL when none is set. */
static const char *hiding_variable(const json_t *document)
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                        "HIP_VISIBLE_DEVICES"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (json_object_get(json_object_get(document, "environment"), names[i]))
            return names[i];
    return NULL;
}

static void add_reason(const json_t *source, const char *state, char *text, size_t size)
{
    size_t used = strlen(text);

    if (strcmp(json_string_value(json_object_get(source, "state")), state) == 0 &&
        !strstr(text, json_string_value(json_object_get(source, "text"))))
        snprintf(text + used, size - used, "%s%s", used ? "; " : "",
                 json_string_value(json_object_get(source, "text")));
}

void probe_explain_none(const json_t *document, char *text, size_t size)
{
    const size_t cards = json_array_size(json_object_get(document, "cards"));
    const char *variable = hiding_variable(document);
    char reasons[640] = "";
    const json_t *source;
    size_t i;

    json_array_foreach(json_object_get(document, "sources"), i, source)
    {
        add_reason(source, "failed", reasons, sizeof(reasons));
        if (!cards)
            add_reason(source, "answered", reasons, sizeof(reasons));
    }
    /* What is not there is of interest only when nothing else says why. */
    if (!reasons[0] && !cards)
        json_array_foreach(json_object_get(document, "sources"), i, source) if (i != PROBE_CUDA)
            add_reason(source, "absent", reasons, sizeof(reasons));
    if (!cards)
        snprintf(text, size, "no GPU found: %s", reasons);
    else if (variable)
        snprintf(
            text, size, "%zu GPU%s, none visible: %s is \"%s\"", cards, cards == 1 ? "" : "s",
            variable,
            json_string_value(json_object_get(json_object_get(document, "environment"), variable)));
    else
        snprintf(text, size, "%zu GPU%s, none visible%s%s", cards, cards == 1 ? "" : "s",
                 reasons[0] ? ": " : "", reasons);
}
