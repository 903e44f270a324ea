/* SPDX-License-Identifier: MIT */
/* `memplan exec --record`: runs the command as a child, and records what became of it. */
#include "exec_record.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_entry.h"
#include "message.h"
#include "oom_watch.h"
#include "run.h"

static volatile sig_atomic_t child;

/* What another process sends to us is meant for the command. What the terminal sends, the command
 * gets by itself, as a member of the same group. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0 && child > 0)
        kill((pid_t)child, number);
}

static const int passed[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                             SIGUSR2, SIGWINCH, SIGALRM, SIGCONT};

#define PASSED (sizeof(passed) / sizeof(*passed))

static void catch_signals(struct sigaction *before)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < PASSED; i++) {
        sigaction(passed[i], NULL, &before[i]);
        /* Who started us under nohup wants the command to be so, too. */
        if (before[i].sa_handler != SIG_IGN)
            sigaction(passed[i], &action, NULL);
    }
}

static void restore_signals(const struct sigaction *before)
{
    for (size_t i = 0; i < PASSED; i++)
        sigaction(passed[i], &before[i], NULL);
}

/* In the child: standard error goes to our pipe, everything else stays as it was. */
static _Noreturn void become(char **words, const int *pipe_fds)
{
    int code;

    dup2(pipe_fds[1], STDERR_FILENO);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    execvp(words[0], words);
    code = errno == ENOENT || errno == ENOTDIR ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
    message_print("%s: %s", words[0], strerror(errno));
    _exit(code);
}

static void put(const char *bytes, size_t len)
{
    while (len) {
        const ssize_t done = write(STDERR_FILENO, bytes, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* nobody listens; the command must not notice */
        bytes += done;
        len -= (size_t)done;
    }
}

/* Passes on what is there. False at the end. */
static bool relay(int fd, struct oom_watch *watch)
{
    char bytes[1 << 16];
    const ssize_t got = read(fd, bytes, sizeof(bytes));

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    put(bytes, (size_t)got);
    if (watch && got > 0)
        oom_watch_feed(watch, bytes, (size_t)got);
    return got > 0;
}

/* A process that the command left behind may still write: somebody must read it, but the caller
 * waits for the command alone. */
static void leave_relay(int fd)
{
    if (fork() != 0)
        return;
    if (setsid() < 0)
        _exit(1);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (relay(fd, NULL))
        continue;
    _exit(0);
}

/* Until the command ends; then what it wrote last. Returns its wait status. */
static int attend(pid_t pid, int fd, struct oom_watch *watch)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int status = 0;
    bool is_open = true;

    while (is_open && waitpid(pid, &status, WNOHANG) == 0) {
        if (poll(&wait, 1, 50) > 0)
            is_open = relay(fd, watch);
    }
    if (!is_open)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    while (is_open && poll(&wait, 1, 0) > 0)
        is_open = relay(fd, watch);
    if (is_open)
        leave_relay(fd);
    oom_watch_end(watch);
    return status;
}

/* Says in one line what was recorded, or why nothing was. */
static void record(const struct settings *settings, int status, const struct oom_watch *watch)
{
    const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool oom = oom_watch_saw(watch);
    struct memplan_plan *plan = NULL;
    struct memplan_error err;
    struct input input;
    json_t *made = NULL;
    char *path, *file = NULL;

    if (ended_well == oom) {
        message_print(
            oom ? "nothing recorded: the command reported that it ran out of memory, and "
                  "ended well"
                : "nothing recorded: the command failed without an out-of-memory message");
        return;
    }
    if (run_read(settings, &input))
        return;
    path = ledger_path(settings);
    if (run_load(settings, &input, &plan, &err))
        message_error(&err, input.source);
    else if (!ledger_record_make(plan, input.source,
                                 json_pack("{s:s}", "outcome", oom ? "oom" : "ran"),
                                 oom_watch_message(watch), &made) &&
             !ledger_append(path, made, &file))
        message_print("recorded %s: %s; in %s", json_string_value(json_object_get(made, "id")),
                      oom ? "out of memory" : "ran", file);
    json_decref(made);
    memplan_plan_free(plan);
    input_free(&input);
    free(file);
    free(path);
}

/* Ends as the command did, so that who waits for us sees the same. */
static int end_like(int status)
{
    const struct rlimit none = {0, 0};

    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static int check(const struct settings *settings)
{
    char *path = ledger_path(settings);
    int code;

    if (settings->no_ledger || !path)
        code = message_invalid("exec: --record needs a ledger%s", path ? ", not --no-ledger" : "");
    else if (settings->model && strcmp(settings->model, "-") == 0)
        code = message_invalid(
            "exec: --record reads the plan again, expected a file, a preset or a command with "
            "flags of a trainer");
    else
        code = ledger_prepare(path);
    free(path);
    return code;
}

int exec_record(const struct settings *settings)
{
    struct oom_watch watch = {0};
    struct sigaction before[PASSED];
    int pipe_fds[2], status, code = check(settings);
    pid_t pid;

    if (code)
        return code;
    if (pipe(pipe_fds)) {
        message_print("pipe: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    fflush(NULL);
    catch_signals(before);
    pid = fork();
    if (pid == 0) {
        restore_signals(before);
        become(settings->words, pipe_fds);
    }
    close(pipe_fds[1]);
    if (pid < 0) {
        message_print("fork: %s", strerror(errno));
        close(pipe_fds[0]);
        return CLI_INTERNAL;
    }
    child = (sig_atomic_t)pid;
    status = attend(pid, pipe_fds[0], &watch);
    child = 0;
    restore_signals(before);
    close(pipe_fds[0]);
    record(settings, status, &watch);
    oom_watch_free(&watch);
    return end_like(status);
}
