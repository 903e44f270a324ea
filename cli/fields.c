/* SPDX-License-Identifier: MIT */
/* The list of all fields of a plan, for people and for docs/plan.md. */
#include <memplan.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "text.h"

static const char *const markdown_head =
    "# The fields of a plan\n"
    "\n"
    "Made by `memplan help fields --markdown` from the table that reads plans; do not edit. Every\n"
    "field can be set on the command line: `--set training.optimizer.name=sgd`.\n"
    "\n"
    "- A plan is one JSON document; `model` holds the fields of a Hugging Face `config.json`, and "
    "a\n"
    "  `config.json` alone is a plan too. Fields that change no size are accepted there.\n"
    "- Sizes are integers of bytes, or text with a unit: `\"80 GB\"` is 80e9, `\"80 GiB\"` is 80 "
    "x\n"
    "  2^30, `\"81082 MiB\"` as tools print it.\n"
    "- What nobody wrote down may be left open: `{\"any_of\": [112, 128], \"why\": \"...\"}` in "
    "place\n"
    "  of a value. Every combination is estimated, and readings may exclude some.\n"
    "- The members `about`, `source`, `comment` and `why` hold remarks, in every section.\n";

/* Prints text with the character that ends a table's cell escaped. */
static void print_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

static size_t section_length(const char *path)
{
    const char *dot = strchr(path, '.');

    return dot ? (size_t)(dot - path) : 0;
}

/* The heading of the section that a path lies in. */
static void print_section(const char *path, size_t len)
{
    if (len)
        printf("\n## %.*s\n\n", (int)len, path);
    else
        printf("\n## The document\n\n");
    printf("| field | type | values | default | |\n|---|---|---|---|---|\n");
}

/* Defaults as people read them: a field without one is needed, null leaves it unset. */
static const char *fallback_text(const struct memplan_field *field)
{
    return !*field->fallback                      ? "needed"
           : strcmp(field->fallback, "null") == 0 ? ""
                                                  : field->fallback;
}

static void print_row(const struct memplan_field *field)
{
    printf("| `%s` | %s | ", field->path, field->type);
    print_cell(field->range);
    printf(" | ");
    print_cell(fallback_text(field));
    printf(" | ");
    print_cell(field->help);
    printf(" |\n");
}

/* The fields of one section; rows of the table need not stand together. */
static void print_fields_of(const char *first, size_t len)
{
    struct memplan_field field;

    print_section(first, len);
    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (section_length(field.path) == len && strncmp(field.path, first, len) == 0)
            print_row(&field);
}

/* True when no row before i lies in the same section. */
static bool is_first(size_t i, const char *path)
{
    size_t len = section_length(path);
    struct memplan_field field;

    for (size_t j = 0; j < i && memplan_plan_field(j, &field); j++)
        if (section_length(field.path) == len && strncmp(field.path, path, len) == 0)
            return false;
    return true;
}

static void print_markdown(void)
{
    struct memplan_field field;

    fputs(markdown_head, stdout);
    for (size_t i = 0; memplan_plan_field(i, &field); i++)
        if (is_first(i, field.path))
            print_fields_of(field.path, section_length(field.path));
}

int fields_print(bool markdown)
{
    struct memplan_field field;

    if (markdown) {
        print_markdown();
        return 0;
    }
    for (size_t i = 0; memplan_plan_field(i, &field); i++) {
        const char *fallback = fallback_text(&field);
        const char *word = strcmp(fallback, "needed") == 0 ? "; " : "; default ";

        printf("%s  (%s%s%s%s%s)\n", field.path, field.type, *field.range ? ": " : "", field.range,
               *fallback ? word : "", fallback);
        text_wrap(stdout, "    ", field.help);
    }
    return 0;
}
