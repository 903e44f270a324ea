/* SPDX-License-Identifier: MIT */
/* Values that an argument may have: one row for each name that --help has for one. */
#include <dirent.h>
#include <memplan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "complete.h"
#include "input.h"
#include "text.h"

#define ENDING ".json"

void complete_offer(struct completion *c, const char *text, const char *suffix, const char *help)
{
    const size_t before = strlen(c->before), len = strlen(c->word);
    char *whole = text_format("%s%s%s", c->before, text, suffix);

    /* Cards are meant whatever their case. */
    if (whole && strncmp(whole, c->word, before) == 0 && len >= before &&
        strncasecmp(whole + before, c->word + before, len - before) == 0) {
        printf("%s\t%s\n", whole, help ? help : "");
        c->stays_open |= *suffix != '\0';
    }
    free(whole);
}

static void offer_folder(struct completion *c, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        const size_t len = strlen(entry->d_name);
        char *name;

        if (len <= strlen(ENDING) || strcmp(entry->d_name + len - strlen(ENDING), ENDING) != 0)
            continue;
        name = text_format("%.*s", (int)(len - strlen(ENDING)), entry->d_name);
        if (name)
            complete_offer(c, name, "", "preset");
        free(name);
    }
    if (dir)
        closedir(dir);
}

static void offer_presets(struct completion *c)
{
    const char *folder;

    for (size_t i = 0; (folder = input_folder(i)); i++)
        offer_folder(c, folder);
}

/* From every word of its name on that means this card: "H100 PCIe" as well as "NVIDIA H100 PCIe".
 */
static void offer_card(struct completion *c, const struct memplan_gpu *gpu)
{
    const char *word = c->word + strlen(c->before), *at = gpu->name;
    struct memplan_gpu found;
    char help[64];

    snprintf(help, sizeof(help), "%u GB, %s%s", (unsigned)gpu->nominal_gb, gpu->arch,
             gpu->is_mig_instance ? ", MIG" : "");
    complete_offer(c, gpu->name, "", help);
    while (*word && (at = strchr(at, ' ')) && *++at) {
        found = (struct memplan_gpu){.size = sizeof(found)};
        if (strncasecmp(at, word, strlen(word)) == 0 && !memplan_gpu_find(at, &found, NULL) &&
            strcmp(found.name, gpu->name) == 0)
            complete_offer(c, at, "", help);
    }
}

static void offer_cards(struct completion *c)
{
    struct memplan_gpu gpu = {.size = sizeof(gpu)};

    complete_offer(c, "auto", "", "the card of this machine");
    for (size_t i = 0; memplan_gpu_entry(i, &gpu); i++)
        offer_card(c, &gpu);
}

static void offer_families(struct completion *c)
{
    struct memplan_entry entry;

    for (size_t i = 0; memplan_list_entry(MEMPLAN_LIST_FAMILIES, i, &entry); i++)
        complete_offer(c, entry.name, "", entry.help);
}

static void offer_rules(struct completion *c)
{
    struct memplan_pack_rule rule;

    for (size_t i = 0; memplan_pack_rule_entry(i, &rule); i++)
        complete_offer(c, rule.name, "", rule.help);
}

static void offer_commands(struct completion *c)
{
    const struct command *command;

    for (size_t i = 0; (command = command_at(i)); i++)
        complete_offer(c, command->name, "", command->help);
}

static bool is_number(const struct memplan_field *field)
{
    return strcmp(field->type, "integer") == 0 || strcmp(field->type, "number") == 0 ||
           strcmp(field->type, "bytes") == 0;
}

/* The members of readings are no fields of their own. */
static bool can_be_set(const struct memplan_field *field)
{
    return !strstr(field->path, "[]");
}

