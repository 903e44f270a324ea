/* SPDX-License-Identifier: MIT */
/* Messages: one line each on standard error, and the exit code that goes with them. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <jansson.h>
#include <memplan.h>

/** Exit codes besides those of enum memplan_verdict; 126 and 127 as shells have them. */
enum cli_exit {
    CLI_INTERNAL = 1,
    CLI_INVALID = 2,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
};

/** Prints "memplan: " and one line. Control characters become "?". */
void message_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** As message_print, and returns CLI_INVALID. */
int message_invalid(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Prints an error with all that is known of its place, and returns its exit code. source is used
 * when the error names none; an option that was at fault is a source too. */
int message_error(const struct memplan_error *err, const char *source);

/** The exit code of a status: 1 for what is not the input's fault, 5 for what is not modelled. */
int message_code(enum memplan_status status);

/** The error's sentence without the field's name, where its pointer says the same. */
const char *message_sentence(const struct memplan_error *err);

/** Prints an object on one line, and lets go of it; NULL is one that had no memory. Returns 0, or
 * an exit code after a message. */
int message_print_json(json_t *root);

/** Folds the exit code of one more plan in: 3 wins, else the first other non-zero one. */
int message_fold(int code, int next);

#endif
