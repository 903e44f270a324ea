/* SPDX-License-Identifier: MIT */
/* `memplan list`: the presets, and the words and fields that are known. */
#include <dirent.h>
#include <jansson.h>
#include <memplan.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "message.h"
#include "report.h"
#include "table.h"
#include "text.h"

#define ENDING ".json"
#define WORDS  "models, families, optimizers, attention, losses, gpus, libraries or fields"

static int keep_json(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > strlen(ENDING) && strcmp(entry->d_name + len - strlen(ENDING), ENDING) == 0;
}

/* Byte order, whatever the locale: alphasort would follow LC_COLLATE. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void print_preset(struct table *table, const char *folder, const char *name)
{
    char *path = text_format("%s/%s", folder, name);
    json_t *plan = path ? json_load_file(path, 0, NULL) : NULL;
    struct libscols_line *row = table_row(table);

    table_cell(table, row, 0, "%.*s", (int)(strlen(name) - strlen(ENDING)), name);
    table_cell(table, row, 1, "%s", plan ? report_text(plan, "name") : "(not JSON)");
    json_decref(plan);
    free(path);
}

/* Presets of a folder; a folder that does not exist has none. Returns their number. */
static int print_folder(const char *folder)
{
    static const char *const names[] = {"", "", NULL};
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, keep_json, compare_names);
    struct table table;

    if (count <= 0) {
        free(entries);
        return 0;
    }
    printf("%s\n", folder);
    table_begin(&table, names);
    for (int i = 0; i < count; i++) {
        print_preset(&table, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (!table_end(&table, stdout))
        message_print("out of memory");
    return count;
}

static int print_presets(void)
{
    const char *folder;
    int count = 0;

    for (size_t i = 0; (folder = input_folder(i)); i++)
        count += print_folder(folder);
    if (!count)
        message_print("no presets found; set MEMPLAN_MODELS to their folder");
    return count;
}

static void print_entries(enum memplan_list list)
{
    static const char *const names[] = {"", "", NULL};
    struct memplan_entry entry;
    struct table table;

    table_begin(&table, names);
    for (size_t i = 0; memplan_list_entry(list, i, &entry); i++) {
        struct libscols_line *row = table_row(&table);

        table_cell(&table, row, 0, "%s", entry.name);
        table_cell(&table, row, 1, "%s", entry.help ? entry.help : "");
    }
    if (!table_end(&table, stdout))
        message_print("out of memory");
}

/* What `list` takes, beside fields. */
static const struct {
    const char *word;
    bool has_presets;
    enum memplan_list list;
} list_table[] = {
    {"models", true, MEMPLAN_LIST_FAMILIES},        {"families", false, MEMPLAN_LIST_FAMILIES},
    {"optimizers", false, MEMPLAN_LIST_OPTIMIZERS}, {"attention", false, MEMPLAN_LIST_ATTENTION},
    {"losses", false, MEMPLAN_LIST_LOSSES},
};

int cmd_list(const struct settings *settings)
{
    const char *what = settings->word_count ? settings->words[0] : "models";

    if (strcmp(what, "gpus") == 0)
        return gpus_print(settings);
    if (settings->word_count > 1)
        return message_invalid("list: expected one word: " WORDS);
    if (strcmp(what, "libraries") == 0)
        return libraries_print();
    if (strcmp(what, "fields") == 0)
        return fields_print(false);
    for (size_t i = 0; i < sizeof(list_table) / sizeof(*list_table); i++) {
        if (strcmp(what, list_table[i].word) != 0)
            continue;
        if (list_table[i].has_presets && print_presets() > 0)
            printf("\n");
        if (list_table[i].has_presets)
            printf("families, as model_type in a config.json\n");
        print_entries(list_table[i].list);
        return 0;
    }
    return message_invalid("list %s: expected " WORDS, what);
}
