/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as a log, whole and in pieces, which must give the same. */
#include <memplan.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_EVENTS 64

static void check_size(const struct memplan_log_size *size)
{
    if (size->known > 1 || size->low > size->bytes || size->bytes > size->high ||
        (!size->known && size->high))
        abort();
}

/* What holds for every event. */
static void look_at(const struct memplan_log_event *event, size_t size)
{
    struct memplan_log_finding finding;

    check_size(&event->requested);
    check_size(&event->total);
    check_size(&event->free);
    check_size(&event->allowed);
    check_size(&event->allocated);
    check_size(&event->unallocated);
    check_size(&event->reserved);
    check_size(&event->private_pools);
    check_size(&event->in_use);
    if (event->offset >= size || !event->line || !*event->form ||
        event->process_count > MEMPLAN_LOG_PROCESSES)
        abort();
    for (size_t i = 0; memplan_log_find(event, i, &finding); i++)
        if (!*finding.name || !*finding.text || strlen(finding.text) + 1 >= sizeof(finding.text))
            abort();
}

static size_t read_log(const uint8_t *data, size_t size, size_t step,
                       struct memplan_log_event *events)
{
    struct memplan_log_event event = {.size = sizeof(event)};
    struct memplan_log *log = NULL;
    size_t count = 0;

    if (memplan_log_new(&log, NULL))
        abort();
    for (size_t at = 0; at <= size; at += step) {
        if (memplan_log_feed(log, data + at, size - at < step ? size - at : step, NULL) ||
            (at + step > size && memplan_log_end(log, NULL)))
            abort();
        while (memplan_log_next(log, &event)) {
            look_at(&event, size);
            if (count < MOST_EVENTS)
                events[count] = event;
            count++;
        }
    }
    memplan_log_free(log);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct memplan_log_event whole[MOST_EVENTS], pieces[MOST_EVENTS];
    const size_t count = read_log(data, size, size + 1, whole);
    const size_t kept = count < MOST_EVENTS ? count : MOST_EVENTS;

    if (read_log(data, size, 1 + size / 7, pieces) != count ||
        memcmp(whole, pieces, kept * sizeof(whole[0])) != 0)
        abort();
    return 0;
}
