/* SPDX-License-Identifier: MIT */
/*
 * SPANK plugin: sbatch, srun and salloc get --memplan=PLAN, checked before anything is sent to the
 * controller. It runs the memplan command, as the user; nothing of memplan is loaded into Slurm.
 * plugstack.conf:  required spank_memplan.so [command=/usr/bin/memplan] [timeout_ms=2000]
 * [gpu=CARD]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(memplan, 1)

/* How a step inside of a job inherits the job's option. */
#define INHERITED "SLURM_SPANK__SLURM_SPANK_OPTION_memplan_memplan"

#define DOES_NOT_FIT 3
#define MOST_OUTPUT  8192

/* Slurm calls the plugin's functions one after another in one thread, with nothing to hand on. */
static char plan[4096];
static const char *command = MEMPLAN_COMMAND;
static const char *gpu;
static bool checks = true; /* else cli_filter does, which sees the request too */
static int timeout_ms = 2000;

struct answer {
    char output[MOST_OUTPUT];
    size_t len;
    int code;        /* exit code; -1: there is none */
    const char *why; /* there is none */
};

static int take_option(int value, const char *argument, int remote)
{
    (void)value;
    (void)remote;
    if (!argument || !*argument || strlen(argument) >= sizeof(plan)) {
        slurm_error("memplan: --memplan: expected the name of a plan");
        return -1;
    }
    snprintf(plan, sizeof(plan), "%s", argument);
    return 0;
}

static struct spank_option option = {
    .name = "memplan",
    .arginfo = "PLAN",
    .usage = "refuse the job if the run that PLAN describes cannot fit",
    .has_arg = 1,
    .cb = take_option,
};

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int left_ms(long long end)
{
    const long long left = end - now_ms();

    return left > 0 ? (int)left : 0;
}

/* In the child: a group of its own, so that all of it can be ended; no signal held back. */
static void become_command(int out)
{
    const char *argv[6] = {command, "check"};
    int nothing = open("/dev/null", O_RDONLY), count = 2;
    char named[256];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (gpu) {
        snprintf(named, sizeof(named), "--gpu=%s", gpu);
        argv[count++] = named;
    }
    argv[count++] = "--";
    argv[count] = plan;
    if (nothing >= 0 && dup2(nothing, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2)
        execv(command, (char *const *)argv);
    _exit(127);
}

/* What the command prints, until it closes its output or time is up. More than there is room for
 * is read and forgotten. */
static void read_output(int in, long long end, struct answer *answer)
{
    struct pollfd ready = {.fd = in, .events = POLLIN};
    char text[1024];
    int left;

    while ((left = left_ms(end)) > 0) {
        ssize_t got;
        size_t room = sizeof(answer->output) - 1 - answer->len;

        if (poll(&ready, 1, left) <= 0)
            continue;
        got = read(in, text, sizeof(text));
        if (got == 0 || (got < 0 && errno != EINTR))
            return;
        if (got > 0) {
            room = (size_t)got < room ? (size_t)got : room;
            memcpy(answer->output + answer->len, text, room);
            answer->len += room;
        }
    }
}

/* Waits until the child has ended, or time is up: one that hangs in the kernel, on a file server
 * that does not answer, does not even end when it is killed. */
static bool has_ended(pid_t child, long long end, int *status)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    pid_t got;

    for (;;) {
        got = waitpid(child, status, WNOHANG);
        if (got == child)
            return true;
        if ((got < 0 && errno != EINTR) || left_ms(end) == 0)
            return false;
        nanosleep(&pause, NULL);
    }
}

static void judge(bool is_known, bool is_late, int status, struct answer *answer)
{
    if (is_known && WIFEXITED(status))
        answer->code = WEXITSTATUS(status);
    if (is_late && answer->code < 0)
        answer->why = "it did not answer in time";
    else if (answer->code < 0)
        answer->why = "it crashed";
    else if (answer->code == 127)
        answer->why = "it cannot be run";
}

static void run_command(struct answer *answer)
{
    const long long end = now_ms() + timeout_ms;
    int ends[2], status = 0;
    bool is_known, is_late;
    pid_t child;

    *answer = (struct answer){.code = -1, .why = "it cannot be started"};
    if (pipe2(ends, O_CLOEXEC))
        return;
    child = fork();
    if (child == 0)
        become_command(ends[1]);
    close(ends[1]);
    if (child > 0) {
        setpgid(child, child);
        read_output(ends[0], end, answer);
        is_known = has_ended(child, end, &status);
        is_late = left_ms(end) == 0;
        kill(-child, SIGKILL); /* whatever is left of it */
        if (!is_known)
            is_known = has_ended(child, now_ms() + 100, &status);
        answer->why = "it gave no verdict";
        judge(is_known, is_late, status, answer);
    }
    close(ends[0]);
}

static void print_output(struct answer *answer)
{
    char *rest = answer->output, *line;

    answer->output[answer->len] = '\0';
    while ((line = strsep(&rest, "\n")))
        if (*line && answer->code == DOES_NOT_FIT)
            slurm_error("%s", line);
        else if (*line)
            slurm_info("%s", line);
}

static void take_argument(const char *argument)
{
    if (strncmp(argument, "command=", 8) == 0)
        command = argument + 8;
    else if (strncmp(argument, "gpu=", 4) == 0)
        gpu = argument + 4;
    else if (strncmp(argument, "timeout_ms=", 11) == 0 && atoi(argument + 11) > 0)
        timeout_ms = atoi(argument + 11);
    else if (strcmp(argument, "check=no") == 0)
        checks = false;
    else
        slurm_error("memplan: plugstack.conf: found %s, expected command=, timeout_ms=, gpu= or "
                    "check=no",
                    argument);
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    const spank_context_t context = spank_context();

    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return 0;
    for (int i = 0; i < count && context != S_CTX_REMOTE; i++)
        take_argument(arguments[i]);
    /* On the node too, where nothing is checked: a step with an option that is unknown there fails.
     */
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
    const spank_context_t context = spank_context();
    const char *inherited = getenv(INHERITED);
    struct answer answer;

    (void)spank;
    (void)count;
    (void)arguments;
    if (!*plan || !checks || (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR))
        return 0;
    /* It was checked when the job was submitted; from here its name may lead elsewhere. */
    if (getenv("SLURM_JOB_ID") && inherited && strcmp(inherited, plan) == 0)
        return 0;
    run_command(&answer);
    print_output(&answer);
    if (answer.code == DOES_NOT_FIT)
        return -1;
    if (answer.code != 0 && answer.code != 4)
        slurm_info("memplan: %s was not checked (%s); the job goes on", plan,
                   answer.why ? answer.why : "it cannot tell");
    return 0;
}
