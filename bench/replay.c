/* SPDX-License-Identifier: MIT */
/* How many events of a recorded trace the library replays in a second, by settings of the
 * allocator. The trace is a random walk over sizes from 512 bytes to 256 MiB, on a card that is
 * full. */
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS  400000
#define SLOTS   1500
#define REPEATS 9

static const char *const settings[] = {
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "per_process_memory_fraction:0.9,garbage_collection_threshold:0.8",
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* xorshift64: the same walk everywhere. */
static unsigned long long step(unsigned long long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A case (docs/replay.md) as text; NULL when out of memory. */
static char *make_case(size_t *len)
{
    static unsigned char held[SLOTS];
    unsigned long long state = 88172645463325252ULL;
    const size_t room = (size_t)EVENTS * 40 + 64;
    char *text = malloc(room);

    if (!text)
        return NULL;
    *len = (size_t)snprintf(text, room, "{\"total_mib\":8192,\"events\":[[\"m\"]");
    for (int i = 1; i < EVENTS; i++) {
        const unsigned slot = (unsigned)(step(&state) % SLOTS);
        const unsigned long long bytes = 512 + step(&state) % (1ULL << (9 + step(&state) % 20));

        *len += (size_t)snprintf(text + *len, room - *len,
                                 held[slot] ? ",[\"f\",%u]" : ",[\"a\",%u,%llu,0]", slot, bytes);
        held[slot] = !held[slot];
    }
    *len += (size_t)snprintf(text + *len, room - *len, "]}");
    return text;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int measure(const struct memplan_trace *trace, const char *conf)
{
    struct memplan_replay_options options = {.size = sizeof(options), .conf = conf};
    struct memplan_counters counters = {.size = sizeof(counters)};
    struct memplan_error err = {0};
    double seconds[REPEATS];

    for (int i = 0; i < REPEATS; i++) {
        struct memplan_replay *replay = NULL;
        double start = now();

        if (memplan_trace_replay(trace, &options, &replay, &err) ||
            memplan_replay_counters(replay, &counters, &err)) {
            printf("%s: %s\n", conf, err.text);
            return 1;
        }
        seconds[i] = now() - start;
        memplan_replay_free(replay);
    }
    qsort(seconds, REPEATS, sizeof(*seconds), compare);
    printf("%-66s %12.2f %9llu %9llu\n", *conf ? conf : "defaults",
           EVENTS / seconds[REPEATS / 2] / 1e6, (unsigned long long)counters.retries,
           (unsigned long long)counters.ooms);
    return 0;
}

int main(void)
{
    struct memplan_trace *trace = NULL;
    struct memplan_error err = {0};
    size_t len = 0;
    char *text = make_case(&len);
    int failed = 0;

    if (!text || memplan_trace_load(text, len, "bench", &trace, &err)) {
        printf("%s\n", err.text);
        free(text);
        return 1;
    }
    free(text);
    printf("%-66s %12s %9s %9s\n", "settings", "M events/s", "retries", "failed");
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        failed |= measure(trace, settings[i]);
    memplan_trace_free(trace);
    return failed;
}
