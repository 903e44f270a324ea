/* SPDX-License-Identifier: MIT */
/* Text for people: sizes, shares, wrapped sentences; free of locale. */
#include "text.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char *text_format(const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int len;

    va_start(args, format);
    len = vasprintf(&text, format, args);
    va_end(args);
    return len < 0 ? NULL : text;
}

char *text_quote(const char *text)
{
    json_t *json = json_string(text);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    return quoted;
}

const char *text_chance(double chance, char *text, size_t size)
{
    if (chance > 0.999)
        snprintf(text, size, "> 99.9 %%");
    else if (chance < 0.001)
        snprintf(text, size, "< 0.1 %%");
    else
        snprintf(text, size, "%.1f %%", 100 * chance);
    return text;
}

const char *text_band(uint64_t low, uint64_t high, char *text, size_t size)
{
    char a[32], b[32];

    snprintf(a, sizeof(a), "%.2f", (double)low / TEXT_GIB);
    snprintf(b, sizeof(b), "%.2f", (double)high / TEXT_GIB);
    if (strcmp(a, b) == 0)
        snprintf(text, size, "%s", a);
    else
        snprintf(text, size, "%s .. %s", a, b);
    return text;
}

const char *text_count(uint64_t count, char *text, size_t size)
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t used = 0;

    for (size_t i = 0; i < len && used + 2 < size; i++) {
        if (i && (len - i) % 3 == 0)
            text[used++] = ' ';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *text_number(uint64_t count, char *text, size_t size)
{
    if (count >= 1000000000)
        snprintf(text, size, "%.2f billion", (double)count / 1e9);
    else if (count >= 1000000)
        snprintf(text, size, "%.1f million", (double)count / 1e6);
    else
        text_count(count, text, size);
    return text;
}

const char *text_cut(const char *whole, char *text, size_t size)
{
    size_t len = strlen(whole);

    if (len < size) {
        memcpy(text, whole, len + 1);
        return text;
    }
    len = size - sizeof(" ...");
    while (len && whole[len] != ' ')
        len--;
    while (len && strchr(" ,;:(", whole[len - 1]))
        len--;
    snprintf(text, size, "%.*s ...", (int)len, whole);
    return text;
}

#define LONGEST_WORD 40

/* Letters to insert, delete or replace that turn a into b. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST_WORD + 1], b_len = strlen(b);

    if (b_len > LONGEST_WORD)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = change < row[j] ? change : row[j];
        }
    }
    return row[b_len];
}

bool text_is_near(const char *word, const char *known)
{
    size_t len = strlen(word), known_len = strlen(known);
    size_t shorter = len < known_len ? len : known_len;

    return (shorter >= 3 && strncmp(word, known, shorter) == 0) ||
           (shorter > 3 && distance(word, known) <= 2);
}

/* Bytes that start a character; the rest of a UTF-8 sequence takes no column. */
static bool is_start(unsigned char c)
{
    return (c & 0xc0) != 0x80;
}

static size_t columns(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += is_start((unsigned char)text[i]);
    return n;
}

static void put(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        /* U+0080 .. U+009F are control characters too. */
        bool control = c < 0x20 || c == 0x7f ||
                       (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0);

        if (control && c == 0xc2)
            i++;
        fputc(control ? '?' : c, out);
    }
}

void text_wrap(FILE *out, const char *lead, const char *text)
{
    size_t indent = columns(lead, strlen(lead)), column = indent;
    bool first = true;

    fputs(lead, out);
    while (*text) {
        size_t skipped = strspn(text, " \t\n"), len;

        text += skipped;
        len = strcspn(text, " \t\n");
        if (!len)
            break;
        if (!first && column + 1 + columns(text, len) > TEXT_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            fputc(' ', out);
            column++;
        }
        put(out, text, len);
        column += columns(text, len);
        text += len;
        first = false;
    }
    fputc('\n', out);
}

bool text_read_size(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *unit;
        double scale;
    } units[] = {{"", 1},           {"B", 1},    {"KiB", 1024}, {"MiB", 1048576},
                 {"GiB", TEXT_GIB}, {"KB", 1e3}, {"MB", 1e6},   {"GB", TEXT_GB}};
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (errno || end == text || !(value > 0 && value < 1e15))
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (strcasecmp(units[i].unit, end) == 0 && value * units[i].scale < 1e18) {
            *bytes = (uint64_t)(value * units[i].scale);
            return *bytes > 0;
        }
    return false;
}

const char *text_size(uint64_t bytes, char *text, size_t size)
{
    if ((double)bytes >= TEXT_GIB)
        snprintf(text, size, "%.2f GiB", (double)bytes / TEXT_GIB);
    else if (bytes >= 1048576)
        snprintf(text, size, "%.1f MiB", (double)bytes / 1048576);
    else
        snprintf(text, size, "%llu B", (unsigned long long)bytes);
    return text;
}
