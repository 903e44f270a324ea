/* SPDX-License-Identifier: MIT */
/* `memplan history`: what became of runs. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "ledger_entry.h"
#include "message.h"
#include "run.h"
#include "table.h"
#include "text.h"

/* The kin of the plan whose history is asked for; "" without one. */
static int find_kin(const struct settings *settings, struct memplan_identity *id)
{
    struct memplan_plan *plan = NULL;
    struct memplan_error err;
    struct input input;
    int code;

    *id = (struct memplan_identity){.size = sizeof(*id)};
    if (!settings->model && settings->assignment_count)
        return message_invalid("history: %s says nothing without --model",
                               settings->assignments[0].option);
    if (!settings->model || (code = run_read(settings, &input)))
        return settings->model ? code : 0;
    code = 0;
    if (run_load(settings, &input, &plan, &err) || memplan_plan_identity(plan, id, &err))
        code = message_error(&err, input.source);
    memplan_plan_free(plan);
    input_free(&input);
    return code;
}

static void print_row(struct table *table, const struct ledger_entry *entry)
{
    const json_t *plan = json_object_get(entry->record, "plan");
    const json_t *device = json_object_get(plan, "device");
    const char *gpu = json_string_value(json_object_get(device, "gpu"));
    struct libscols_line *row = table_row(table);
    char demands[160], card[32] = "", host[32], name[48], says[64];

    ledger_demands_text(&entry->id, demands, sizeof(demands));
    if (entry->id.card_low_bytes)
        text_size(entry->id.card_low_bytes, card, sizeof(card));
    table_cell(table, row, 0, "%s", ledger_entry_when(entry).text);
    table_cell(table, row, 1, "%s", ledger_entry_says(entry, says, sizeof(says)));
    table_cell(table, row, 2, "%s", demands);
    table_cell(table, row, 3, "%s", text_cut(ledger_entry_text(entry, "name"), name, sizeof(name)));
    table_cell(table, row, 4, "%.40s", gpu ? gpu : card);
    table_cell(table, row, 5, "%s", text_cut(ledger_entry_text(entry, "host"), host, sizeof(host)));
    table_cell(table, row, 6, "%.16s", ledger_entry_text(entry, "id"));
}

static int print_table(const struct ledger_entries *entries)
{
    static const char *const names[] = {"time", "outcome", "demands", "run",
                                        "card", "host",    "record",  NULL};
    const json_t *loss;
    struct table table;
    size_t i;

    if (!entries->count)
        printf("No records.\n");
    table_begin(&table, names);
    for (i = 0; i < entries->count; i++)
        print_row(&table, &entries->list[i]);
    if (!table_end(&table, stdout)) {
        message_print("out of memory");
        return CLI_INTERNAL;
    }
    json_array_foreach(entries->losses.list, i, loss)
    {
        message_print("%s:%lld: %s; skipped", json_string_value(json_object_get(loss, "file")),
                      (long long)json_integer_value(json_object_get(loss, "line")),
                      json_string_value(json_object_get(loss, "reason")));
    }
    if (entries->losses.count > json_array_size(entries->losses.list))
        message_print("%zu further lines skipped",
                      entries->losses.count - json_array_size(entries->losses.list));
    return 0;
}

static int print_json(const struct ledger_entries *entries, const char *path)
{
    json_t *records = json_array(), *whole;
    int failed;

    for (size_t i = 0; i < entries->count; i++)
        json_array_append(records, entries->list[i].record);
    whole = json_pack("{s:i, s:s, s:o, s:I, s:o}", "schema", 1, "ledger", path, "records", records,
                      "skipped_lines", (json_int_t)entries->losses.count, "skipped",
                      entries->losses.list ? json_incref(entries->losses.list) : json_array());
    failed = !whole || json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(whole);
    putchar('\n');
    if (!failed)
        return 0;
    message_print("the records cannot be written");
    return CLI_INTERNAL;
}

int cmd_history(const struct settings *settings)
{
    struct ledger_entries entries;
    struct memplan_identity id;
    char *path = ledger_path(settings);
    int code = find_kin(settings, &id);

    if (!code && !path)
        code = message_invalid("no ledger: neither XDG_STATE_HOME nor HOME is set; give --ledger "
                               "PATH");
    if (!code) {
        code = ledger_entries_read(path, *id.kin ? id.kin : NULL, &entries);
        if (!code)
            code = settings->json ? print_json(&entries, path) : print_table(&entries);
        ledger_entries_free(&entries);
    }
    free(path);
    return code;
}
