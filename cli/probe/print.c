/* SPDX-License-Identifier: MIT */
/* Probe: what was found, for people. */
#include <string.h>

#include "../report.h"
#include "../table.h"
#include "../text.h"
#include "probe.h"

#define MOST_PRINTED 8 /* processes of one card */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void print_bytes(struct table *table, struct libscols_line *row, size_t column,
                        const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value))
        table_cell(table, row, column, "%.2f", (double)json_integer_value(value) / TEXT_GIB);
    else
        table_cell(table, row, column, "?");
}

static void print_number(const json_t *card, char *text, size_t size)
{
    const json_t *visible = json_object_get(card, "visible");

    if (json_is_integer(visible))
        snprintf(text, size, "%lld", (long long)json_integer_value(visible));
    else
        snprintf(text, size, "-");
}

static void print_card(struct table *table, const json_t *card)
{
    struct libscols_line *row = table_row(table);
    const json_t *number = json_object_get(card, "number");
    char text[32];

    print_number(card, text, sizeof(text));
    table_cell(table, row, 0, "%s", text);
    table_cell(table, row, 1, "%s%.60s", json_object_get(card, "parent") ? "  " : "",
               text_of(card, "name"));
    print_bytes(table, row, 2, card, "total_bytes");
    print_bytes(table, row, 3, card, "used_bytes");
    print_bytes(table, row, 4, card, "free_bytes");
    if (json_is_integer(number))
        table_cell(table, row, 5, "%s%s%lld", text_of(card, "pci"),
                   *text_of(card, "pci") ? ", GPU " : "GPU ",
                   (long long)json_integer_value(number));
    else
        table_cell(table, row, 5, "%s", text_of(card, "pci"));
    table_cell(table, row, 6, "%s",
               json_is_true(json_object_get(card, "mig")) ? "MIG: programs use its instances"
                                                          : text_of(card, "remark"));
}

static bool print_cards(FILE *out, const json_t *document)
{
    static const char *const names[] = {"#",     "card", ">total, GiB", ">used", ">free",
                                        "where", "",     NULL};
    const json_t *cards = json_object_get(document, "cards"), *card;
    struct table table;
    size_t i;

    table_begin(&table, names);
    for (i = 0; (card = probe_visible_card(document, i)); i++)
        print_card(&table, card);
    json_array_foreach(cards, i, card) if (!json_is_integer(json_object_get(card, "visible")))
        print_card(&table, card);
    return table_end(&table, out);
}

static void print_processes_of(struct table *table, const json_t *card)
{
    const json_t *process;
    char number[32];
    size_t i;

    print_number(card, number, sizeof(number));
    if (*number == '-')
        snprintf(number, sizeof(number), "GPU %lld",
                 (long long)json_integer_value(json_object_get(card, "number")));
    json_array_foreach(json_object_get(card, "processes"), i, process)
    {
        struct libscols_line *row = table_row(table);

        table_cell(table, row, 0, "%s", number);
        if (i == MOST_PRINTED) {
            table_cell(table, row, 2, "and %lld more",
                       (long long)json_integer_value(json_object_get(card, "process_count")) -
                           MOST_PRINTED);
            return;
        }
        table_cell(table, row, 1, "%lld",
                   (long long)json_integer_value(json_object_get(process, "pid")));
        table_cell(table, row, 2, "%.48s", text_of(process, "name"));
        print_bytes(table, row, 3, process, "used_bytes");
    }
}

static bool print_processes(FILE *out, const json_t *document)
{
    static const char *const names[] = {"#", ">pid", "process", ">used, GiB", NULL};
    const json_t *cards = json_object_get(document, "cards"), *card;
    bool has_any = false;
    struct table table;
    size_t i;

    json_array_foreach(cards, i, card) has_any =
        has_any || json_array_size(json_object_get(card, "processes"));
    if (!has_any)
        return true;
    fprintf(out, "\nProcesses that hold memory\n");
    table_begin(&table, names);
    json_array_foreach(cards, i, card) print_processes_of(&table, card);
    return table_end(&table, out);
}

/* NVIDIA cards that are not all alike. */
static bool has_several_names(const json_t *document)
{
    const json_t *cards = json_object_get(document, "cards"), *card, *first = NULL;
    size_t i;

    json_array_foreach(cards, i, card)
    {
        if (json_object_get(card, "parent") || strcmp(text_of(card, "vendor"), "nvidia") != 0)
            continue;
        if (first && strcmp(text_of(first, "name"), text_of(card, "name")) != 0)
            return true;
        first = first ? first : card;
    }
    return false;
}

static void print_drivers(FILE *out, const json_t *document)
{
    const char *driver = text_of(document, "driver"), *cuda = text_of(document, "cuda");
    const char *amd = text_of(document, "amd_driver"), *name;
    json_t *environment = json_object_get(document, "environment"), *value;

    if (*driver || *cuda)
        fprintf(out, "NVIDIA driver %s, CUDA %s\n", *driver ? driver : "of unknown release",
                *cuda ? cuda : "of unknown release");
    if (*amd)
        fprintf(out, "amdgpu driver %s\n", amd);
    json_object_foreach(environment, name, value)
        fprintf(out, "%s=%s\n", name, json_string_value(value));
}

/* What a bare context took on each card, where contexts were made. */
static void print_contexts(FILE *out, const json_t *document)
{
    const json_t *card, *bytes;

    for (size_t i = 0; (card = probe_visible_card(document, i)); i++)
        if ((bytes = json_object_get(card, "context_bytes")))
            fprintf(out, "%sa bare context takes %.0f MiB on card %zu\n", i ? "" : "\n",
                    (double)json_integer_value(bytes) / 1048576, i);
}

bool probe_print(FILE *out, const json_t *document)
{
    const json_t *source;
    bool good;
    size_t i;

    print_drivers(out, document);
    fputc('\n', out);
    good = print_cards(out, document) && print_processes(out, document);
    print_contexts(out, document);
    json_array_foreach(json_object_get(document, "sources"), i,
                       source) if (strcmp(text_of(source, "state"), "failed") == 0)
        text_wrap(out, "\n", text_of(source, "text"));
    if (strcmp(text_of(document, "order"), "pci") == 0 && has_several_names(document) &&
        !json_object_get(json_object_get(document, "environment"), "CUDA_DEVICE_ORDER"))
        fprintf(out, "\nNumbers are in the order of the PCI bus; CUDA puts the fastest card first "
                     "unless\nCUDA_DEVICE_ORDER=PCI_BUS_ID is set.\n");
    return good;
}
