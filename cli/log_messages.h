/* SPDX-License-Identifier: MIT */
/* The messages of one log, alike ones together. */
#ifndef CLI_LOG_MESSAGES_H
#define CLI_LOG_MESSAGES_H

#include <jansson.h>
#include <memplan.h>
#include <stdbool.h>
#include <stdio.h>

#define LOG_MOST_DIFFERENT 256 /* messages that are kept of one log; further ones are counted */
#define LOG_MOST_PLACES    64  /* ranks, cards and lines that are kept of one of them */

/** Different numbers in the order in which they came. */
struct log_places {
    uint64_t list[LOG_MOST_PLACES];
    size_t count, left_out;
};

/** A message, and where it stands. */
struct log_message {
    struct memplan_log_event event; /* the first one */
    uint64_t count;
    struct log_places lines, ranks, local_ranks, gpus;
};

struct log_messages {
    struct log_message *list; /* owned */
    size_t count, room;
    uint64_t all, left_out; /* events */
    uint64_t lines, bytes;  /* of the log */
};

/** Adds an event to the message that says the same, of whichever rank. False: out of memory. */
bool log_messages_add(struct log_messages *messages, const struct memplan_log_event *event);

void log_messages_free(struct log_messages *messages);

/** As JSON (docs/json.md), new; NULL when out of memory. */
json_t *log_messages_to_json(const struct log_messages *messages, const char *name);

/** For people. False: out of memory. */
bool log_messages_print(FILE *out, const struct log_messages *messages, const char *name);

/** The sizes of an event with their names, in the order of the page; NULL past the last. title is
 * for people, key for JSON. */
const struct memplan_log_size *log_message_size(const struct memplan_log_event *event, size_t i,
                                                const char **title, const char **key);

/** Finding i of a message, of all its ranks; false past the last. */
bool log_message_find(const struct log_message *message, size_t i,
                      struct memplan_log_finding *finding);

#endif
