/* SPDX-License-Identifier: MIT */
/* How long the library takes for one estimate of each preset, and what memory it holds at most. */
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES   (1 << 20)
#define MOST_REPEATS 50
#define ENOUGH       1.0 /* seconds that one row may take, more or less */

struct row {
    const char *preset;
    unsigned no_suggestions;
};

static const struct row rows[] = {
    {"llama-3.2-1b", 1}, {"llama-3-8b", 1}, {"llama-3-8b", 0}, {"llama-3-70b", 1},
    {"llama-3-70b", 0},  {"eagle3", 1},     {"eagle3", 0},
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *read_preset(const char *folder, const char *name, size_t *len)
{
    char path[512];
    FILE *file;
    char *text = NULL;

    snprintf(path, sizeof(path), "%s/%s.json", folder, name);
    file = fopen(path, "rb");
    if (file && (text = malloc(MOST_BYTES)))
        *len = fread(text, 1, MOST_BYTES, file);
    if (file)
        fclose(file);
    return text;
}

/* One estimate, from JSON to the end. Returns seconds, or -1 after a message. */
static double estimate(const struct row *row, const char *text, size_t len)
{
    struct memplan_options options = {.size = sizeof(options),
                                      .no_suggestions = row->no_suggestions};
    struct memplan_plan *plan = NULL;
    struct memplan_report *report = NULL;
    struct memplan_error err = {0};
    double start = now();
    enum memplan_status status = memplan_plan_load(text, len, row->preset, &plan, &err);

    if (!status)
        status = memplan_estimate(plan, &options, &report, &err);
    memplan_report_free(report);
    memplan_plan_free(plan);
    if (!status)
        return now() - start;
    printf("%-14s %s %s\n", row->preset, err.path, err.text);
    return -1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int measure(const struct row *row, const char *folder)
{
    double seconds[MOST_REPEATS], sum = 0;
    struct rusage usage;
    size_t len = 0, count = 0;
    char *text = read_preset(folder, row->preset, &len);

    if (!text) {
        printf("%-14s cannot be read in %s\n", row->preset, folder);
        return 1;
    }
    while (count < MOST_REPEATS && sum < ENOUGH) {
        double one = estimate(row, text, len);

        if (one < 0)
            break;
        seconds[count++] = one;
        sum += one;
    }
    free(text);
    if (!count)
        return 1;
    qsort(seconds, count, sizeof(*seconds), compare);
    getrusage(RUSAGE_SELF, &usage);
    printf("%-14s %-16s %10.2f %10.2f %8zu %10.1f\n", row->preset,
           row->no_suggestions ? "verdict" : "and suggestions", 1e3 * seconds[count / 2],
           1e3 * seconds[0], count, (double)usage.ru_maxrss / 1024);
    return 0;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "models";
    int failed = 0, status;

    printf("%-14s %-16s %10s %10s %8s %10s\n", "preset", "what", "median ms", "least ms", "repeats",
           "peak MiB");
    fflush(stdout);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        /* A process for each row: the peak of memory is the process's. */
        pid_t child = fork();

        if (child == 0) {
            status = measure(&rows[i], folder);
            fflush(stdout);
            _exit(status);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            failed = 1;
    }
    return failed;
}
