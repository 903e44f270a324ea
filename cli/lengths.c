/* SPDX-License-Identifier: MIT */
/* Lengths of samples: one number a line, JSON Lines, or a histogram of "length count". */
#include "lengths.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "message.h"

#define LONGEST_LINE    ((size_t)64 << 20)
#define LONGEST_SAMPLE  (UINT64_C(1) << 30)
#define MOST_SAMPLES    (UINT64_C(1) << 28)
#define SHOWN_OF_A_LINE 40

enum kind { NOT_KNOWN = 0, NUMBERS, PAIRS, JSON };

/* Where JSON objects usually have it, in this order. */
static const char *const usual_members[] = {"length",   "seq_len",   "num_tokens",
                                            "n_tokens", "input_ids", "tokens"};

struct reader {
    struct lengths *lengths;
    const char *member;
    struct lines line;
    size_t number; /* of the line, from 1 */
    enum kind kind;
};

/* Says what is wrong with the line at hand, and shows its beginning. */
static int refuse(const struct reader *r, const char *expected)
{
    const int shown = r->line.len < SHOWN_OF_A_LINE ? (int)r->line.len : SHOWN_OF_A_LINE;

    return message_invalid("%s:%zu: found \"%.*s%s\", expected %s", r->lengths->source, r->number,
                           shown, r->line.text ? r->line.text : "",
                           r->line.len > SHOWN_OF_A_LINE ? "..." : "", expected);
}

static int add(struct reader *r, uint64_t length, uint64_t count)
{
    struct lengths *all = r->lengths;

    if (length > LONGEST_SAMPLE)
        return refuse(r, "a length of at most 1073741824 tokens");
    if (count > MOST_SAMPLES - all->count)
        return refuse(r, "at most 268435456 samples");
    while (all->room - all->count < count) {
        const size_t room = all->room ? 2 * all->room : 1 << 12;
        uint32_t *grown = realloc(all->of, room * sizeof(*grown));

        if (!grown) {
            message_print("out of memory");
            return CLI_INTERNAL;
        }
        all->of = grown;
        all->room = room;
    }
    while (count--)
        all->of[all->count++] = (uint32_t)length;
    return 0;
}

static size_t skip_blanks(const struct lines *line, size_t at)
{
    while (at < line->len && (line->text[at] == ' ' || line->text[at] == '\t' ||
                              line->text[at] == ',' || line->text[at] == '\r'))
        at++;
    return at;
}

/* Up to two whole numbers, and nothing else. Returns how many, or -1. */
static int read_numbers(const struct lines *line, uint64_t numbers[2])
{
    int count = 0;
    size_t at = skip_blanks(line, 0);

    while (at < line->len) {
        const size_t first = at;
        uint64_t value = 0;
        size_t next;

        for (; at < line->len && line->text[at] >= '0' && line->text[at] <= '9'; at++)
            if ((value = 10 * value + (uint64_t)(line->text[at] - '0')) > UINT64_C(1) << 40)
                return -1;
        if (at == first || count == 2)
            return -1;
        numbers[count++] = value;
        next = skip_blanks(line, at);
        if (at < line->len && next == at)
            return -1;
        at = next;
    }
    return count;
}

static int read_plain(struct reader *r)
{
    uint64_t numbers[2] = {0, 0};
    const int count = read_numbers(&r->line, numbers);

    if (r->kind == NOT_KNOWN && count > 0)
        r->kind = count == 1 ? NUMBERS : PAIRS;
    if (count == 1 && r->kind == NUMBERS)
        return add(r, numbers[0], 1);
    r->lengths->is_histogram = r->kind == PAIRS;
    if (count == 2 && r->kind == PAIRS)
        return add(r, numbers[0], numbers[1]);
    return refuse(r, r->kind == PAIRS     ? "a length and a count, whole numbers"
                     : r->kind == NUMBERS ? "a length, a whole number of tokens"
                                          : "a length, a length and a count, or JSON");
}

static const json_t *find_member(const struct reader *r, const json_t *object)
{
    const json_t *found = NULL;

    if (r->member)
        return json_object_get(object, r->member);
    for (size_t i = 0; i < sizeof(usual_members) / sizeof(*usual_members) && !found; i++)
        found = json_object_get(object, usual_members[i]);
    return found;
}

/* A number, or a list of token ids. */
static int read_value(struct reader *r, const json_t *value)
{
    if (json_is_array(value))
        return add(r, json_array_size(value), 1);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return add(r, (uint64_t)json_integer_value(value), 1);
    if (r->member)
        return refuse(r, "the named member, a length or a list of token ids");
    return refuse(r,
                  "a length, a list of token ids, or an object with length, seq_len, num_tokens, "
                  "n_tokens, input_ids or tokens (--member names another)");
}

static int read_json(struct reader *r)
{
    json_t *value =
        json_loadb(r->line.text, r->line.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    int code;

    if (!value)
        return refuse(r, "JSON, one value a line");
    code = read_value(r, json_is_object(value) ? find_member(r, value) : value);
    json_decref(value);
    return code;
}

static int read_line(struct reader *r)
{
    const size_t at = skip_blanks(&r->line, 0);

    if (r->line.too_long)
        return message_invalid("%s:%zu: the line is larger than %zu MiB", r->lengths->source,
                               r->number, LONGEST_LINE >> 20);
    if (lines_is_blank(&r->line))
        return 0;
    if (r->number == 1 && r->line.len >= 3 && !memcmp(r->line.text, "\xef\xbb\xbf", 3))
        memset(r->line.text, ' ', 3); /* a mark that some editors put first */
    if (r->kind == NOT_KNOWN && at < r->line.len && strchr("{[", r->line.text[at]))
        r->kind = JSON;
    return r->kind == JSON ? read_json(r) : read_plain(r);
}

static int read_all(struct reader *r, FILE *file)
{
    int code = 0, got = 0;

    while (!code && !(got = lines_read_from(&r->line, file, r->lengths->source, LONGEST_LINE))) {
        r->number++;
        code = read_line(r);
    }
    if (got && got != EOF)
        code = got;
    if (!code && !r->lengths->count)
        code = message_invalid("%s: found no length, expected at least one", r->lengths->source);
    return code;
}

int lengths_read(const char *path, const char *member, struct lengths *lengths)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    struct reader r = {.lengths = lengths, .member = member};
    FILE *file = is_stdin ? stdin : fopen(path, "r");
    int code;

    *lengths = (struct lengths){0};
    snprintf(lengths->source, sizeof(lengths->source), "%s", is_stdin ? "stdin" : path);
    if (!file)
        return message_invalid("%s: %s", path, strerror(errno));
    code = read_all(&r, file);
    lines_free(&r.line);
    if (!is_stdin)
        fclose(file);
    return code;
}

void lengths_free(struct lengths *lengths)
{
    free(lengths->of);
    *lengths = (struct lengths){0};
}
