/* SPDX-License-Identifier: MIT */
/* Lines of a file or of standard input, of any length up to a limit. */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "message.h"

static int grow(struct lines *line)
{
    size_t room = line->room ? 2 * line->room : 1 << 16;
    char *text = realloc(line->text, room);

    if (!text) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    line->text = text;
    line->room = room;
    return 0;
}

int lines_read_from(struct lines *line, FILE *file, const char *source, size_t most)
{
    int c;

    line->len = 0;
    line->too_long = false;
    while ((c = getc_unlocked(file)) != EOF && c != '\n') {
        if (line->len == line->room && line->len < most && grow(line))
            return CLI_INTERNAL;
        if (line->len < most)
            line->text[line->len++] = (char)c;
        else
            line->too_long = true;
    }
    if (c == EOF && ferror(file)) {
        message_print("%s: cannot be read", source);
        return CLI_INVALID;
    }
    return c == EOF && !line->len ? EOF : 0;
}

int lines_read(struct lines *line, size_t most)
{
    return lines_read_from(line, stdin, "stdin", most);
}

bool lines_is_blank(const struct lines *line)
{
    for (size_t i = 0; i < line->len; i++)
        if (!line->text[i] || !strchr(" \t\r", line->text[i]))
            return false;
    return true;
}

void lines_free(struct lines *line)
{
    free(line->text);
    *line = (struct lines){0};
}
