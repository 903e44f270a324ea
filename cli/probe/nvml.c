/* SPDX-License-Identifier: MIT */
/*
 * Probe: NVIDIA cards by NVML, which needs no CUDA context.
 *
 * source: NVIDIA's NVML API reference. The second version of the memory call tells the driver's
 * share (reserved) apart; with the first it counts as used.
 */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#include "library.h"

#define NEEDED(member, ...) PROBE_SYMBOL(struct nvml, member, true, __VA_ARGS__)
#define WANTED(member, ...) PROBE_SYMBOL(struct nvml, member, false, __VA_ARGS__)

static const struct probe_symbol symbols[] = {
    NEEDED(init, "nvmlInit_v2", "nvmlInit"),
    NEEDED(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
    NEEDED(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
    NEEDED(memory, "nvmlDeviceGetMemoryInfo"),
    WANTED(memory_v2, "nvmlDeviceGetMemoryInfo_v2"),
    WANTED(error, "nvmlErrorString"),
    WANTED(driver, "nvmlSystemGetDriverVersion"),
    WANTED(cuda, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"),
    WANTED(name, "nvmlDeviceGetName"),
    WANTED(uuid, "nvmlDeviceGetUUID"),
    WANTED(pci, "nvmlDeviceGetPciInfo_v3"),
    WANTED(node, "nvmlDeviceGetMinorNumber"),
    WANTED(capability, "nvmlDeviceGetCudaComputeCapability"),
    WANTED(mig_mode, "nvmlDeviceGetMigMode"),
    WANTED(mig_most, "nvmlDeviceGetMaxMigDeviceCount"),
    WANTED(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex"),
    WANTED(gpu_instance, "nvmlDeviceGetGpuInstanceId"),
    WANTED(attributes, "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"),
    /* Version 2 first: version 3 had another layout in some releases of driver 535. */
    WANTED(compute_v2, "nvmlDeviceGetComputeRunningProcesses_v2",
           "nvmlDeviceGetComputeRunningProcesses_v3"),
    WANTED(graphics_v2, "nvmlDeviceGetGraphicsRunningProcesses_v2",
           "nvmlDeviceGetGraphicsRunningProcesses_v3"),
    WANTED(mps_v2, "nvmlDeviceGetMPSComputeRunningProcesses_v2",
           "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
    WANTED(compute_v1, "nvmlDeviceGetComputeRunningProcesses"),
    WANTED(graphics_v1, "nvmlDeviceGetGraphicsRunningProcesses"),
    WANTED(process_name, "nvmlSystemGetProcessName"),
    {.names = {NULL}},
};

const char *nvml_error_text(const struct nvml *nvml, int code)
{
    const char *text = nvml->error ? nvml->error(code) : NULL;

    return text ? text : "unknown error";
}

/* The card's memory: total, the driver's share, free. */
static void ask_memory(const struct nvml *nvml, nvml_device device, struct probe_card *card)
{
    struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
    struct nvml_memory v1 = {0};
    int code = nvml->memory_v2 ? nvml->memory_v2(device, &v2) : -1;

    if (code == 0) {
        card->driver_total_bytes = v2.total;
        card->reserved_bytes = v2.reserved;
        card->free_bytes = v2.free;
        card->total_bytes = v2.total > v2.reserved ? v2.total - v2.reserved : 0;
        card->total_source = "NVML, total less the driver's share";
        return;
    }
    code = nvml->memory(device, &v1);
    if (code) {
        snprintf(card->remark, sizeof(card->remark), "memory: %s", nvml_error_text(nvml, code));
        return;
    }
    card->driver_total_bytes = card->total_bytes = v1.total;
    card->free_bytes = v1.free;
    card->total_source = "NVML, an old one that does not tell the driver's share";
}

static void ask_identity(const struct nvml *nvml, nvml_device device, struct probe_card *card)
{
    struct nvml_pci pci = {.id = ""};
    int major = 0, minor = 0;
    unsigned node = 0;

    if (!nvml->name || nvml->name(device, card->name, sizeof(card->name)))
        snprintf(card->name, sizeof(card->name), "unnamed NVIDIA card");
    if (!nvml->uuid || nvml->uuid(device, card->uuid, sizeof(card->uuid)))
        card->uuid[0] = '\0';
    if (nvml->pci && nvml->pci(device, &pci) == 0)
        snprintf(card->pci, sizeof(card->pci), "%.31s", pci.id);
    if (nvml->node && nvml->node(device, &node) == 0)
        card->node = (int32_t)node;
    if (nvml->capability && nvml->capability(device, &major, &minor) == 0)
        snprintf(card->arch, sizeof(card->arch), "sm_%d%d", major, minor);
}

/* One MIG device. Compute instances of one GPU instance share its memory. */
static void add_instance(const struct nvml *nvml, nvml_device device, struct probe *probe,
                         int32_t parent)
{
    struct probe_card *card = probe_add(probe, PROBE_NVML);
    struct nvml_attributes attributes = {0};
    unsigned instance = 0;

    if (!card)
        return;
    card->parent = parent;
    card->number = probe->cards[parent].number;
    ask_identity(nvml, device, card);
    ask_memory(nvml, device, card);
    card->node = probe->cards[parent].node;
    snprintf(card->arch, sizeof(card->arch), "%s", probe->cards[parent].arch);
    if (nvml->gpu_instance && nvml->gpu_instance(device, &instance) == 0)
        card->instance = (int32_t)instance;
    if (nvml->attributes && nvml->attributes(device, &attributes) == 0)
        card->multiprocessors = attributes.multiprocessors;
    nvml_ask_processes(nvml, device, card);
}

static void add_instances(const struct nvml *nvml, nvml_device device, struct probe *probe,
                          int32_t parent)
{
    unsigned most = 0;

    if (!nvml->mig_most || !nvml->mig_device || nvml->mig_most(device, &most))
        return;
    for (unsigned i = 0; i < most; i++) {
        nvml_device instance;

        if (nvml->mig_device(device, i, &instance) == 0)
            add_instance(nvml, instance, probe, parent);
    }
}

static void add_card(const struct nvml *nvml, unsigned index, struct probe *probe)
{
    int32_t place = (int32_t)probe->count;
    struct probe_card *card = probe_add(probe, PROBE_NVML);
    unsigned now = 0, pending = 0;
    nvml_device device;
    int code;

    if (!card)
        return;
    card->number = (int32_t)index;
    code = nvml->by_index(index, &device);
    if (code) {
        snprintf(card->name, sizeof(card->name), "NVIDIA card %u", index);
        snprintf(card->remark, sizeof(card->remark), "%s", nvml_error_text(nvml, code));
        return;
    }
    ask_identity(nvml, device, card);
    ask_memory(nvml, device, card);
    card->has_instances = nvml->mig_mode && nvml->mig_mode(device, &now, &pending) == 0 && now == 1;
    if (card->has_instances)
        add_instances(nvml, device, probe, place);
    else
        nvml_ask_processes(nvml, device, card);
}

void probe_ask_nvml(struct probe *probe)
{
    struct probe_answer *answer = &probe->answers[PROBE_NVML];
    struct nvml nvml = {0};
    unsigned count = 0;
    int code, cuda = 0;

    if (!probe_open("MEMPLAN_NVML", "libnvidia-ml.so.1", symbols, &nvml, answer))
        return;
    code = nvml.init();
    if (!code)
        code = nvml.count(&count);
    if (code) {
        answer->state = PROBE_FAILED;
        snprintf(answer->text, sizeof(answer->text), "NVML: %s (error %d)",
                 nvml_error_text(&nvml, code), code);
        return;
    }
    answer->state = PROBE_ANSWERED;
    if (count)
        snprintf(answer->text, sizeof(answer->text), "%u card%s", count, count == 1 ? "" : "s");
    else
        snprintf(answer->text, sizeof(answer->text), "the NVIDIA driver lists no card");
    if (nvml.driver && nvml.driver(probe->driver, sizeof(probe->driver)))
        probe->driver[0] = '\0';
    if (nvml.cuda && nvml.cuda(&cuda) == 0)
        snprintf(probe->cuda, sizeof(probe->cuda), "%d.%d", cuda / 1000, cuda % 1000 / 10);
    for (unsigned i = 0; i < count; i++)
        add_card(&nvml, i, probe);
}