/* The last part of a path is enough where it means that path; paths are what one starts with. */
static void offer_field(struct completion *c, const struct memplan_field *field, const char *suffix)
{
    const char *word = c->word + strlen(c->before), *dot = strrchr(field->path, '.');
    struct memplan_field found;

    complete_offer(c, field->path, suffix, field->help);
    if (*word && dot && !strchr(word, '.') && !memplan_field_find(dot + 1, &found, NULL) &&
        strcmp(found.path, field->path) == 0)
        complete_offer(c, dot + 1, suffix, field->help);
}

static void offer_numbers(struct completion *c)
{
    struct memplan_field field;

    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (is_number(&field) && can_be_set(&field))
            offer_field(c, &field, "");
}

/* "adamw, sgd, adam": each of them. Ranges of numbers are no list. */
static void offer_range(struct completion *c, const char *range)
{
    while (*range && !strstr(range, "..") && strncmp(range, "see ", 4) != 0) {
        const size_t len = strcspn(range, ",");
        char *word = text_format("%.*s", (int)len, range);

        if (word)
            complete_offer(c, word, "", "");
        free(word);
        range += len;
        range += strspn(range, ", ");
    }
}

static void offer_values_of(struct completion *c, const struct memplan_field *field)
{
    if (strcmp(field->path, "device.gpu") == 0)
        offer_cards(c);
    else if (strcmp(field->path, "model.model_type") == 0 ||
             strcmp(field->path, "model.assume") == 0)
        offer_families(c);
    else if (strcmp(field->type, "boolean") == 0)
        offer_range(c, "false, true");
    else if (!is_number(field))
        offer_range(c, field->range);
}

/* FIELD=VALUE: the value once the field is there. */
static void offer_assignments(struct completion *c)
{
    const char *word = c->word + strlen(c->before), *equals = strchr(word, '=');
    struct memplan_field field;
    char *path = equals ? text_format("%.*s", (int)(equals - word), word) : NULL;
    char *before = path ? text_format("%s%s=", c->before, path) : NULL;

    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (before && strcmp(field.path, path) == 0) {
            c->before = before;
            offer_values_of(c, &field);
        } else if (!equals && can_be_set(&field)) {
            complete_offer(c, field.path, "=", field.help);
        }
    c->before = "";
    free(before);
    free(path);
}

/* sweep takes any field, also by its last name. */
static void offer_swept(struct completion *c)
{
    struct memplan_field field;

    if (strchr(c->word, '=')) {
        offer_assignments(c);
        return;
    }
    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (can_be_set(&field))
            offer_field(c, &field, "=");
}

static void offer_metrics(struct completion *c)
{
    struct memplan_field field;

    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (strcmp(field.path, "observations[].metric") == 0)
            offer_range(c, field.range);
}

static void offer_stages(struct completion *c)
{
    offer_range(c, "spec, timeline, replay");
}

static const struct {
    const char *argument;
    void (*offer)(struct completion *c); /* NULL: files only */
    bool has_files;
} value_table[] = {
    {"PLAN", offer_presets, true},
    {"FILE", NULL, true},
    {"PATH", NULL, true},
    {"TRACE", NULL, true},
    {"LENGTHS", NULL, true},
    {"FAMILY", offer_families, false},
    {"CARD", offer_cards, false},
    {"FIELD=VALUE", offer_assignments, false},
    {"FIELD=A", offer_swept, false}, /* FIELD=A..B and FIELD=A,B */
    {"FIELD", offer_numbers, false},
    {"RULE", offer_rules, false},
    {"METRIC", offer_metrics, false},
    {"STAGE", offer_stages, false},
    {"COMMAND", offer_commands, false},
};

bool complete_values(struct completion *c, const char *argument)
{
    const size_t len = strlen(argument);

    for (size_t i = 0; i < sizeof(value_table) / sizeof(*value_table); i++) {
        const char *name = value_table[i].argument;
        const size_t known = strlen(name);

        if (len < known || strncmp(argument, name, known) != 0 ||
            (len > known && argument[known] != '.' && argument[known] != ','))
            continue;
        if (value_table[i].offer)
            value_table[i].offer(c);
        return value_table[i].has_files;
    }
    return false;
}
