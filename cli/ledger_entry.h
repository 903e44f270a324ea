/* SPDX-License-Identifier: MIT */
/* Records of the ledger: what they hold, how they are made, and what they say of a plan. */
#ifndef CLI_LEDGER_ENTRY_H
#define CLI_LEDGER_ENTRY_H

#include <memplan.h>

#include "ledger.h"
#include "options.h"

#define LEDGER_VERSION 1 /* of a record */

/** One record, checked. */
struct ledger_entry {
    json_t *record; /* owned */
    struct memplan_identity id;
    bool failed; /* ran out of memory; else it ran */
    bool has_number;
};

struct ledger_entries {
    struct ledger_entry *list; /* owned */
    size_t count, room;
    struct ledger_losses losses;
};

/** The ledger's path: --ledger, else the default one; new. NULL: neither HOME nor XDG_STATE_HOME is
 * set. */
char *ledger_path(const struct settings *settings);

/** Reads the records of a ledger, in the order of their time. kin: only those of that identity;
 * NULL: all. Returns 0, or an exit code after a message. */
int ledger_entries_read(const char *path, const char *kin, struct ledger_entries *entries);

void ledger_entries_free(struct ledger_entries *entries);

/** When and where a record was made; "" when it does not say. Borrowed. */
const char *ledger_entry_text(const struct ledger_entry *entry, const char *key);

/** The time of a record for people: "2026-11-30T08:00:00Z". */
struct ledger_when {
    char text[24];
};

struct ledger_when ledger_entry_when(const struct ledger_entry *entry);

/** Fills in an entry whose record stands. Why it is no record; NULL: it is one. */
const char *ledger_entry_check(struct ledger_entry *entry);

/** What became of the run: "out of memory", "ran", "28.5GB allocated". */
const char *ledger_entry_says(const struct ledger_entry *entry, char *text, size_t size);

/** "32768 tokens, batch 2": the demands of a run. */
void ledger_demands_text(const struct memplan_identity *id, char *text, size_t size);

/**
 * Makes a record of a plan: time, host, versions, identity, the plan itself. Takes the references
 * of reading, a reading as plans have them without its length, and of message, which may be NULL.
 * Returns 0 with *record_out new, or an exit code after a message.
 */
int ledger_record_make(const struct memplan_plan *plan, const char *source, json_t *reading,
                       json_t *message, json_t **record_out);

/** Lets the ledger speak before a model is asked. *refusal_out is new where a recorded failure
 * stands against the plan: a report as JSON. Else what was recorded of the same run joins the
 * plan's observations. */
enum memplan_status ledger_consult(const struct settings *settings, struct memplan_plan *plan,
                                   json_t **refusal_out, struct memplan_error *err);

/** The failure that stands against a plan; NULL: none. lifted_out, if not NULL: one that would, had
 * the same run or more not run after it. Borrowed. */
const struct ledger_entry *ledger_find_failure(const struct ledger_entries *entries,
                                               const struct memplan_identity *id,
                                               const struct ledger_entry **lifted_out);

/** Adds readings that the ledger has of the same run to the plan's observations. */
enum memplan_status ledger_join(const struct ledger_entries *entries,
                                const struct memplan_identity *id, struct memplan_plan *plan,
                                struct memplan_error *err);

#endif
