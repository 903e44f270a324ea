/* SPDX-License-Identifier: MIT */
/*
 * Probe: AMD cards by what the amdgpu driver shows as files; no library.
 *
 * source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c (nodes, their properties), kfd_process.c
 * (proc/PID/vram_GPUID), amdgpu/amdgpu_vram_mgr.c (mem_info_vram_total, mem_info_vram_used);
 * libdrm's amdgpu.ids for names
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define NODES     "/sys/class/kfd/kfd/topology/nodes"
#define PROCESSES "/sys/class/kfd/kfd/proc"
#define NAMES     "/usr/share/libdrm/amdgpu.ids"

#define MOST_NODES 256

/* A number in a file of one; PROBE_UNKNOWN without. base 0: as it is written. */
static uint64_t read_number(const char *path, int base)
{
    char line[64], *end;
    unsigned long long value;

    if (!probe_read_line(path, line, sizeof(line)))
        return PROBE_UNKNOWN;
    value = strtoull(line, &end, base);
    return end == line ? PROBE_UNKNOWN : value;
}

/* A line "name value" of a properties file. */
static uint64_t read_property(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    unsigned long long value;
    uint64_t found = PROBE_UNKNOWN;
    char line[128], key[64];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "%63s %llu", key, &value) == 2 && strcmp(key, name) == 0)
            found = value;
    if (file)
        fclose(file);
    return found;
}

/* Name of a device and revision in libdrm's list: "74A1, 00, AMD Instinct MI300X". */
static bool find_name(uint64_t device, uint64_t revision, char *name, size_t size)
{
    char path[256], line[256], text[128];
    unsigned d, r;
    bool found = false;
    FILE *file;

    probe_path(path, sizeof(path), NAMES);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file))
        if (sscanf(line, "%x, %x, %127[^\n]", &d, &r, text) == 3 && d == device && r == revision) {
            probe_format(name, size, "%s", text);
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

/* What the card's folder tells: names and memory. */
static void read_device(const char *folder, struct probe_card *card)
{
    char path[512], line[128];
    uint64_t device, revision;

    probe_format(path, sizeof(path), "%s/device", folder);
    device = read_number(path, 16);
    probe_format(path, sizeof(path), "%s/revision", folder);
    revision = read_number(path, 16);
    probe_format(path, sizeof(path), "%s/product_name", folder);
    if (probe_read_line(path, card->name, sizeof(card->name)) && card->name[0])
        ;
    else if (!find_name(device, revision, card->name, sizeof(card->name)))
        snprintf(card->name, sizeof(card->name), "AMD card 1002:%04llx",
                 (unsigned long long)(device & 0xffff));
    probe_format(path, sizeof(path), "%s/uevent", folder);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "PCI_SLOT_NAME=%31s", card->pci) == 1)
            break;
    if (file)
        fclose(file);
    probe_format(path, sizeof(path), "%s/mem_info_vram_total", folder);
    card->driver_total_bytes = card->total_bytes = read_number(path, 10);
    probe_format(path, sizeof(path), "%s/mem_info_vram_used", folder);
    card->free_bytes = read_number(path, 10);
    if (card->total_bytes == PROBE_UNKNOWN)
        card->free_bytes = PROBE_UNKNOWN;
    else if (card->free_bytes != PROBE_UNKNOWN)
        card->free_bytes =
            card->total_bytes > card->free_bytes ? card->total_bytes - card->free_bytes : 0;
    card->total_source = "the amdgpu driver, mem_info_vram_total";
}

static void add_process(struct probe_card *card, uint32_t pid, uint64_t used)
{
    struct probe_process *process;
    char path[256];

    if (card->process_count++ >= PROBE_MOST_PROCESSES)
        return;
    process = &card->processes[card->process_count - 1];
    process->pid = pid;
    process->used_bytes = used;
    probe_path(path, sizeof(path), "/proc/%u/comm", pid);
    if (!probe_read_line(path, process->name, sizeof(process->name)))
        process->name[0] = '\0';
}

static int is_number(const struct dirent *entry)
{
    return entry->d_name[0] && strspn(entry->d_name, "0123456789") == strlen(entry->d_name);
}

