/* SPDX-License-Identifier: MIT */
/* The ledger: what was recorded of a run becomes readings of its plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_entry.h"
#include "message.h"
#include "text.h"

/* Each reading is one more run of the model, and tells less than the one before. */
#define MOST_NUMBERS      8
#define MOST_OBSERVATIONS 64 /* of a plan */

/* Readings that were chosen, as indices of entries. */
struct choice {
    size_t list[MOST_NUMBERS + 2];
    size_t count;
};

static bool is_scalar(const struct memplan_identity *id)
{
    for (size_t i = 0; memplan_demand_field(i); i++)
        if (id->demands[i].low != id->demands[i].high)
            return false;
    return true;
}

static bool same_demands(const struct memplan_identity *a, const struct memplan_identity *b)
{
    for (size_t i = 0; memplan_demand_field(i); i++)
        if (a->demands[i].high != b->demands[i].high)
            return false;
    return true;
}

static const char *metric_of(const struct ledger_entry *entry)
{
    const json_t *reading = json_object_get(entry->record, "reading");
    const char *metric = json_string_value(json_object_get(reading, "metric"));

    return metric ? metric : "";
}

/* What a card with other memory would have read: allocated is the same, the rest is not. */
static bool is_comparable(const struct ledger_entry *entry, const struct memplan_identity *id)
{
    if (!is_scalar(&entry->id))
        return false;
    return (entry->id.card_low_bytes == id->card_low_bytes &&
            entry->id.card_high_bytes == id->card_high_bytes) ||
           (entry->has_number && strcmp(metric_of(entry), "allocated") == 0);
}

/* Is that number, of the same run, there already? */
static bool is_chosen(const struct ledger_entries *entries, const struct choice *choice,
                      const struct ledger_entry *entry)
{
    for (size_t i = 0; i < choice->count; i++) {
        const struct ledger_entry *other = &entries->list[choice->list[i]];

        if (same_demands(&other->id, &entry->id) && strcmp(metric_of(other), metric_of(entry)) == 0)
            return true;
    }
    return false;
}

/* The newest numbers, the longest run that ran, the shortest that failed: what lies between says
 * nothing new. */
static void choose(const struct ledger_entries *entries, const struct memplan_identity *id,
                   struct choice *choice)
{
    size_t ran = SIZE_MAX, failed = SIZE_MAX;

    for (size_t i = entries->count; i-- > 0;) {
        const struct ledger_entry *entry = &entries->list[i];
        size_t *outcome = entry->failed ? &failed : &ran;

        if (!is_comparable(entry, id))
            continue;
        if (entry->has_number) {
            if (choice->count < MOST_NUMBERS && !is_chosen(entries, choice, entry))
                choice->list[choice->count++] = i;
        } else if (*outcome == SIZE_MAX ||
                   memplan_identity_dominates(
                       entry->failed ? &entries->list[*outcome].id : &entry->id,
                       entry->failed ? &entry->id : &entries->list[*outcome].id)) {
            *outcome = i;
        }
    }
    if (ran != SIZE_MAX)
        choice->list[choice->count++] = ran;
    if (failed != SIZE_MAX)
        choice->list[choice->count++] = failed;
}

/* A record's reading as the plan would have it; new, NULL when out of memory. */
static json_t *observation_of(const struct ledger_entry *entry, const struct memplan_identity *id)
{
    static const char *const members[] = {"sequence_length", "bytes", "unit", "metric", "outcome"};
    const json_t *reading = json_object_get(entry->record, "reading");
    json_t *observation = json_object(), *set = json_object();
    char *source = text_format("ledger: %.32s, %s, record %.16s", ledger_entry_text(entry, "host"),
                               ledger_entry_when(entry).text, ledger_entry_text(entry, "id"));

    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        if (json_object_get(reading, members[i]) && !(i == 4 && entry->has_number))
            json_object_set(observation, members[i], json_object_get(reading, members[i]));
    for (size_t i = 1; memplan_demand_field(i); i++)
        if (id->demands[i].low != id->demands[i].high ||
            id->demands[i].low != entry->id.demands[i].low)
            json_object_set_new(set, memplan_demand_field(i),
                                json_integer(entry->id.demands[i].low));
    if (json_object_size(set))
        json_object_set(observation, "set", set);
    if (source)
        json_object_set_new(observation, "source", json_string(source));
    json_decref(set);
    free(source);
    return observation;
}

/* The same number or outcome at the same length: told twice, it counts once. */
static bool is_known(const json_t *list, const json_t *observation)
{
    static const char *const members[] = {"sequence_length", "bytes", "metric", "outcome", "set"};
    const json_t *other;
    size_t i;

    json_array_foreach(list, i, other)
    {
        bool same = true;

        for (size_t m = 0; m < sizeof(members) / sizeof(*members); m++) {
            const json_t *a = json_object_get(other, members[m]);
            const json_t *b = json_object_get(observation, members[m]);

            same = same && (a ? b && json_equal(a, b) : !b);
        }
        if (same)
            return true;
    }
    return false;
}

static enum memplan_status set_observations(struct memplan_plan *plan, const json_t *list,
                                            struct memplan_error *err)
{
    char *text = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(15));
    char *assignment = text ? text_format("observations=%s", text) : NULL;
    enum memplan_status status =
        assignment ? memplan_plan_set(plan, assignment, err) : MEMPLAN_ERR_NOMEM;

    if (!status)
        status = memplan_plan_check(plan, err);
    free(assignment);
    free(text);
    return status;
}

/* The plan's own observations; new. */
static json_t *own_observations(const struct memplan_plan *plan)
{
    char *text = NULL;
    json_t *document = NULL, *list;

    if (!memplan_plan_to_json(plan, &text, NULL))
        document = json_loads(text, 0, NULL);
    memplan_free(text);
    list = json_object_get(document, "observations");
    list = json_is_array(list) ? json_incref(list) : json_array();
    json_decref(document);
    return list;
}

enum memplan_status ledger_join(const struct ledger_entries *entries,
                                const struct memplan_identity *id, struct memplan_plan *plan,
                                struct memplan_error *err)
{
    json_t *list = own_observations(plan);
    struct choice choice = {0};
    enum memplan_status status = MEMPLAN_OK;
    struct memplan_error refused;

    choose(entries, id, &choice);
    for (size_t i = 0; i < choice.count && json_array_size(list) < MOST_OBSERVATIONS; i++) {
        const struct ledger_entry *entry = &entries->list[choice.list[i]];
        json_t *observation = observation_of(entry, id);

        if (!observation || is_known(list, observation)) {
            json_decref(observation);
            continue;
        }
        json_array_append_new(list, observation);
        if (!set_observations(plan, list, &refused))
            continue;
        /* A record that was changed by hand, or by a newer version: the plan is judged without. */
        message_print("record %.16s of the ledger is no reading of this plan: %s; skipped",
                      ledger_entry_text(entry, "id"), refused.text);
        json_array_remove(list, json_array_size(list) - 1);
        status = set_observations(plan, list, err);
    }
    json_decref(list);
    return status;
}
