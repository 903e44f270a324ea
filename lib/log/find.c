/* SPDX-License-Identifier: MIT */
/*
 * What follows from one message, and what does not. Every statement holds for whatever the true
 * sizes are within the rounding of the printed ones.
 */
#include "log/find.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "log/size.h"

/* Segments of the caching allocator: a small request takes 2 MiB, one below 10 MiB takes 20 MiB,
 * a larger one is rounded up to 2 MiB. */
#define SMALL_SEGMENT  (2 * MPL_MIB)
#define MIDDLE_SEGMENT (20 * MPL_MIB)
#define GRAIN          (2 * MPL_MIB)

static bool say(struct memplan_log_finding *finding, const char *name, struct memplan_log_size size,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool say(struct memplan_log_finding *finding, const char *name, struct memplan_log_size size,
                const char *format, ...)
{
    va_list args;

    finding->name = name;
    finding->size = size;
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    return true;
}

#define TEXT 32

/* "3.47 GiB", MiB below one GiB, and bytes below one MiB. */
static const char *show(uint64_t bytes, char text[TEXT])
{
    if (bytes >= MPL_GIB)
        snprintf(text, TEXT, "%.2f GiB", (double)bytes / (double)MPL_GIB);
    else if (bytes >= MPL_MIB)
        snprintf(text, TEXT, "%.2f MiB", (double)bytes / (double)MPL_MIB);
    else
        snprintf(text, TEXT, "%llu bytes", (unsigned long long)bytes);
    return text;
}

static struct memplan_log_size at_least(uint64_t bytes)
{
    return (struct memplan_log_size){.bytes = bytes, .low = bytes, .high = UINT64_MAX, .known = 1};
}

/* The smallest block for which a segment of that size is asked, with large_segment_size_mb as it is
 * by default.
 * shape: one block; unit: bytes; source: get_allocation_size of the caching allocator. */
static uint64_t least_block(const struct memplan_log_size *segment)
{
    if (mpl_log_size_may_be(segment, SMALL_SEGMENT))
        return 512;
    if (mpl_log_size_may_be(segment, MIDDLE_SEGMENT))
        return MPL_MIB + 512;
    return segment->low > GRAIN ? segment->low - GRAIN + 512 : 512;
}

/* The figures are what live tensors held, at least, and what one more would have taken.
 * shape: this rank; unit: allocated bytes; source: the message: allocated_bytes plus the free
 * blocks of private pools, and the segment. */
static bool find_needs(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    uint64_t pools = event->private_pools.known ? event->private_pools.high : 0;
    uint64_t held, block, sum;
    char a[TEXT], b[TEXT], c[TEXT];

    if (event->kind != MEMPLAN_LOG_ALLOCATOR || !event->allocated.known || !event->requested.known)
        return false;
    held = event->allocated.low > pools ? event->allocated.low - pools : 0;
    block = least_block(&event->requested);
    sum = mpl_add(held, block);
    return say(finding, "needs", at_least(sum),
               "needs at least %s allocated on this card at that moment: blocks in use held %s, "
               "and one more of %s or larger was asked for",
               show(sum, a), show(held, b), show(block, c));
}

static bool is_below(const struct memplan_log_size *a, const struct memplan_log_size *b)
{
    return a->known && b->known && a->high < b->low;
}

static bool reaches(const struct memplan_log_size *a, const struct memplan_log_size *b)
{
    return a->known && b->known && a->low >= b->high;
}

/* A limit of the process, or a card that had room: neither is a lack of memory on the card. */
static bool find_limit(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    char a[TEXT], b[TEXT];

    if (event->kind == MEMPLAN_LOG_LIMIT)
        return say(
            finding, "limit", event->requested,
            "refused by a limit of this process before the driver was asked; the message does "
            "not say how much was free");
    if (event->allowed.known)
        return say(
            finding, "limit", event->allowed,
            "this process may reserve %s (per_process_memory_fraction); the card had %s free",
            show(event->allowed.bytes, a),
            event->free.known ? show(event->free.bytes, b) : "an unknown amount");
    if (event->kind == MEMPLAN_LOG_ALLOCATOR && reaches(&event->free, &event->requested))
        return say(
            finding, "room", event->free,
            "the card had %s free, more than was asked for: a limit outside PyTorch, a driver "
            "that counts otherwise, or memory that others gave back in the meantime",
            show(event->free.bytes, a));
    return false;
}

static bool is_plain(const struct memplan_log_event *event)
{
    return event->kind == MEMPLAN_LOG_ALLOCATOR && !event->allowed.known && event->free.known &&
           event->unallocated.known && event->requested.known &&
           !reaches(&event->free, &event->requested);
}

/* Fragmentation or a true lack: would the request have fitted into what was free on the card and
 * what PyTorch held without use, had both been one piece? */
static bool find_shortage(const struct memplan_log_event *event,
                          struct memplan_log_finding *finding)
{
    struct memplan_log_size spare, missing;
    char a[TEXT], b[TEXT];

    if (!is_plain(event))
        return false;
    spare = mpl_log_size_add(&event->free, &event->unallocated);
    missing = mpl_log_size_sub(&event->requested, &spare);
    if (is_below(&spare, &event->requested))
        return say(finding, "shortage", missing,
                   "a true shortage: without any fragmentation %s would have been missing all the "
                   "same",
                   show(missing.bytes, a));
    if (reaches(&event->unallocated, &event->requested))
        return say(finding, "fragmentation", event->unallocated,
                   "fragmentation: PyTorch held %s in free pieces, more than the %s asked for, and "
                   "none was large enough",
                   show(event->unallocated.bytes, a), show(event->requested.bytes, b));
    if (reaches(&spare, &event->requested))
        return say(
            finding, "fragmentation", event->unallocated,
            "fragmentation: with the %s that PyTorch held in free pieces the card had enough",
            show(event->unallocated.bytes, a));
    return say(finding, "undecided", spare,
               "what was free and what PyTorch held in free pieces equal the request within their "
               "rounding: shortage or fragmentation");
}

/* Blocks of other processes on the card. Where the message does not name this one, a container may
 * hide its number: only one that holds less than PyTorch reserved is surely another. */
static struct memplan_log_size others(const struct memplan_log_event *event)
{
    struct memplan_log_size sum = {0};

    for (uint32_t i = 0; i < event->process_count && i < MEMPLAN_LOG_PROCESSES; i++) {
        const struct memplan_log_size *in_use = &event->processes[i].in_use;

        if (event->in_use.known || is_below(in_use, &event->reserved))
            sum = sum.known ? mpl_log_size_add(&sum, in_use) : *in_use;
    }
    return sum;
}

static bool find_others(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    const struct memplan_log_size sum = others(event);
    char a[TEXT];

    if (sum.known)
        return say(finding, "others", sum, "other processes held %s of this card",
                   show(sum.bytes, a));
    if (event->in_use.known && !event->process_count)
        return say(finding, "alone", (struct memplan_log_size){0},
                   "the driver named no other process on this card");
    return false;
}

/* What this process holds besides PyTorch's segments; without its figure, what all do. */
static bool find_outside(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    struct memplan_log_size size;
    char a[TEXT];

    if (!event->reserved.known)
        return false;
    if (event->in_use.known && event->in_use.high >= event->reserved.low) {
        size = mpl_log_size_sub(&event->in_use, &event->reserved);
        return say(finding, "outside", size,
                   "this process held %s besides PyTorch's allocator: context, NCCL, libraries",
                   show(size.bytes, a));
    }
    if (!event->free.known || !event->total.known)
        return false;
    size = mpl_log_size_sub(&event->total, &event->free);
    if (is_below(&size, &event->reserved)) /* a driver that pages to the host */
        return false;
    size = mpl_log_size_sub(&size, &event->reserved);
    return say(
        finding, "outside", size,
        "%s of the card was held by neither PyTorch nor free: context, NCCL, libraries, other "
        "processes",
        show(size.bytes, a));
}

static bool find_setting(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    if (event->expandable != MEMPLAN_LOG_EXPANDABLE_ON)
        return false;
    return say(finding, "expandable_segments", (struct memplan_log_size){0},
               event->kind == MEMPLAN_LOG_WARNING
                   ? "expandable segments were on"
                   : "expandable segments were on, unless the text was cut there: the hint at its "
                     "end is missing");
}

static bool find_kind(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    const struct memplan_log_size none = {0};

    switch (event->kind) {
    case MEMPLAN_LOG_WARNING:
        return say(finding, "retried", event->requested,
                   "no failure by itself: the driver refused, and the allocator gave back what it "
                   "could and tried again");
    case MEMPLAN_LOG_DRIVER:
        return say(finding, "outside_allocator", none,
                   "the driver ran out of memory outside PyTorch's allocator; the message has no "
                   "figures, and blocks that PyTorch held without use did not help");
    case MEMPLAN_LOG_LIBRARY:
        return say(finding, "outside_allocator", none,
                   strstr(event->form, "create")
                       ? "a library could not start; that is most often, not always, a full card"
                       : "a library ran out of memory for itself, outside PyTorch's allocator; the "
                         "message has no figures");
    case MEMPLAN_LOG_NCCL:
        return say(finding, "outside_allocator", event->requested,
                   "NCCL ran out of memory for its buffers, outside PyTorch's allocator");
    default:
        return false;
    }
}

static bool find_rank(const struct memplan_log_event *event, struct memplan_log_finding *finding)
{
    const struct memplan_log_size none = {0};

    if (event->kind == MEMPLAN_LOG_WARNING)
        return false;
    if (event->rank >= 0)
        return say(finding, "rank", none,
                   "rank %d failed at that moment; nothing follows for other ranks", event->rank);
    if (event->local_rank >= 0)
        return say(finding, "rank", none,
                   "local rank %d failed at that moment; nothing follows for other ranks",
                   event->local_rank);
    return say(
        finding, "rank", none,
        "one process failed at that moment, the log does not say which rank; nothing follows "
        "for others");
}

bool mpl_log_find(const struct memplan_log_event *event, size_t i,
                  struct memplan_log_finding *finding)
{
    static bool (*const finders[])(const struct memplan_log_event *,
                                   struct memplan_log_finding *) = {
        find_needs,   find_limit,   find_shortage, find_others,
        find_outside, find_setting, find_kind,     find_rank,
    };

    for (size_t f = 0; f < sizeof(finders) / sizeof(finders[0]); f++)
        if (finders[f](event, finding) && i-- == 0)
            return true;
    return false;
}
