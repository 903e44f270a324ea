/* SPDX-License-Identifier: MIT */
/* `memplan list`: the presets, fields and optimizers that are known. */
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "message.h"
#include "report.h"
#include "table.h"
#include "text.h"

#define ENDING ".json"

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
    return 0;
}

/* ---- optimizers -------------------------------------------------------------------------------
 */

/* The schema of a field: a value, or alternatives of which the first is the value. */
static const json_t *schema_of_value(const json_t *schema, const char *const *path)
{
    for (; *path; path++)
        schema = json_object_get(json_object_get(schema, "properties"), *path);
    return json_object_get(schema, "anyOf") ? json_array_get(json_object_get(schema, "anyOf"), 0)
                                            : schema;
}

static int print_optimizers(void)
{
    static const char *const path[] = {"training", "optimizer", "name", NULL};
    static const char *const names[] = {"", "", NULL};
    struct memplan_error err = {0};
    const json_t *words, *helps;
    struct table table;
    char *text = NULL;
    json_t *schema;

    if (memplan_plan_schema(&text, &err))
        return message_error(&err, "schema");
    schema = json_loads(text, 0, NULL);
    memplan_free(text);
    words = json_object_get(schema_of_value(schema, path), "enum");
    helps = json_object_get(schema_of_value(schema, path), "enumDescriptions");
    table_begin(&table, names);
    for (size_t i = 0; i < json_array_size(words); i++) {
        struct libscols_line *row;

        if (json_is_null(json_array_get(words, i)))
            continue;
        row = table_row(&table);
        table_cell(&table, row, 0, "%s", json_string_value(json_array_get(words, i)));
        table_cell(&table, row, 1, "%s", json_string_value(json_array_get(helps, i)));
    }
    if (!table_end(&table, stdout))
        message_print("out of memory");
    json_decref(schema);
    return 0;
}

int cmd_list(const struct settings *settings)
{
    const char *what = settings->word_count ? settings->words[0] : "models";

    if (settings->word_count > 1)
        return message_invalid("list: expected one word: models, fields or optimizers");
    if (strcmp(what, "models") == 0)
        return print_presets();
    if (strcmp(what, "fields") == 0)
        return fields_print(false);
    if (strcmp(what, "optimizers") == 0)
        return print_optimizers();
    return message_invalid("list %s: expected models, fields or optimizers", what);
}
