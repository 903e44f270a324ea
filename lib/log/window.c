/* SPDX-License-Identifier: MIT */
/* A piece of a log as lines of plain text, told apart by who wrote them. */
#include "log/window.h"

#include <string.h>

#define ESCAPE 0x1b

static void put(struct mpl_log_text *text, char c, uint32_t at)
{
    text->bytes[text->len] = c;
    text->at[text->len++] = at;
}

/* Bytes of an escape sequence for a terminal: colours, titles, links. */
static size_t escape_len(const char *bytes, size_t len)
{
    size_t at = 2;

    if (len < 2)
        return len;
    if (bytes[1] == '[') {
        while (at < len && (unsigned char)bytes[at] >= 0x20 && (unsigned char)bytes[at] < 0x40)
            at++;
        return at < len ? at + 1 : len;
    }
    if (bytes[1] == ']') {
        while (at < len && bytes[at] != 0x07 && bytes[at] != ESCAPE && bytes[at] != '\n')
            at++;
        if (at < len && bytes[at] == ESCAPE)
            return at + 1 < len ? at + 2 : len;
        return at < len && bytes[at] == 0x07 ? at + 1 : at;
    }
    return bytes[1] == '\n' || bytes[1] == '\r' ? 1 : 2;
}

/* Bytes of what counts as white space; 0 for none. Besides the usual: what frames a text in a
 * terminal, a no-break space, and a newline that was written out in a string. */
static size_t space_len(const char *bytes, size_t len)
{
    const unsigned char c = (unsigned char)bytes[0];

    if (c <= 0x20 || c == 0x7f)
        return 1;
    if (c == '\\' && len > 1 && (bytes[1] == 'n' || bytes[1] == 'r' || bytes[1] == 't'))
        return 2;
    if (len > 1 && memcmp(bytes, "\302\240", 2) == 0)
        return 2;
    if (len > 2 && (memcmp(bytes, "\342\224\202", 3) == 0 || memcmp(bytes, "\342\224\203", 3) == 0))
        return 3;
    return 0;
}

/* One line without its end, as plain text. NUL is dropped. */
static void clean(struct mpl_log_text *text, const char *bytes, size_t from, size_t to)
{
    const size_t start = text->len;
    bool has_space = false;

    while (from < to) {
        size_t skip = bytes[from] == ESCAPE ? escape_len(bytes + from, to - from) : 0;

        skip = !skip && !bytes[from] ? 1 : skip;
        if (skip) {
            from += skip;
            continue;
        }
        skip = space_len(bytes + from, to - from);
        if (skip) {
            has_space = true;
            from += skip;
            continue;
        }
        if (has_space && text->len > start)
            put(text, ' ', (uint32_t)from - 1);
        has_space = false;
        put(text, bytes[from], (uint32_t)from);
        from++;
    }
}

static bool same_writer(const struct mpl_log_writer *a, const struct mpl_log_writer *b)
{
    return a->rank == b->rank && a->local_rank == b->local_rank && a->process == b->process;
}

/* The group of a writer; the first one, of no prefix, when there are too many. */
static uint32_t find_group(struct mpl_log_window *window, const struct mpl_log_writer *writer)
{
    for (size_t i = 0; i < window->group_count; i++)
        if (same_writer(&window->groups[i], writer))
            return (uint32_t)i;
    if (window->group_count == MPL_LOG_GROUPS)
        return 0;
    window->groups[window->group_count] = *writer;
    return (uint32_t)window->group_count++;
}

/* prefixes is NULL for what is no start of a line. */
static void add_line(struct mpl_log_window *window, const struct mpl_log_prefixes *prefixes,
                     size_t start, uint32_t number)
{
    struct mpl_log_text *text = &window->text;
    struct mpl_log_line *line = &window->lines[window->line_count];
    size_t used = 0;
    bool is_named = false;

    if (text->len == start)
        return;
    line->writer = (struct mpl_log_writer){-1, -1, -1};
    if (prefixes)
        used = mpl_log_prefixes_read(prefixes, text->bytes + start, text->len - start,
                                     &line->writer, &is_named);
    line->start = (uint32_t)(start + used);
    line->len = (uint32_t)(text->len - start - used);
    if (!line->len)
        return;
    line->number = number;
    line->group = is_named             ? find_group(window, &line->writer)
                  : window->line_count ? window->lines[window->line_count - 1].group
                                       : 0;
    window->line_count++;
}

void mpl_log_window_read(struct mpl_log_window *window, const struct mpl_log_prefixes *prefixes,
                         const char *bytes, size_t len, bool is_line_start)
{
    uint32_t number = 0;

    window->text.len = 0;
    window->line_count = 0;
    window->groups[0] = (struct mpl_log_writer){-1, -1, -1};
    window->group_count = 1;
    for (size_t from = 0; from < len;) {
        size_t to = from, start = window->text.len;

        /* A carriage return alone begins the line anew, as progress bars do. */
        while (to < len && bytes[to] != '\n' && bytes[to] != '\r')
            to++;
        clean(&window->text, bytes, from, to);
        add_line(window, from || is_line_start ? prefixes : NULL, start, number);
        number += to < len && bytes[to] == '\n';
        from = to + 1;
    }
}

void mpl_log_window_join(struct mpl_log_window *window, size_t group)
{
    struct mpl_log_text *joined = &window->joined;

    joined->len = 0;
    for (size_t i = 0; i < window->line_count; i++) {
        const struct mpl_log_line *line = &window->lines[i];

        if (line->group != group)
            continue;
        if (joined->len)
            put(joined, ' ', window->text.at[line->start]);
        memcpy(joined->bytes + joined->len, window->text.bytes + line->start, line->len);
        memcpy(joined->at + joined->len, window->text.at + line->start,
               line->len * sizeof(joined->at[0]));
        joined->len += line->len;
    }
    joined->bytes[joined->len] = '\0';
}

const struct mpl_log_line *mpl_log_window_line(const struct mpl_log_window *window, uint32_t at)
{
    size_t low = 0, high = window->line_count;

    /* The last line whose text starts at or before the byte. */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (window->text.at[window->lines[middle].start] <= at)
            low = middle;
        else
            high = middle;
    }
    return &window->lines[low];
}
