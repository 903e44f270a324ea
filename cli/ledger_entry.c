/* SPDX-License-Identifier: MIT */
/* The ledger: records as they are read, checked before anything relies on them. */
#include "ledger_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "message.h"
#include "text.h"

#define MOST_ENTRIES ((size_t)1 << 20)

char *ledger_path(const struct settings *settings)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (settings->ledger)
        return strdup(settings->ledger);
    /* The XDG rules: a path that is not absolute counts as not set. */
    if (state && *state == '/')
        return text_format("%s/memplan/ledger.d", state);
    return home && *home ? text_format("%s/.local/state/memplan/ledger.d", home) : NULL;
}

static bool read_hash(const json_t *record, const char *key, char *out)
{
    const char *text = json_string_value(json_object_get(record, key));

    if (!text || strlen(text) != MEMPLAN_IDENTITY_TEXT - 1 ||
        strspn(text, "0123456789abcdef") != MEMPLAN_IDENTITY_TEXT - 1)
        return false;
    memcpy(out, text, MEMPLAN_IDENTITY_TEXT);
    return true;
}

/* A number, or its two ends. */
static bool read_range(const json_t *json, int64_t *low, int64_t *high)
{
    const json_t *first = json_is_array(json) ? json_array_get(json, 0) : json;
    const json_t *last = json_is_array(json) ? json_array_get(json, 1) : json;

    *low = json_integer_value(first);
    *high = json_integer_value(last);
    return json_is_integer(first) && json_is_integer(last) && *low >= 0 && *high >= *low;
}

static bool read_identity(const json_t *record, struct memplan_identity *id)
{
    const json_t *demands = json_object_get(record, "demands");
    int64_t low, high;
    const char *path;

    *id = (struct memplan_identity){.size = sizeof(*id)};
    if (json_integer_value(json_object_get(record, "identity")) != MEMPLAN_IDENTITY_VERSION ||
        !read_hash(record, "run", id->run) || !read_hash(record, "setup", id->setup) ||
        !read_hash(record, "kin", id->kin))
        return false;
    for (size_t i = 0; (path = memplan_demand_field(i)); i++)
        if (!read_range(json_object_get(demands, path), &id->demands[i].low, &id->demands[i].high))
            return false;
    if (!read_range(json_object_get(record, "card_bytes"), &low, &high))
        return false;
    id->card_low_bytes = (uint64_t)low;
    id->card_high_bytes = (uint64_t)high;
    return true;
}

#define SECONDS 19 /* characters of a time up to its seconds */

/* "2026-11-30T08:00:00.123456Z": texts of that form are in the order of time. */
static bool is_time(const char *text)
{
    struct tm parts;
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;

    return end && end - text == SECONDS && *end == '.' && strspn(end + 1, "0123456789") == 6 &&
           strcmp(end + 7, "Z") == 0;
}

struct ledger_when ledger_entry_when(const struct ledger_entry *entry)
{
    struct ledger_when when;

    snprintf(when.text, sizeof(when.text), "%.*sZ", SECONDS, ledger_entry_text(entry, "time"));
    return when;
}

const char *ledger_entry_check(struct ledger_entry *entry)
{
    const json_t *record = entry->record;
    const json_t *reading = json_object_get(record, "reading");
    const char *outcome = json_string_value(json_object_get(reading, "outcome"));

    if (json_integer_value(json_object_get(record, "version")) != LEDGER_VERSION)
        return "a record of another version";
    if (!is_time(json_string_value(json_object_get(record, "time"))))
        return "a record without its time";
    if (!json_is_object(reading) || !read_identity(record, &entry->id))
        return "a record without its run or its reading";
    entry->has_number = json_object_get(reading, "bytes") != NULL;
    entry->failed = outcome && strcmp(outcome, "oom") == 0;
    if (!entry->has_number && !entry->failed && (!outcome || strcmp(outcome, "ran") != 0))
        return "a record without its run or its reading";
    return NULL;
}

static int visit(void *data, const json_t *record, const char **reason_out)
{
    struct ledger_entries *entries = data;
    struct ledger_entry entry = {.record = (json_t *)record};

    *reason_out = ledger_entry_check(&entry);
    if (*reason_out)
        return 0;
    if (entries->count == MOST_ENTRIES)
        return message_invalid("the ledger holds more than %zu records", MOST_ENTRIES);
    if (entries->count == entries->room) {
        const size_t room = entries->room ? 2 * entries->room : 64;
        struct ledger_entry *grown = realloc(entries->list, room * sizeof(*grown));

        if (!grown) {
            message_print("out of memory");
            return CLI_INTERNAL;
        }
        entries->list = grown;
        entries->room = room;
    }
    json_incref(entry.record);
    entries->list[entries->count++] = entry;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct ledger_entry *one = a, *two = b;
    const int order = strcmp(ledger_entry_text(one, "time"), ledger_entry_text(two, "time"));

    return order ? order : strcmp(ledger_entry_text(one, "id"), ledger_entry_text(two, "id"));
}

int ledger_entries_read(const char *path, const char *kin, struct ledger_entries *entries)
{
    struct ledger_query query = {.visit = visit, .data = entries, .needle = kin};
    int code;

    *entries = (struct ledger_entries){0};
    code = ledger_read(path, &query);
    entries->losses = query.losses;
    if (entries->count)
        qsort(entries->list, entries->count, sizeof(*entries->list), compare);
    return code;
}

void ledger_entries_free(struct ledger_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        json_decref(entries->list[i].record);
    free(entries->list);
    ledger_losses_free(&entries->losses);
    *entries = (struct ledger_entries){0};
}

const char *ledger_entry_text(const struct ledger_entry *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry->record, key));

    return text ? text : "";
}

void ledger_demands_text(const struct memplan_identity *id, char *text, size_t size)
{
    static const char *const names[] = {"%s%lld tokens", "%sbatch %lld", "%s%lld micro-steps",
                                        "%s%lld steps", "%sttt_steps %lld"};
    size_t len = 0;

    *text = '\0';
    /* Length and batch always; the others where they are not the usual ones. */
    for (size_t i = 0; memplan_demand_field(i) && i < sizeof(names) / sizeof(*names); i++)
        if ((i < 2 || (i == 2 && id->demands[i].high > 1)) && len < size)
            len += (size_t)snprintf(text + len, size - len, names[i], i ? ", " : "",
                                    (long long)id->demands[i].high);
}

const char *ledger_entry_says(const struct ledger_entry *entry, char *text, size_t size)
{
    const json_t *reading = json_object_get(entry->record, "reading");
    const json_t *bytes = json_object_get(reading, "bytes");
    const char *metric = json_string_value(json_object_get(reading, "metric"));
    char number[32] = "?";

    if (!entry->has_number)
        return entry->failed ? "out of memory" : "ran";
    if (json_is_string(bytes))
        text_cut(json_string_value(bytes), number, sizeof(number));
    else if (json_is_integer(bytes) && json_integer_value(bytes) > 0)
        text_size((uint64_t)json_integer_value(bytes), number, sizeof(number));
    else if (json_is_real(bytes))
        snprintf(number, sizeof(number), "%g", json_real_value(bytes));
    snprintf(text, size, "%s%s%.16s", number, metric ? " " : "", metric ? metric : "");
    return text;
}
