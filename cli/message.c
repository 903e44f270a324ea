/* SPDX-License-Identifier: MIT */
/* Messages: one line each on standard error, and the exit code that goes with them. */
#include "message.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_line(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

static void print_line(const char *format, va_list args)
{
    char line[2048];

    vsnprintf(line, sizeof(line), format, args);
    /* File names and values of a plan come from anywhere: they must not start a second line or
     * reach the terminal as a command. */
    for (unsigned char *c = (unsigned char *)line; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "memplan: %s\n", line);
}

void message_print(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line(format, args);
    va_end(args);
}

int message_invalid(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line(format, args);
    va_end(args);
    return CLI_INVALID;
}

int message_code(enum memplan_status status)
{
    switch (status) {
    case MEMPLAN_OK:
        return MEMPLAN_FITS;
    case MEMPLAN_ERR_UNSUPPORTED:
        return MEMPLAN_CANNOT_TELL;
    case MEMPLAN_ERR_NOMEM:
    case MEMPLAN_ERR_ARG:
    case MEMPLAN_ERR_INTERNAL:
        return CLI_INTERNAL;
    default:
        return CLI_INVALID;
    }
}

/* True when a dotted name, of len bytes, ends in what a pointer names: "model.hidden_size" and
 * "/model/hidden_size", or "/hidden_size" in a config.json. */
static bool same_place(const char *name, size_t len, const char *pointer)
{
    size_t pointer_len = strlen(pointer);

    if (!pointer_len || len + 1 < pointer_len)
        return false;
    name += len + 1 - pointer_len;
    for (size_t i = 1; i < pointer_len; i++)
        if (name[i - 1] != (pointer[i] == '/' ? '.' : pointer[i]))
            return false;
    return true;
}

const char *message_sentence(const struct memplan_error *err)
{
    size_t len = strcspn(err->text, " :");

    if (strncmp(err->text + len, ": ", 2) == 0 && same_place(err->text, len, err->path))
        return err->text + len + 2;
    return err->text;
}

int message_error(const struct memplan_error *err, const char *source)
{
    char place[64] = "";
    const char *from = err->source[0] ? err->source : source;

    if (err->line && err->column)
        snprintf(place, sizeof(place), ":%u:%u", (unsigned)err->line, (unsigned)err->column);
    else if (err->line)
        snprintf(place, sizeof(place), ":%u", (unsigned)err->line);
    message_print("%s%s: %s%s%s", from, place, err->path, err->path[0] ? ": " : "",
                  err->text[0] ? message_sentence(err) : memplan_status_name(err->status));
    return message_code(err->status);
}

int message_fold(int code, int next)
{
    if (next == MEMPLAN_DOES_NOT_FIT || code == MEMPLAN_FITS)
        return next;
    return code;
}

int message_print_json(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

    json_decref(root);
    if (!text) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    puts(text);
    free(text);
    return 0;
}
