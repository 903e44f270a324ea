/* SPDX-License-Identifier: MIT */
/* The messages of one log for people. */
#include <stdlib.h>

#include "log_messages.h"
#include "table.h"
#include "text.h"

#define MIB 1048576.0

#define SHOWN 8 /* places on a line; JSON has more */

/* "ranks 0, 1, 3 and 5 more"; nothing for none. */
static void print_places(FILE *out, const char *one, const char *many,
                         const struct log_places *places)
{
    size_t shown = places->count < SHOWN ? places->count : SHOWN;
    size_t more = places->count - shown + places->left_out;

    if (!shown)
        return;
    fprintf(out, "%s", places->count > 1 ? many : one);
    for (size_t i = 0; i < shown; i++)
        fprintf(out, "%s%llu", i ? ", " : " ", (unsigned long long)places->list[i]);
    if (more)
        fprintf(out, " and %zu more", more);
}

static void print_title(FILE *out, size_t number, const struct log_message *message)
{
    const struct memplan_log_event *event = &message->event;

    fprintf(out, "\n%zu  ", number);
    print_places(out, "line", "lines", &message->lines);
    print_places(out, "; rank", "; ranks", &message->ranks);
    print_places(out, "; local rank", "; local ranks", &message->local_ranks);
    print_places(out, "; GPU", "; GPUs", &message->gpus);
    if (message->count > message->lines.count)
        fprintf(out, "; %llu times", (unsigned long long)message->count);
    fprintf(out, "\n   %s, form %s", memplan_log_kind_name(event->kind), event->form);
    if (*event->releases)
        fprintf(out, " (PyTorch %s)", event->releases);
    if (*event->api)
        fprintf(out, ", %s", event->api);
    fprintf(out, "%s\n", event->cut ? ", text cut off" : "");
}

static void show_size(struct table *table, const char *title, const struct memplan_log_size *size)
{
    struct libscols_line *row = table_row(table);
    const double half = (double)(size->high - size->low) / 2 / MIB;

    table_cell(table, row, 0, "%s", title);
    if ((double)size->bytes >= TEXT_GIB)
        table_cell(table, row, 1, "%.2f GiB", (double)size->bytes / TEXT_GIB);
    else
        table_cell(table, row, 1, "%.2f MiB", (double)size->bytes / MIB);
    if (size->low == size->high)
        table_cell(table, row, 2, "%llu bytes", (unsigned long long)size->bytes);
    else
        table_cell(table, row, 2, "+- %.*f MiB", half < 0.1 ? 3 : 1, half);
}

static bool print_sizes(FILE *out, const struct memplan_log_event *event)
{
    static const char *const columns[] = {"", ">", "", NULL};
    const struct memplan_log_size *size;
    const char *title, *key;
    struct table table;

    table_begin(&table, columns);
    for (size_t i = 0; (size = log_message_size(event, i, &title, &key)); i++)
        if (size->known)
            show_size(&table, title, size);
    for (uint32_t i = 0; i < event->process_count; i++) {
        char name[48];

        snprintf(name, sizeof(name), "process %u of the log", event->processes[i].number);
        show_size(&table, name, &event->processes[i].in_use);
    }
    return table_end(&table, out);
}

bool log_messages_print(FILE *out, const struct log_messages *messages, const char *name)
{
    char *head = text_format("%s: %llu message%s, %zu different, in %llu lines", name,
                             (unsigned long long)messages->all, messages->all == 1 ? "" : "s",
                             messages->count, (unsigned long long)messages->lines);
    bool good = head;

    if (head)
        text_wrap(out, "", head);
    free(head);
    for (size_t i = 0; i < messages->count && good; i++) {
        struct memplan_log_finding finding;

        print_title(out, i + 1, &messages->list[i]);
        good = print_sizes(out, &messages->list[i].event);
        for (size_t f = 0; log_message_find(&messages->list[i], f, &finding); f++)
            text_wrap(out, "   - ", finding.text);
    }
    if (messages->left_out)
        fprintf(out, "\n%llu further messages are counted only\n",
                (unsigned long long)messages->left_out);
    return good;
}
