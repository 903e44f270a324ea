/* SPDX-License-Identifier: MIT */
/* From a match of a form to an event. */
#include "log/event.h"

#include <string.h>

#include "base/bytes.h"
#include "log/size.h"

const char mpl_log_event_item[] =
    "(?:Process (?<number>\\d+) has|Including non-PyTorch memory, this process has)"
    " (?<in_use>" MPL_LOG_SIZE ") memory in use\\.";

#define AT(member) offsetof(struct memplan_log_event, member)

static const struct group {
    const char *name;
    size_t offset;
} groups[] = {
    {"requested", AT(requested)}, {"total", AT(total)},
    {"free", AT(free)},           {"allowed", AT(allowed)},
    {"allocated", AT(allocated)}, {"unallocated", AT(unallocated)},
    {"reserved", AT(reserved)},   {"private_pools", AT(private_pools)},
};

/* A whole number of at most 20 digits; UINT64_MAX when it does not fit. */
static uint64_t number(const char *text, size_t start, size_t end)
{
    uint64_t value = 0;

    for (; start < end; start++)
        value = mpl_add(mpl_mul(value, 10), (uint64_t)(text[start] - '0'));
    return value;
}

static bool has(const struct mpl_log_pattern *match, const char *name)
{
    size_t start, end;

    return mpl_log_pattern_group(match, name, &start, &end);
}

static struct memplan_log_size count(const struct mpl_log_pattern *match, const char *name,
                                     const char *text)
{
    size_t start, end;
    uint64_t value;

    if (!mpl_log_pattern_group(match, name, &start, &end))
        return (struct memplan_log_size){0};
    value = number(text, start, end);
    return value >> 60 ? (struct memplan_log_size){0} : mpl_log_size_exact(value);
}

static void read_sizes(const struct mpl_log_pattern *match, const char *text,
                       struct memplan_log_event *event)
{
    size_t start, end;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (mpl_log_pattern_group(match, groups[i].name, &start, &end))
            *(struct memplan_log_size *)((char *)event + groups[i].offset) =
                mpl_log_size_read(text + start, end - start);
    if (has(match, "free_count")) {
        event->free = count(match, "free_count", text);
        event->total = count(match, "total_count", text);
    }
    if (event->reserved.known)
        event->unallocated = mpl_log_size_sub(&event->reserved, &event->allocated);
    else
        event->reserved = mpl_log_size_add(&event->allocated, &event->unallocated);
}

/* 1 for the first process number of the log, and so on: the numbers themselves are nobody's
 * business outside. */
static uint32_t anonymous(struct mpl_log_memory *memory, uint64_t pid)
{
    for (uint32_t i = 0; i < memory->pid_count; i++)
        if (memory->pids[i] == pid)
            return i + 1;
    if (memory->pid_count == MPL_LOG_PIDS)
        return 0;
    memory->pids[memory->pid_count] = pid;
    return ++memory->pid_count;
}

static void add_process(struct mpl_log_memory *memory, uint64_t pid,
                        const struct memplan_log_size *in_use, struct memplan_log_event *event)
{
    /* NVML gives 0 or 2^64 - 1 where it does not know: neither is a figure. */
    if (!in_use->known || !in_use->high)
        return;
    if (event->process_count == MEMPLAN_LOG_PROCESSES) {
        event->processes_left_out++;
        return;
    }
    event->processes[event->process_count++] =
        (struct memplan_log_process){.number = anonymous(memory, pid), .in_use = *in_use};
}

static void read_processes(const struct mpl_log_pattern *match, struct mpl_log_pattern *item,
                           const char *text, struct mpl_log_memory *memory,
                           struct memplan_log_event *event)
{
    size_t at, end, start, stop;

    if (!mpl_log_pattern_group(match, "processes", &at, &end))
        return;
    while (mpl_log_pattern_match(item, text, end, at, false)) {
        struct memplan_log_size in_use = {0};

        mpl_log_pattern_range(item, &start, &at);
        if (mpl_log_pattern_group(item, "in_use", &start, &stop))
            in_use = mpl_log_size_read(text + start, stop - start);
        if (mpl_log_pattern_group(item, "number", &start, &stop))
            add_process(memory, number(text, start, stop), &in_use, event);
        else if (in_use.known && in_use.high)
            event->in_use = in_use;
    }
}

