/* SPDX-License-Identifier: MIT */
/* Probe: NVML as far as it is used, declared in own words. */
#ifndef CLI_PROBE_NVML_H
#define CLI_PROBE_NVML_H

#include "probe.h"

typedef struct nvml_device *nvml_device;

/** nvmlMemory_t; used counts the driver's share. */
struct nvml_memory {
    unsigned long long total, free, used;
};

/** nvmlMemory_v2_t. */
struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

/** nvmlPciInfo_t since version 2 of the call. */
struct nvml_pci {
    char short_id[16];
    unsigned domain, bus, device, ids, subsystem;
    char id[32];
};

/** nvmlProcessInfo_v1_t. */
struct nvml_process_v1 {
    unsigned pid;
    unsigned long long used;
};

/** nvmlProcessInfo_v2_t, and _t of version 3 of the call. */
struct nvml_process_v2 {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

/** nvmlDeviceAttributes_t. */
struct nvml_attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
    unsigned gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

_Static_assert(sizeof(struct nvml_memory_v2) == 40, "layout of nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_pci) == 68, "layout of nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "layout of nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process_v2) == 24, "layout of nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_attributes) == 40, "layout of nvmlDeviceAttributes_t");

#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

#define NVML_NOT_SUPPORTED     3
#define NVML_NO_PERMISSION     4
#define NVML_INSUFFICIENT_SIZE 7
#define NVML_DRIVER_NOT_LOADED 9

#define NVML_NOT_AVAILABLE UINT64_C(0xffffffffffffffff) /* of a process's memory */

typedef int nvml_list_processes(nvml_device, unsigned *, void *);

/** Functions that may be missing are NULL. */
struct nvml {
    int (*init)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    const char *(*error)(int);
    int (*driver)(char *, unsigned);
    int (*cuda)(int *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*pci)(nvml_device, struct nvml_pci *);
    int (*node)(nvml_device, unsigned *);
    int (*capability)(nvml_device, int *, int *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*memory_v2)(nvml_device, struct nvml_memory_v2 *);
    int (*mig_mode)(nvml_device, unsigned *, unsigned *);
    int (*mig_most)(nvml_device, unsigned *);
    int (*mig_device)(nvml_device, unsigned, nvml_device *);
    int (*gpu_instance)(nvml_device, unsigned *);
    int (*attributes)(nvml_device, struct nvml_attributes *);
    nvml_list_processes *compute_v2, *graphics_v2, *mps_v2; /* struct nvml_process_v2 */
    nvml_list_processes *compute_v1, *graphics_v1;          /* struct nvml_process_v1 */
    int (*process_name)(unsigned, char *, unsigned);
};

/** A few words on an error of NVML. */
const char *nvml_error_text(const struct nvml *nvml, int code);

/** Fills the processes of card that hold memory on device; of a whole card or of an instance. */
void nvml_ask_processes(const struct nvml *nvml, nvml_device device, struct probe_card *card);

#endif
