/* SPDX-License-Identifier: MIT */
/* `memplan list gpus`: the card table, and all of one card; what libraries take of it. */
#include <memplan.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "table.h"
#include "text.h"

#define MIB 1048576.0

static const char *known(enum memplan_known value)
{
    switch (value) {
    case MEMPLAN_MEASURED:
        return "measured";
    case MEMPLAN_DERIVED:
        return "derived";
    case MEMPLAN_RECALLED:
        return "recalled";
    case MEMPLAN_NOT_KNOWN:
        break;
    }
    return "";
}

static void print_row(struct table *table, const struct memplan_gpu *gpu)
{
    struct libscols_line *row = table_row(table);

    table_cell(table, row, 0, "%s", gpu->name);
    table_cell(table, row, 1, "%.2f", (double)gpu->total_bytes / TEXT_GIB);
    table_cell(table, row, 2, "%s", known(gpu->total_known));
    if (gpu->smi_total_bytes)
        table_cell(table, row, 3, "%.0f", (double)gpu->smi_total_bytes / MIB);
    table_cell(table, row, 4, "%s", gpu->arch);
    if (gpu->multiprocessors)
        table_cell(table, row, 5, "%u", gpu->multiprocessors);
}

static int print_all(void)
{
    static const char *const names[] = {"card", ">PyTorch, GiB", "",  ">nvidia-smi, MiB",
                                        "arch", ">SMs",          NULL};
    struct memplan_gpu gpu = {.size = sizeof(gpu)};
    struct table table;

    table_begin(&table, names);
    for (size_t i = 0; memplan_gpu_entry(i, &gpu); i++) {
        print_row(&table, &gpu);
        gpu.size = sizeof(gpu);
    }
    if (table_end(&table, stdout))
        return 0;
    message_print("out of memory");
    return CLI_INTERNAL;
}

/* "NVIDIA A800 80GB PCIe|..." with commas. */
static void print_aliases(const char *aliases)
{
    char text[512];
    size_t used = 0;

    for (; *aliases && used + 3 < sizeof(text); aliases++) {
        text[used++] = *aliases == '|' ? ',' : *aliases;
        if (*aliases == '|')
            text[used++] = ' ';
    }
    text[used] = '\0';
    if (used)
        text_wrap(stdout, "  also known as    ", text);
}

static void print_figures(const struct memplan_gpu *gpu)
{
    printf("  PyTorch sees     %.2f GiB, %.0f MiB, %s", (double)gpu->total_bytes / TEXT_GIB,
           (double)gpu->total_bytes / MIB, known(gpu->total_known));
    if (gpu->total_low_bytes != gpu->total_high_bytes)
        printf("; %.0f to %.0f MiB were seen", (double)gpu->total_low_bytes / MIB,
               (double)gpu->total_high_bytes / MIB);
    printf("\n");
    if (gpu->smi_total_bytes)
        printf("  nvidia-smi       %.0f MiB, %s\n", (double)gpu->smi_total_bytes / MIB,
               known(gpu->smi_total_known));
    if (gpu->context_high_bytes)
        printf("  CUDA context     %.0f MiB, %.0f to %.0f\n"
               "  one process has  %.2f GiB, %.2f to %.2f, for PyTorch's allocator\n",
               (double)gpu->context_expected_bytes / MIB, (double)gpu->context_low_bytes / MIB,
               (double)gpu->context_high_bytes / MIB,
               (double)(gpu->total_bytes - gpu->context_expected_bytes) / TEXT_GIB,
               (double)(gpu->total_bytes - gpu->context_high_bytes) / TEXT_GIB,
               (double)(gpu->total_bytes - gpu->context_low_bytes) / TEXT_GIB);
    else
        printf("  context          not known: give device.context_bytes\n");
}

static int print_one(const char *name)
{
    struct memplan_gpu gpu = {.size = sizeof(gpu)};
    struct memplan_error err;

    if (memplan_gpu_find(name, &gpu, &err))
        return message_invalid("list gpus: %s", message_sentence(&err));
    printf("%s\n", gpu.name);
    print_aliases(gpu.aliases);
    printf("  architecture     %s", gpu.arch);
    if (gpu.multiprocessors)
        printf(", %u multiprocessors", gpu.multiprocessors);
    printf("\n");
    print_figures(&gpu);
    text_wrap(stdout, "  memory from      ", gpu.source);
    if (*gpu.notes)
        text_wrap(stdout, "  notes            ", gpu.notes);
    if (*gpu.context_source)
        text_wrap(stdout, "  context from     ", gpu.context_source);
    return 0;
}

/* "0.25 GiB", "100 to 300 MiB"; of what the library decides nothing is said. */
static void print_sizes(const struct memplan_library *library)
{
    const double low = (double)library->low_bytes / MIB, high = (double)library->high_bytes / MIB;

    if (library->high_bytes && library->low_bytes == library->high_bytes)
        printf(", %.6g MiB", high);
    else if (library->high_bytes)
        printf(", %.6g to %.6g MiB", low, high);
}

int libraries_print(void)
{
    struct memplan_library library = {.size = sizeof(library)};

    for (size_t i = 0; memplan_library_entry(i, &library); i++) {
        library.size = sizeof(library);
        printf("%s%s", i ? "\n" : "", library.name);
        print_sizes(&library);
        if (library.from > 1)
            printf(", from %u.%u on", library.from / 10, library.from % 10);
        if (library.below)
            printf(", below %u.%u", library.below / 10, library.below % 10);
        printf("\n");
        text_wrap(stdout, "  where    ", library.where);
        text_wrap(stdout, "  counted  ", library.counted);
        text_wrap(stdout, "  source   ", library.source);
    }
    return 0;
}

int gpus_print(const struct settings *settings)
{
    if (settings->word_count > 2)
        return message_invalid("list gpus: expected one name; quote it if it has spaces");
    return settings->word_count == 2 ? print_one(settings->words[1]) : print_all();
}
