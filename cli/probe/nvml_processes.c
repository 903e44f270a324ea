/* SPDX-License-Identifier: MIT */
/* Probe: processes that hold memory on an NVIDIA card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

#define MOST_ASKED 1024

static void add_process(const struct nvml *nvml, struct probe_card *card, unsigned pid,
                        unsigned long long used)
{
    struct probe_process *process;

    /* One that computes and draws is in both lists, with the same figure. */
    for (uint32_t i = 0; i < card->process_count && i < PROBE_MOST_PROCESSES; i++)
        if (card->processes[i].pid == pid)
            return;
    if (card->process_count++ >= PROBE_MOST_PROCESSES)
        return;
    process = &card->processes[card->process_count - 1];
    process->pid = pid;
    process->used_bytes = used == NVML_NOT_AVAILABLE ? PROBE_UNKNOWN : used;
    if (!nvml->process_name ||
        nvml->process_name(pid, process->name, (unsigned)sizeof(process->name)))
        process->name[0] = '\0';
    process->name[sizeof(process->name) - 1] = '\0';
}

/* The list may grow between two calls, so there is room for more than any card has. */
static void list_processes(const struct nvml *nvml, nvml_device device, nvml_list_processes *call,
                           size_t size, struct probe_card *card)
{
    unsigned count = MOST_ASKED;
    char *list = calloc(MOST_ASKED, size);
    int code = list ? call(device, &count, list) : -1;

    for (unsigned i = 0; code == 0 && i < count && i < MOST_ASKED; i++) {
        /* Both layouts begin with these two. */
        struct nvml_process_v1 one;

        memcpy(&one, list + i * size, sizeof(one));
        add_process(nvml, card, one.pid, one.used);
    }
    if (code && code != NVML_NOT_SUPPORTED && !card->remark[0])
        snprintf(card->remark, sizeof(card->remark), "processes: %s", nvml_error_text(nvml, code));
    free(list);
}

void nvml_ask_processes(const struct nvml *nvml, nvml_device device, struct probe_card *card)
{
    const struct {
        nvml_list_processes *call;
        size_t size;
    } calls[] = {
        {nvml->compute_v2, sizeof(struct nvml_process_v2)},
        {nvml->compute_v2 ? NULL : nvml->compute_v1, sizeof(struct nvml_process_v1)},
        {nvml->graphics_v2, sizeof(struct nvml_process_v2)},
        {nvml->graphics_v2 ? NULL : nvml->graphics_v1, sizeof(struct nvml_process_v1)},
        {nvml->mps_v2, sizeof(struct nvml_process_v2)},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (calls[i].call)
            list_processes(nvml, device, calls[i].call, calls[i].size, card);
}