/* "2" before "10". */
static int compare_numbers(const struct dirent **a, const struct dirent **b)
{
    long x = atol((*a)->d_name), y = atol((*b)->d_name);

    return x < y ? -1 : x > y;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static void read_processes(uint64_t gpu_id, struct probe_card *card)
{
    struct dirent **entries = NULL;
    char path[512], folder[256];
    int count;

    probe_path(folder, sizeof(folder), PROCESSES);
    count = scandir(folder, &entries, is_number, compare_numbers);
    for (int i = 0; i < count; i++) {
        uint64_t used;

        probe_format(path, sizeof(path), "%s/%.20s/vram_%llu", folder, entries[i]->d_name,
                     (unsigned long long)gpu_id);
        used = read_number(path, 10);
        if (used != PROBE_UNKNOWN && used)
            add_process(card, (uint32_t)atol(entries[i]->d_name), used);
    }
    if (count >= 0)
        free_entries(entries, count);
}

/* gfx_target_version 90402 is gfx942, 110001 is gfx1101: the last two digits are hexadecimal. */
static void name_arch(uint64_t version, struct probe_card *card)
{
    if (version && version != PROBE_UNKNOWN)
        probe_format(card->arch, sizeof(card->arch), "gfx%llu%llx%llx",
                     (unsigned long long)(version / 10000),
                     (unsigned long long)(version / 100 % 100),
                     (unsigned long long)(version % 100));
}

/* A node of the topology; those of CPUs have the id 0. */
static void add_node(const char *node, struct probe *probe)
{
    char path[512], folder[256];
    uint64_t gpu_id, minor, value, simds;
    struct probe_card *card;

    probe_format(path, sizeof(path), "%s/gpu_id", node);
    gpu_id = read_number(path, 10);
    if (!gpu_id || gpu_id == PROBE_UNKNOWN || !(card = probe_add(probe, PROBE_AMD)))
        return;
    card->number = 0;
    for (uint32_t i = 0; i + 1 < probe->count; i++)
        card->number += probe->cards[i].source == PROBE_AMD;
    probe_format(path, sizeof(path), "%s/properties", node);
    minor = read_property(path, "drm_render_minor");
    name_arch(read_property(path, "gfx_target_version"), card);
    simds = read_property(path, "simd_count");
    value = read_property(path, "simd_per_cu");
    if (simds != PROBE_UNKNOWN && value && value != PROBE_UNKNOWN)
        card->multiprocessors = (uint32_t)(simds / value);
    value = read_property(path, "unique_id");
    if (value && value != PROBE_UNKNOWN)
        snprintf(card->uuid, sizeof(card->uuid), "GPU-%016llx", (unsigned long long)value);
    probe_path(folder, sizeof(folder), "/sys/class/drm/renderD%llu/device",
               (unsigned long long)minor);
    read_device(folder, card);
    if (card->total_bytes == PROBE_UNKNOWN) {
        /* A partition of a card has no memory files of its own. */
        probe_format(path, sizeof(path), "%s/mem_banks/0/properties", node);
        card->driver_total_bytes = card->total_bytes = read_property(path, "size_in_bytes");
        card->total_source = "the amdgpu driver, memory bank of the partition";
        snprintf(card->remark, sizeof(card->remark), "memory in use is not told");
    }
    read_processes(gpu_id, card);
}

/* Cards that draw only: without KFD no program can compute on them. */
static int count_drawing(void)
{
    char path[256], folder[256];
    int count = 0;

    for (int i = 0; i < MOST_NODES; i++) {
        probe_path(folder, sizeof(folder), "/sys/class/drm/card%d/device", i);
        probe_format(path, sizeof(path), "%.200s/mem_info_vram_total", folder);
        count += read_number(path, 10) != PROBE_UNKNOWN;
    }
    return count;
}

void probe_ask_amd(struct probe *probe)
{
    struct probe_answer *answer = &probe->answers[PROBE_AMD];
    struct dirent **entries = NULL;
    char folder[256], node[512], path[256];
    uint32_t before = probe->count;
    int count, drawing;

    probe_path(folder, sizeof(folder), NODES);
    count = scandir(folder, &entries, is_number, compare_numbers);
    for (int i = 0; i < count; i++) {
        probe_format(node, sizeof(node), "%s/%.20s", folder, entries[i]->d_name);
        add_node(node, probe);
    }
    if (count >= 0)
        free_entries(entries, count);
    drawing = count < 0 ? count_drawing() : 0;
    answer->state = probe->count > before ? PROBE_ANSWERED : drawing ? PROBE_FAILED : PROBE_ABSENT;
    if (probe->count > before)
        snprintf(answer->text, sizeof(answer->text), "%u card%s", probe->count - before,
                 probe->count - before == 1 ? "" : "s");
    else if (drawing)
        snprintf(answer->text, sizeof(answer->text),
                 "%d AMD card%s, but no /sys/class/kfd, without which nothing computes on them",
                 drawing, drawing == 1 ? "" : "s");
    else
        snprintf(answer->text, sizeof(answer->text), "no AMD GPU in /sys/class/kfd");
    probe_path(path, sizeof(path), "/sys/module/amdgpu/version");
    if (answer->state == PROBE_ANSWERED &&
        !probe_read_line(path, probe->amd_driver, sizeof(probe->amd_driver)))
        probe->amd_driver[0] = '\0';
}
