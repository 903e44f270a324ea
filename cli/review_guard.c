/* SPDX-License-Identifier: MIT */
/*
 * `memplan review`: judges in a child, so that neither a plan that takes too long nor a crash keeps
 * the API server waiting for its answer.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "message.h"
#include "review.h"

#define MOST_ANSWERS 65536 /* bytes; a child gives a few lines */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One write of less than PIPE_BUF, so that the parent never sees a part of a line. */
static void send_answer(const struct review_answer *answer, void *data)
{
    char *line = review_answer_write(answer);
    ssize_t sent = line ? write(*(const int *)data, line, strlen(line)) : -1;

    free(line);
    if (sent < 0)
        _exit(CLI_INTERNAL);
}

/* Reads until the child is done or the time is up; true: it is done. What may still come behind an
 * answer, as what would fit, is worth a quarter of the time. */
static bool read_answers(int fd, unsigned seconds, char *text, size_t *len)
{
    const int64_t most = (int64_t)seconds * 1000;
    int64_t end = now_ms() + most;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    for (*len = 0; *len < MOST_ANSWERS - 1;) {
        int64_t left = end - now_ms();
        ssize_t got;
        int ready = left > 0 ? poll(&poll_fd, 1, (int)left) : 0;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        got = read(fd, text + *len, MOST_ANSWERS - 1 - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        if (*len == 0 && end > now_ms() + most / 4)
            end = now_ms() + most / 4;
        *len += (size_t)got;
    }
    return true;
}

/* The last whole line, new; NULL: there is none. */
static char *last_line(const char *text, size_t len)
{
    const char *end, *start;

    while (len && text[len - 1] != '\n')
        len--;
    if (!len)
        return NULL;
    end = text + len;
    for (start = end - 1; start > text && start[-1] != '\n'; start--)
        ;
    return strndup(start, (size_t)(end - start));
}

static int wait_for(pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* What the child said, or that it said nothing, and why. */
static char *collect(pid_t child, int fd, unsigned seconds, struct review_answer *answer)
{
    char text[MOST_ANSWERS], *line;
    size_t len;
    bool is_done = read_answers(fd, seconds, text, &len);
    int status;

    if (!is_done)
        kill(child, SIGKILL);
    status = wait_for(child);
    line = last_line(text, len);
    if (line)
        return line;
    if (!is_done)
        review_warn(answer, "not judged: it took longer than %u s", seconds);
    else if (WIFSIGNALED(status))
        review_warn(answer, "not judged: a crash (signal %d)", WTERMSIG(status));
    else
        review_warn(answer, "not judged: an internal error");
    answer->verdict = "not_judged";
    return review_answer_write(answer);
}

int review_guard(unsigned seconds, struct review_answer *answer, review_work *work,
                 const void *data, char **line_out)
{
    int ends[2];
    pid_t child = -1;

    if (pipe(ends) == 0) {
        fflush(NULL);
        child = fork();
        if (child == 0) {
            close(ends[0]);
            work(answer, send_answer, &ends[1], data);
            send_answer(answer, &ends[1]);
            _exit(0);
        }
        close(ends[1]);
        if (child > 0)
            *line_out = collect(child, ends[0], seconds, answer);
        close(ends[0]);
    }
    if (child < 0)
        message_print("review: %s", strerror(errno));
    else if (*line_out)
        return 0;
    else
        message_print("out of memory");
    return CLI_INTERNAL;
}