static const char *read_api(const struct mpl_log_form *form, const struct mpl_log_pattern *match,
                            const char *text)
{
    size_t start, end;

    if (mpl_log_pattern_group(match, "api", &start, &end))
        return text[start] == 'H' ? "HIP" : "CUDA";
    if (has(match, "hip"))
        return "HIP";
    return form->kind == MEMPLAN_LOG_DRIVER || form->kind == MEMPLAN_LOG_LIBRARY ||
                   form->kind == MEMPLAN_LOG_ASYNC
               ? "CUDA"
               : "";
}

void mpl_log_event_make(const struct mpl_log_form *form, const struct mpl_log_pattern *match,
                        struct mpl_log_pattern *item, const char *text,
                        struct mpl_log_memory *memory, struct memplan_log_event *event)
{
    size_t start, end;

    *event = (struct memplan_log_event){.size = sizeof(*event),
                                        .kind = form->kind,
                                        .rank = -1,
                                        .local_rank = -1,
                                        .gpu = -1,
                                        .form = form->name,
                                        .releases = form->releases};
    event->cut = !has(match, "end");
    event->api = read_api(form, match, text);
    if (mpl_log_pattern_group(match, "gpu", &start, &end) && number(text, start, end) < 100000)
        event->gpu = (int32_t)number(text, start, end);
    read_sizes(match, text, event);
    read_processes(match, item, text, memory, event);
    /* Releases that print no hint with expandable segments print it without; older ones always. */
    if (has(match, "expandable") ||
        (event->unallocated.known && !event->cut && has(match, "processes") && !has(match, "hint")))
        event->expandable = MEMPLAN_LOG_EXPANDABLE_ON;
}

/* True when a warning may be of the same failure: its figures are the message's, as far as rounding
 * can tell. A mapping asks for one page of the request. Warnings have no prefix where launchers
 * label only what Python prints. */
static bool may_be_of(const struct memplan_log_event *warning,
                      const struct memplan_log_event *event)
{
    const bool is_mapping = warning->expandable == MEMPLAN_LOG_EXPANDABLE_ON;

    return (warning->rank == event->rank || warning->rank < 0) && warning->gpu == event->gpu &&
           warning->requested.known && warning->total.known &&
           (is_mapping || mpl_log_size_may_be(&event->requested, warning->requested.bytes)) &&
           mpl_log_size_may_be(&event->total, warning->total.bytes);
}

/* The last warning of the failure. NULL when another one, maybe of another rank, disagrees. */
static const struct memplan_log_event *find_warning(const struct mpl_log_memory *memory,
                                                    const struct memplan_log_event *event)
{
    const size_t seen = memory->warning_count;
    const size_t kept = seen < MPL_LOG_WARNINGS ? seen : MPL_LOG_WARNINGS;
    const struct memplan_log_event *found = NULL;

    for (size_t i = 1; i <= kept; i++) {
        const struct memplan_log_event *warning = &memory->warnings[(seen - i) % MPL_LOG_WARNINGS];

        if (!may_be_of(warning, event))
            continue;
        if (found && (found->requested.bytes != warning->requested.bytes ||
                      found->total.bytes != warning->total.bytes))
            return NULL;
        found = found ? found : warning;
    }
    return found;
}

static void narrow(struct memplan_log_size *size, const struct memplan_log_size *exact)
{
    if (mpl_log_size_may_be(size, exact->bytes))
        *size = *exact;
}

void mpl_log_event_refine(struct mpl_log_memory *memory, struct memplan_log_event *event)
{
    const struct memplan_log_event *warning;

    if (event->kind == MEMPLAN_LOG_WARNING) {
        memory->warnings[memory->warning_count++ % MPL_LOG_WARNINGS] = *event;
        return;
    }
    if (event->kind != MEMPLAN_LOG_ALLOCATOR || !(warning = find_warning(memory, event)))
        return;
    narrow(&event->total, &warning->total);
    if (warning->expandable == MEMPLAN_LOG_EXPANDABLE_ON) {
        event->expandable = MEMPLAN_LOG_EXPANDABLE_ON;
        return;
    }
    narrow(&event->requested, &warning->requested);
    /* Others may have taken or given memory between the two, unless it is this rank's own word. */
    if (warning->rank == event->rank)
        narrow(&event->free, &warning->free);
}
