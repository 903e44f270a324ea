/* SPDX-License-Identifier: MIT */
/* How long a whole process takes, and its peak of memory: usage: run NAME COMMAND [ARG...]. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_REPEATS 200
#define ENOUGH       2.0 /* seconds in all, more or less */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds from fork to the end, or -1. What it prints is dropped. */
static double run(char **words)
{
    double start = now();
    pid_t child = fork();
    int status;

    if (child == 0) {
        int null = open("/dev/null", O_RDWR);

        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
            _exit(127);
        execvp(words[0], words);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    /* 0, 3 and 4 are answers; anything else did less work than a row should show. */
    if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3 && WEXITSTATUS(status) != 4)
        return -1;
    return now() - start;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    double seconds[MOST_REPEATS], sum = 0;
    struct rusage usage;
    size_t count = 0;

    if (argc < 3)
        return 2;
    while (count < MOST_REPEATS && sum < ENOUGH) {
        double one = run(argv + 2);

        if (one < 0) {
            printf("%-40s failed\n", argv[1]);
            return 1;
        }
        seconds[count++] = one;
        sum += one;
    }
    qsort(seconds, count, sizeof(*seconds), compare);
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%-40s %10.2f %10.2f %8zu %10.1f\n", argv[1], 1e3 * seconds[count / 2], 1e3 * seconds[0],
           count, (double)usage.ru_maxrss / 1024);
    return 0;
}
