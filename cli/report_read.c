/* SPDX-License-Identifier: MIT */
/* The report that a person reads: what it takes from the JSON. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"

void report_heading(struct page *page, const char *format, ...)
{
    va_list args;

    fputs(page->colour ? "\n\033[1m" : "\n", page->out);
    va_start(args, format);
    vfprintf(page->out, format, args);
    va_end(args);
    fputs(page->colour ? "\033[0m\n" : "\n", page->out);
}

uint64_t report_bytes(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (uint64_t)value : 0;
}

double report_number(const json_t *object, const char *key, double fallback)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

const char *report_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

bool report_needs(const json_t *peak, uint64_t *low, uint64_t *high)
{
    const json_t *needs = json_object_get(peak, "needs_bytes");
    json_int_t a = json_integer_value(json_array_get(needs, 0));
    json_int_t b = json_integer_value(json_array_get(needs, 1));

    if (json_array_size(needs) != 2 || a < 0 || b < 0)
        return false;
    *low = (uint64_t)a;
    *high = (uint64_t)b;
    return true;
}

bool report_is_left(const json_t *alternative)
{
    return report_text(alternative, "excluded_by")[0] == '\0' &&
           report_number(alternative, "weight", 1) > 0;
}

bool report_needs_left(const json_t *report, uint64_t *low, uint64_t *high)
{
    const json_t *alternatives = json_object_get(report, "alternatives"), *alternative;
    bool found = false;
    size_t i;

    json_array_foreach(alternatives, i, alternative)
    {
        uint64_t a, b;

        if (!report_is_left(alternative) ||
            !report_needs(json_object_get(alternative, "peak"), &a, &b))
            continue;
        *low = found && *low < a ? *low : a;
        *high = found && *high > b ? *high : b;
        found = true;
    }
    return found || report_needs(json_object_get(report, "peak"), low, high);
}

bool report_usable(const json_t *report, char *text, size_t size)
{
    const json_t *capacity = json_object_get(report, "capacity");
    uint64_t usable = report_bytes(capacity, "usable_bytes");
    uint64_t low = report_bytes(capacity, "usable_low_bytes");
    uint64_t high = report_bytes(capacity, "usable_high_bytes");

    if (!capacity)
        return false;
    text_band(low ? low : usable, high ? high : usable, text, size);
    return true;
}

void report_value(const json_t *value, char *text, size_t size)
{
    char *dump = NULL;

    if (!json_is_string(value))
        dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, size, "%s", dump ? dump : json_is_string(value) ? json_string_value(value) : "");
    free(dump);
}

void report_label(const json_t *alternative, char *text, size_t size)
{
    json_t *set = json_object_get(alternative, "set"), *value;
    const char *path;
    size_t used = 0;

    snprintf(text, size, "this plan");
    json_object_foreach(set, path, value)
    {
        char shown[64];
        int len;

        (void)path;
        report_value(value, shown, sizeof(shown));
        len = snprintf(text + used, size - used, "%s%s", used ? ", " : "", shown);
        if (len < 0 || (size_t)len >= size - used)
            return;
        used += (size_t)len;
    }
}
