/* SPDX-License-Identifier: MIT */
/* Test double of libnvidia-ml.so.1. OLD_NVML: one of 2015, with first versions only. */
#include <stdio.h>
#include <unistd.h>

#include "../../cli/probe/nvml.h"
#include "machine.h"

#define SUCCESS       0
#define UNINITIALIZED 1
#define INVALID       2
#define NOT_FOUND     6
#define MIB           (1ull << 20)

/* A card or, from the ninth on, an instance of the first card. */
struct nvml_device {
    unsigned card, instance; /* instance 0: the whole card */
};

static struct nvml_device devices[FAKE_MOST_CARDS + FAKE_MOST_INSTANCES];

static const struct fake_card *card_of(nvml_device device)
{
    return &fake_machine()->cards[device->card];
}

int nvmlInit(void);
int nvmlInit(void)
{
    int code = fake_machine()->nvml_init;

    if (code == -1)
        for (;;)
            pause();
    if (code == -2)
        abort();
    printf("NVML prints to standard output\n");
    fprintf(stderr, "and to standard error\n");
    for (unsigned i = 0; i < FAKE_MOST_CARDS; i++)
        devices[i].card = i;
    for (unsigned i = 0; i < FAKE_MOST_INSTANCES; i++)
        devices[FAKE_MOST_CARDS + i].instance = i + 1;
    return code;
}

int nvmlDeviceGetCount(unsigned *count);
int nvmlDeviceGetCount(unsigned *count)
{
    *count = fake_machine()->count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device);
int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device)
{
    if (index >= fake_machine()->count)
        return INVALID;
    *device = &devices[index];
    return fake_machine()->cards[index].error;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
    return code == 3    ? "Not Supported"
           : code == 4  ? "Insufficient Permissions"
           : code == 9  ? "Driver Not Loaded"
           : code == 15 ? "GPU is lost"
           : code == 18 ? "Driver/library version mismatch"
                        : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "%s", fake_machine()->driver);
    return SUCCESS;
}

int nvmlDeviceGetName(nvml_device device, char *name, unsigned size);
int nvmlDeviceGetName(nvml_device device, char *name, unsigned size)
{
    const struct fake_card *card = card_of(device);

    snprintf(name, size, "%s",
             device->instance ? card->instances[device->instance - 1].name : card->name);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory);
int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    const struct fake_card *card = card_of(device);
    unsigned used = device->instance == 1 ? 1216 : 16;

    if (device->instance) {
        memory->total = card->instances[device->instance - 1].total_mib * MIB;
        memory->used = used * MIB;
    } else if (card->memory_error) {
        return card->memory_error;
    } else {
        memory->total = card->smi_mib * MIB;
        memory->used = (card->reserved_mib + card->used_mib) * MIB;
    }
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* Writes one process in the layout of the call's version. */
static int list(nvml_device device, int draws, unsigned *count, void *out, int has_instances)
{
    const struct fake_card *card = card_of(device);
    unsigned room = *count, n = 0;

    for (unsigned i = 0; i < FAKE_MOST_PROCESSES && card->processes[i].pid; i++) {
        const struct fake_process *p = &card->processes[i];
        unsigned long long used =
            p->used_mib < 0 ? NVML_NOT_AVAILABLE : (unsigned long long)p->used_mib * MIB;

        if (p->draws != draws || (unsigned)p->instance != device->instance)
            continue;
        if (n < room && has_instances)
            ((struct nvml_process_v2 *)out)[n] =
                (struct nvml_process_v2){p->pid, used, device->instance, 0};
        else if (n < room)
            ((struct nvml_process_v1 *)out)[n] = (struct nvml_process_v1){p->pid, used};
        n++;
    }
    *count = n;
    return n > room ? NVML_INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned *count, void *out);
int nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned *count, void *out)
{
    return list(device, 0, count, out, 0);
}

#ifndef OLD_NVML

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return nvmlInit();
}

int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = fake_machine()->cuda;
    return SUCCESS;
}

int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned size);
int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned size)
{
    unsigned char b[16];
    int used = snprintf(text, size, "%s", device->instance ? "MIG-" : "GPU-");

    fake_uuid(b, device->card, device->instance);
    for (int i = 0; i < 16; i++)
        used += snprintf(text + used, size - (unsigned)used, "%s%02x",
                         i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci);
int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci)
{
    if (device->instance)
        return NVML_NOT_SUPPORTED;
    snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", 0x11 * (device->card + 1));
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(nvml_device device, unsigned *node);
int nvmlDeviceGetMinorNumber(nvml_device device, unsigned *node)
{
    *node = device->card;
    return device->instance ? NVML_NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor);
int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor)
{
    *major = card_of(device)->major;
    *minor = card_of(device)->minor;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory);
int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory)
{
    struct nvml_memory first;
    int code = nvmlDeviceGetMemoryInfo(device, &first);

    if (memory->version != NVML_MEMORY_V2)
        return 25;
    if (code)
        return code;
    memory->total = first.total;
    memory->reserved = device->instance ? 16 * MIB : card_of(device)->reserved_mib * MIB;
    memory->free = first.free;
    memory->used = first.used - memory->reserved;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(nvml_device device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMigMode(nvml_device device, unsigned *now, unsigned *pending)
{
    *now = *pending = card_of(device)->instances[0].name != NULL;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned *count);
int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned *count)
{
    (void)device;
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned index, nvml_device *out);
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned index, nvml_device *out)
{
    if (index >= FAKE_MOST_INSTANCES || !card_of(device)->instances[index].name)
        return NOT_FOUND;
    *out = &devices[FAKE_MOST_CARDS + index];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(nvml_device device, unsigned *id);
int nvmlDeviceGetGpuInstanceId(nvml_device device, unsigned *id)
{
    *id = card_of(device)->instances[device->instance - 1].id;
    return SUCCESS;
}

int nvmlDeviceGetAttributes_v2(nvml_device device, struct nvml_attributes *attributes);
int nvmlDeviceGetAttributes_v2(nvml_device device, struct nvml_attributes *attributes)
{
    const struct fake_instance *instance = &card_of(device)->instances[device->instance - 1];

    *attributes = (struct nvml_attributes){.multiprocessors = instance->multiprocessors,
                                           .memory_mib = instance->total_mib};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count, void *out);
int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count, void *out)
{
    return list(device, 0, count, out, 1);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count, void *out);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count, void *out)
{
    return list(device, 1, count, out, 1);
}

/* No MPS on these machines. */
int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device device, unsigned *count, void *out);
int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device device, unsigned *count, void *out)
{
    (void)device, (void)out;
    *count = 0;
    return NVML_NOT_SUPPORTED;
}

int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size);
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size)
{
    const struct fake_machine *machine = fake_machine();

    for (unsigned c = 0; c < machine->count; c++)
        for (unsigned i = 0; i < FAKE_MOST_PROCESSES; i++)
            if (machine->cards[c].processes[i].pid == pid) {
                snprintf(name, size, "%s", machine->cards[c].processes[i].name);
                return SUCCESS;
            }
    return NOT_FOUND;
}

#endif
