/* SPDX-License-Identifier: MIT */
/* Test double of libcuda.so.1: the order of devices and CUDA_VISIBLE_DEVICES by places. */
#include <stdbool.h>
#include <stdio.h>

#include "machine.h"

#define SUCCESS        0
#define INVALID_DEVICE 101
#define NO_DEVICE      100
#define MIB            (1ull << 20)

/* A device is 16 x card + instance. */
static int visible[FAKE_MOST_CARDS * 16];
static int visible_count;

/* CUDA shows one instance when there are any, and no whole card. */
static int list_all(int *all)
{
    const struct fake_machine *machine = fake_machine();
    const char *order = getenv("CUDA_DEVICE_ORDER");
    bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
    int count = 0;

    for (unsigned i = 0; i < machine->count; i++) {
        unsigned card = by_bus ? i : machine->order[i];

        if (machine->cards[card].instances[0].name) {
            all[0] = (int)(16 * card + 1);
            return 1;
        }
        if (!machine->cards[card].error)
            all[count++] = (int)(16 * card);
    }
    return count;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    int all[FAKE_MOST_CARDS], count = list_all(all);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char *end;

    if (flags || fake_machine()->cuda_init)
        return fake_machine()->cuda_init;
    if (!list) {
        memcpy(visible, all, sizeof(all));
        visible_count = count;
    }
    for (; list && *list; list = *end ? end + 1 : end) {
        long place = strtol(list, &end, 10);

        if (end == list || place < 0 || place >= count)
            break;
        visible[visible_count++] = all[place];
    }
    return visible_count ? SUCCESS : NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = fake_machine()->cuda;
    return SUCCESS;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = visible_count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= visible_count)
        return INVALID_DEVICE;
    *device = visible[ordinal];
    return SUCCESS;
}

int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "%s", fake_machine()->cards[device / 16].name);
    return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    fake_uuid(uuid, (unsigned)device / 16, (unsigned)device % 16);
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *id, int size, int device);
int cuDeviceGetPCIBusId(char *id, int size, int device)
{
    snprintf(id, (size_t)size, "0000:%02X:00.0", 0x11 * (device / 16 + 1));
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *total, int device);
int cuDeviceTotalMem_v2(size_t *total, int device)
{
    const struct fake_card *card = &fake_machine()->cards[device / 16];

    *total = (device % 16 ? card->instances[device % 16 - 1].total_mib : card->cuda_mib) * MIB;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct fake_card *card = &fake_machine()->cards[device / 16];
    int instance = device % 16;

    *value = attribute == 75   ? card->major
             : attribute == 76 ? card->minor
             : instance        ? (int)card->instances[instance - 1].multiprocessors
                               : card->multiprocessors;
    return attribute == 75 || attribute == 76 || attribute == 16 ? SUCCESS : 1;
}
