/* SPDX-License-Identifier: MIT */
/* The ledger: what it says of a plan, before a model is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger_entry.h"
#include "message.h"
#include "text.h"

/* Has the same run, or more on no larger a card, run since? */
static bool is_lifted(const struct ledger_entries *entries, size_t failure)
{
    const struct ledger_entry *failed = &entries->list[failure];

    for (size_t i = 0; i < entries->count; i++)
        if (!entries->list[i].failed &&
            strcmp(ledger_entry_text(&entries->list[i], "time"),
                   ledger_entry_text(failed, "time")) > 0 &&
            memplan_identity_dominates(&entries->list[i].id, &failed->id))
            return true;
    return false;
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
        if (!is_lifted(entries, i))
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

/* A report of a plan that no model was asked about. NULL: out of memory. */
static json_t *refuse(const struct ledger_entry *entry, const struct memplan_identity *id,
                      const char *name)
{
    char *what = describe(entry), *reason = NULL;
    const bool same = strcmp(id->run, entry->id.run) == 0;
    json_t *record = json_copy(entry->record), *report = NULL;

    json_object_del(record, "plan");
    if (what)
        reason = text_format("It does not fit: the ledger says that %s %s; this plan asks for at "
                             "least as much, of a card with no more memory.",
                             same ? "this run" : "a run like it", what);
    if (reason)
        report =
            json_pack("{s:i, s:s, s:i, s:s, s:{s:s, s:O}}", "schema", 1, "verdict",
                      memplan_verdict_name(MEMPLAN_DOES_NOT_FIT), "code", (int)MEMPLAN_DOES_NOT_FIT,
                      "reason", reason, "ledger", "text", what, "record", record);
    if (report && name)
        json_object_set_new(report, "name", json_string(name));
    json_decref(record);
    free(reason);
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

static enum memplan_status consult(const struct ledger_entries *entries,
                                   const struct memplan_identity *id, struct memplan_plan *plan,
                                   json_t **refusal_out, struct memplan_error *err)
{
    const struct ledger_entry *lifted, *failure = ledger_find_failure(entries, id, &lifted);
    json_t *document;

    if (failure) {
        document = document_of(plan);
        *refusal_out = refuse(failure, id, json_string_value(json_object_get(document, "name")));
        json_decref(document);
        return *refusal_out ? MEMPLAN_OK : fail_memory(err);
    }
    if (lifted)
        message_print("the ledger has a failure of this run, %s (record %.16s), but as much or "
                      "more ran later: the model decides",
                      ledger_entry_when(lifted).text, ledger_entry_text(lifted, "id"));
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
