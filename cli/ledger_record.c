/* SPDX-License-Identifier: MIT */
/* The ledger: a record of a plan, with all that it takes to know the run again. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ledger_entry.h"
#include "message.h"
#include "text.h"

#define MOST_PLAN 262144 /* bytes of a plan that a record keeps */

static int fail_memory(void)
{
    message_print("out of memory");
    return CLI_INTERNAL;
}

static json_t *range(int64_t low, int64_t high)
{
    return low == high ? json_integer(low) : json_pack("[I, I]", (json_int_t)low, (json_int_t)high);
}

static json_t *demands(const struct memplan_identity *id)
{
    json_t *object = json_object();
    const char *path;

    for (size_t i = 0; (path = memplan_demand_field(i)); i++)
        json_object_set_new(object, path, range(id->demands[i].low, id->demands[i].high));
    return object;
}

static void now(char *text, size_t size)
{
    struct timespec time = {0, 0};
    struct tm parts;
    size_t len;

    clock_gettime(CLOCK_REALTIME, &time);
    gmtime_r(&time.tv_sec, &parts);
    len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + len, size - len, ".%06ldZ", time.tv_nsec / 1000);
}

/* A name for one record, to speak of it; nothing relies on it. */
static void name_record(char *text, size_t size)
{
    uint8_t bytes[6];

    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes)) {
        const uint64_t mix = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();

        memcpy(bytes, &mix, sizeof(bytes));
    }
    snprintf(text, size, "%02x%02x%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3],
             bytes[4], bytes[5]);
}

/* The plan as it was, so that later versions can know it again; without what is no part of it. */
static json_t *plan_document(const struct memplan_plan *plan)
{
    static const char *const left_out[] = {"observations", "result", "$schema", "id"};
    struct memplan_error err;
    char *text = NULL;
    json_t *json;

    if (memplan_plan_to_json(plan, &text, &err))
        return NULL;
    json = json_loads(text, 0, NULL);
    memplan_free(text);
    for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
        json_object_del(json, left_out[i]);
    return json;
}

static bool is_large(const json_t *json)
{
    return json_dumpb(json, NULL, 0, JSON_COMPACT) > MOST_PLAN;
}

/* The length belongs to the reading, as plans have them. */
static int complete_reading(const struct memplan_identity *id, json_t *reading)
{
    if (id->demands[0].low != id->demands[0].high)
        return message_invalid("the plan leaves training.sequence_length open, expected the length "
                               "that was run: --seq N");
    return json_object_set_new(reading, "sequence_length", json_integer(id->demands[0].low))
               ? fail_memory()
               : 0;
}

static int put_parts(json_t *record, const struct memplan_plan *plan, json_t *message)
{
    json_t *document = plan_document(plan);
    const char *name = json_string_value(json_object_get(document, "name"));
    int failed = !document;

    if (message && json_is_object(message))
        failed |= json_object_set(record, "message", message);
    if (name)
        failed |= json_object_set_new(record, "name", json_string(name));
    if (document && !is_large(document))
        failed |= json_object_set(record, "plan", document);
    json_decref(document);
    return failed ? fail_memory() : 0;
}

static uint64_t bytes_of(const json_t *message, const char *size)
{
    const json_int_t bytes =
        json_integer_value(json_object_get(json_object_get(message, size), "bytes"));

    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* What the card could give to the process that failed: less than its total where others held some,
 * or where it was limited. 0: the message does not say. */
static uint64_t available(const json_t *message)
{
    const uint64_t total = bytes_of(message, "total"), in_use = bytes_of(message, "in_use");
    const uint64_t allowed = bytes_of(message, "allowed");
    uint64_t card =
        in_use && json_object_get(message, "free") ? in_use + bytes_of(message, "free") : total;

    if (card > total && total)
        card = total;
    return allowed && (allowed < card || !card) ? allowed : card;
}

/* Messages round to 10 MiB, and drivers differ by as much. */
#define SAME_CARD 0.02

/* A failure stands for cards with at most the memory that it had, which the message knows better
 * than the plan. */
static void heed_message(struct memplan_identity *id, const json_t *message)
{
    const uint64_t card = available(message);
    char mine[32], planned[32];

    if (!card || !id->card_low_bytes ||
        ((double)card > (1 - SAME_CARD) * (double)id->card_low_bytes &&
         (double)card < (1 + SAME_CARD) * (double)id->card_high_bytes))
        return;
    message_print("the card could give the run %s by the message, %s by the plan: the message "
                  "counts",
                  text_size(card, mine, sizeof(mine)),
                  text_size(id->card_low_bytes, planned, sizeof(planned)));
    id->card_low_bytes = id->card_high_bytes = card;
}

static int make(const struct memplan_plan *plan, const struct memplan_identity *id, json_t *reading,
                json_t *message, json_t **record_out)
{
    char host[65] = "", time_text[32], name[16];
    json_t *record;
    int code = complete_reading(id, reading);

    if (code)
        return code;
    gethostname(host, sizeof(host) - 1);
    now(time_text, sizeof(time_text));
    name_record(name, sizeof(name));
    record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:O}", "version",
                       LEDGER_VERSION, "id", name, "time", time_text, "host", host, "memplan",
                       memplan_version(), "identity", MEMPLAN_IDENTITY_VERSION, "run", id->run,
                       "setup", id->setup, "kin", id->kin, "demands", demands(id), "card_bytes",
                       range((int64_t)id->card_low_bytes, (int64_t)id->card_high_bytes), "reading",
                       reading);
    if (!record)
        return message_invalid("the record cannot be written: the host's name is not UTF-8 text");
    code = put_parts(record, plan, message);
    if (code)
        json_decref(record);
    else
        *record_out = record;
    return code;
}

int ledger_record_make(const struct memplan_plan *plan, const char *source, json_t *reading,
                       json_t *message, json_t **record_out)
{
    struct memplan_identity id = {.size = sizeof(id)};
    struct memplan_error err;
    int code;

    if (memplan_plan_identity(plan, &id, &err)) {
        code = message_error(&err, source);
    } else {
        heed_message(&id, message);
        code = reading ? make(plan, &id, reading, message, record_out) : fail_memory();
    }
    json_decref(reading);
    json_decref(message);
    return code;
}
