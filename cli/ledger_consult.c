/* SPDX-License-Identifier: MIT */
/* The ledger: what it says of a plan, before a model is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger_entry.h"
#include "message.h"
#include "text.h"

/* The newest record of the same run, or of more on no larger a card, that ran after a failure, or
 * before it. */
static const struct ledger_entry *success_beside(const struct ledger_entries *entries,
                                                 const struct ledger_entry *failed, bool is_after)
{
    for (size_t i = entries->count; i-- > 0;) {
        const struct ledger_entry *entry = &entries->list[i];

        if (!entry->failed &&
            (strcmp(ledger_entry_text(entry, "time"), ledger_entry_text(failed, "time")) > 0) ==
                is_after &&
            memplan_identity_dominates(&entry->id, &failed->id))
            return entry;
    }
    return NULL;
}

const struct ledger_entry *ledger_find_failure(const struct ledger_entries *entries,
                                               const struct memplan_identity *id,
                                               const struct ledger_entry **lifted_out)
{
    if (lifted_out)
        *lifted_out = NULL;
    for (size_t i = entries->count; i-- > 0;) {
        const struct ledger_entry *entry = &entries->list[i];

        if (!entry->failed || !memplan_identity_dominates(id, &entry->id))
            continue;
        if (!success_beside(entries, entry, true))
            return entry;
        if (lifted_out)
            *lifted_out = entry;
    }
    return NULL;
}

/* "ran out of memory at 32768 tokens, batch 1, on HOST, 2026-11-30T08:00:00Z (record ID)" */
static char *describe(const struct ledger_entry *entry)
{
    const json_t *size = json_object_get(json_object_get(entry->record, "message"), "requested");
    const json_int_t requested = json_integer_value(json_object_get(size, "bytes"));
    char demands[160], bytes[32], asked[64] = "";

    ledger_demands_text(&entry->id, demands, sizeof(demands));
    if (requested > 0)
        snprintf(asked, sizeof(asked), ", when it asked for %s",
                 text_size((uint64_t)requested, bytes, sizeof(bytes)));
    return text_format("ran out of memory at %s%s, on %.64s, %s (record %.16s)", demands, asked,
                       ledger_entry_text(entry, "host"), ledger_entry_when(entry).text,
                       ledger_entry_text(entry, "id"));
}

/* What speaks against a failure that stands: " Before that 4096 tokens, batch 1 ran, on HOST, ...";
 * "" where nothing does. NULL: out of memory. */
static char *describe_success(const struct ledger_entry *success)
{
    char demands[160];

    if (!success)
        return text_format("%s", "");
    ledger_demands_text(&success->id, demands, sizeof(demands));
    return text_format(" The ledger contradicts itself: %s ran before that, on %.64s, %s (record "
                       "%.16s); the newer record counts.",
                       demands, ledger_entry_text(success, "host"), ledger_entry_when(success).text,
                       ledger_entry_text(success, "id"));
}

/* A report of a plan that no model was asked about; success: what speaks against the failure. NULL:
 * out of memory. */
static json_t *refuse(const struct ledger_entry *entry, const struct ledger_entry *success,
                      const struct memplan_identity *id, const char *name)
{
    char *what = describe(entry), *against = describe_success(success), *reason = NULL;
    const bool same = strcmp(id->run, entry->id.run) == 0;
    json_t *record = json_copy(entry->record), *report = NULL;

    json_object_del(record, "plan");
    if (what && against)
        reason = text_format("It does not fit: the ledger says that %s %s; this plan asks for at "
                             "least as much, of a card with no more memory.%s",
                             same ? "this run" : "a run like it", what, against);
    if (reason)
        report =
            json_pack("{s:i, s:s, s:i, s:s, s:{s:s, s:O}}", "schema", 1, "verdict",
                      memplan_verdict_name(MEMPLAN_DOES_NOT_FIT), "code", (int)MEMPLAN_DOES_NOT_FIT,
                      "reason", reason, "ledger", "text", what, "record", record);
    if (report && name)
        json_object_set_new(report, "name", json_string(name));
    json_decref(record);
    free(reason);
    free(against);
    free(what);
    return report;
}

static json_t *document_of(const struct memplan_plan *plan)
{
    char *text = NULL;
    json_t *json;

    if (memplan_plan_to_json(plan, &text, NULL))
        return NULL;
    json = json_loads(text, 0, NULL);
    memplan_free(text);
    return json;
}

static enum memplan_status fail_memory(struct memplan_error *err)
{
    err->status = MEMPLAN_ERR_NOMEM;
    snprintf(err->text, sizeof(err->text), "out of memory");
    return err->status;
}

/* Evidence that contradicts itself: both records are named, neither decides. */
static void tell_lifted(const struct ledger_entry *failure, const struct ledger_entry *success)
{
    char failed[160], ran[160];

    ledger_demands_text(&failure->id, failed, sizeof(failed));
    ledger_demands_text(&success->id, ran, sizeof(ran));
    message_print("the ledger contradicts itself: %s ran out of memory, %s (record %.16s), but %s "
                  "ran later, %s (record %.16s): the model decides",
                  failed, ledger_entry_when(failure).text, ledger_entry_text(failure, "id"), ran,
                  ledger_entry_when(success).text, ledger_entry_text(success, "id"));
}

static enum memplan_status consult(const struct ledger_entries *entries,
                                   const struct memplan_identity *id, struct memplan_plan *plan,
                                   json_t **refusal_out, struct memplan_error *err)
{
    const struct ledger_entry *lifted, *failure = ledger_find_failure(entries, id, &lifted);
    json_t *document;

    if (failure) {
        document = document_of(plan);
        *refusal_out = refuse(failure, success_beside(entries, failure, false), id,
                              json_string_value(json_object_get(document, "name")));
        json_decref(document);
        return *refusal_out ? MEMPLAN_OK : fail_memory(err);
    }
    if (lifted)
        tell_lifted(lifted, success_beside(entries, lifted, true));
    return ledger_join(entries, id, plan, err);
}

enum memplan_status ledger_consult(const struct settings *settings, struct memplan_plan *plan,
                                   json_t **refusal_out, struct memplan_error *err)
{
    struct memplan_identity id = {.size = sizeof(id)};
    char *path = settings->no_ledger ? NULL : ledger_path(settings);
    struct ledger_entries entries = {0};
    enum memplan_status status = MEMPLAN_OK;

    *refusal_out = NULL;
    /* A plan that is not valid is refused by the estimate, in its own words. */
    if (!path || access(path, F_OK) || memplan_plan_identity(plan, &id, NULL)) {
        free(path);
        return MEMPLAN_OK;
    }
    if (!ledger_entries_read(path, id.kin, &entries)) {
        status = consult(&entries, &id, plan, refusal_out, err);
        ledger_losses_print(&entries.losses);
    } else if (settings->ledger) {
        /* The reason was said; a launch must not be let through because of it. */
        err->status = status = MEMPLAN_ERR_VALUE;
        snprintf(err->source, sizeof(err->source), "--ledger %.100s", path);
        snprintf(err->text, sizeof(err->text), "the ledger cannot be read");
    }
    ledger_entries_free(&entries);
    free(path);
    return status;
}
