/* SPDX-License-Identifier: MIT */
/* The messages of one log, alike ones together. */
#include "log_messages.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct memplan_log_event, member)

static const struct row {
    const char *title, *key;
    size_t offset;
} rows[] = {
    {"tried to allocate", "requested", AT(requested)},
    {"card, total", "total", AT(total)},
    {"card, free", "free", AT(free)},
    {"this process may have", "allowed", AT(allowed)},
    {"this process, all", "in_use", AT(in_use)},
    {"allocated by PyTorch", "allocated", AT(allocated)},
    {"of that, free in private pools", "private_pools", AT(private_pools)},
    {"reserved but unallocated", "unallocated", AT(unallocated)},
    {"reserved by PyTorch", "reserved", AT(reserved)},
};

const struct memplan_log_size *log_message_size(const struct memplan_log_event *event, size_t i,
                                                const char **title, const char **key)
{
    if (i >= sizeof(rows) / sizeof(rows[0]))
        return NULL;
    *title = rows[i].title;
    *key = rows[i].key;
    return (const struct memplan_log_size *)((const char *)event + rows[i].offset);
}

static bool same_size(const struct memplan_log_size *a, const struct memplan_log_size *b)
{
    return a->known == b->known && a->low == b->low && a->high == b->high;
}

/* Forms and other texts are static: the same ones are the same pointers. */
static bool same(const struct memplan_log_event *a, const struct memplan_log_event *b)
{
    if (a->form != b->form || a->cut != b->cut || a->expandable != b->expandable ||
        a->process_count != b->process_count || a->api != b->api)
        return false;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *title, *key;

        if (!same_size(log_message_size(a, i, &title, &key), log_message_size(b, i, &title, &key)))
            return false;
    }
    for (uint32_t i = 0; i < a->process_count; i++)
        if (!same_size(&a->processes[i].in_use, &b->processes[i].in_use))
            return false;
    return true;
}

static void add_place(struct log_places *places, uint64_t place)
{
    for (size_t i = 0; i < places->count; i++)
        if (places->list[i] == place)
            return;
    if (places->count == LOG_MOST_PLACES)
        places->left_out++;
    else
        places->list[places->count++] = place;
}

static void add_to(struct log_message *message, const struct memplan_log_event *event)
{
    message->count++;
    add_place(&message->lines, event->line);
    if (event->rank >= 0)
        add_place(&message->ranks, (uint64_t)event->rank);
    if (event->local_rank >= 0)
        add_place(&message->local_ranks, (uint64_t)event->local_rank);
    if (event->gpu >= 0)
        add_place(&message->gpus, (uint64_t)event->gpu);
}

static bool grow(struct log_messages *messages)
{
    size_t room = messages->room ? 2 * messages->room : 4;
    struct log_message *list = realloc(messages->list, room * sizeof(*list));

    if (!list)
        return false;
    messages->list = list;
    messages->room = room;
    return true;
}

bool log_messages_add(struct log_messages *messages, const struct memplan_log_event *event)
{
    messages->all++;
    for (size_t i = 0; i < messages->count; i++)
        if (same(&messages->list[i].event, event)) {
            add_to(&messages->list[i], event);
            return true;
        }
    if (messages->count == LOG_MOST_DIFFERENT) {
        messages->left_out++;
        return true;
    }
    if (messages->count == messages->room && !grow(messages))
        return false;
    messages->list[messages->count] = (struct log_message){.event = *event};
    add_to(&messages->list[messages->count++], event);
    return true;
}

void log_messages_free(struct log_messages *messages)
{
    free(messages->list);
    *messages = (struct log_messages){0};
}

bool log_message_find(const struct log_message *message, size_t i,
                      struct memplan_log_finding *finding)
{
    if (!memplan_log_find(&message->event, i, finding))
        return false;
    if (strcmp(finding->name, "rank") == 0 && message->ranks.count > 1)
        snprintf(finding->text, sizeof(finding->text),
                 "%zu ranks failed with the same figures; nothing follows for other ranks",
                 message->ranks.count + message->ranks.left_out);
    return true;
}
