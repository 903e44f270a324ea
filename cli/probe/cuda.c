/* SPDX-License-Identifier: MIT */
/*
 * Probe: the CUDA driver, without a context. Its totals are those that PyTorch sees, and it alone
 * knows which cards are visible and in which order (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, cards
 * that a container was not given).
 *
 * source: NVIDIA's CUDA driver API reference
 */
#include <stdio.h>
#include <string.h>

#include "library.h"

#define CUDA_MULTIPROCESSORS 16 /* CU_DEVICE_ATTRIBUTE_* */
#define CUDA_MAJOR           75
#define CUDA_MINOR           76

#define CUDA_STUB_LIBRARY 34
#define CUDA_NO_DEVICE    100

struct cuda {
    int (*init)(unsigned);
    int (*version)(int *);
    int (*count)(int *);
    int (*by_ordinal)(int *, int);
    int (*name)(char *, int, int);
    int (*uuid)(unsigned char *, int);
    int (*pci)(char *, int, int);
    int (*total)(size_t *, int);
    int (*attribute)(int *, int, int);
    int (*error)(int, const char **);
};

#define NEEDED(member, ...) PROBE_SYMBOL(struct cuda, member, true, __VA_ARGS__)
#define WANTED(member, ...) PROBE_SYMBOL(struct cuda, member, false, __VA_ARGS__)

static const struct probe_symbol symbols[] = {
    NEEDED(init, "cuInit"),
    NEEDED(count, "cuDeviceGetCount"),
    NEEDED(by_ordinal, "cuDeviceGet"),
    NEEDED(total, "cuDeviceTotalMem_v2", "cuDeviceTotalMem"),
    WANTED(version, "cuDriverGetVersion"),
    WANTED(name, "cuDeviceGetName"),
    WANTED(uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid"),
    WANTED(pci, "cuDeviceGetPCIBusId"),
    WANTED(attribute, "cuDeviceGetAttribute"),
    WANTED(error, "cuGetErrorString"),
    {.names = {NULL}},
};

/* Sixteen bytes as NVML writes them, after "GPU-" or "MIG-". */
static void write_uuid(const unsigned char *bytes, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < 16 && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

/* NVML writes the PCI domain with eight digits, CUDA with four. */
static bool is_same_pci(const char *nvml, const char *cuda)
{
    size_t a = strlen(nvml), b = strlen(cuda);

    return b && a >= b && strcasecmp(nvml + a - b, cuda) == 0;
}

/* The card that NVML listed as this one; else a new one. */
static struct probe_card *find_card(const struct cuda *cuda, struct probe *probe, int device)
{
    unsigned char bytes[16] = {0};
    char uuid[48] = "", pci[32] = "";
    struct probe_card *card;

    if (cuda->uuid && cuda->uuid(bytes, device) == 0)
        write_uuid(bytes, uuid, sizeof(uuid));
    for (uint32_t i = 0; uuid[0] && i < probe->count; i++)
        if (strlen(probe->cards[i].uuid) > 4 && strcasecmp(probe->cards[i].uuid + 4, uuid) == 0)
            return &probe->cards[i];
    if (cuda->pci && cuda->pci(pci, (int)sizeof(pci), device))
        pci[0] = '\0';
    for (uint32_t i = 0; i < probe->count; i++)
        if (!probe->cards[i].has_instances && probe->cards[i].parent < 0 &&
            is_same_pci(probe->cards[i].pci, pci))
            return &probe->cards[i];
    card = probe_add(probe, PROBE_CUDA);
    if (!card)
        return NULL;
    snprintf(card->pci, sizeof(card->pci), "%s", pci);
    if (uuid[0])
        snprintf(card->uuid, sizeof(card->uuid), "GPU-%s", uuid);
    if (!cuda->name || cuda->name(card->name, (int)sizeof(card->name), device))
        snprintf(card->name, sizeof(card->name), "unnamed NVIDIA card");
    return card;
}

static void ask_card(const struct cuda *cuda, struct probe *probe, int ordinal)
{
    int device = 0, major = 0, minor = 0, multiprocessors = 0;
    struct probe_card *card;
    size_t total = 0;

    if (cuda->by_ordinal(&device, ordinal) || !(card = find_card(cuda, probe, device)))
        return;
    card->visible = ordinal;
    if (cuda->total(&total, device) == 0 && total) {
        card->total_bytes = total;
        card->total_source = "the CUDA driver";
    }
    if (!cuda->attribute)
        return;
    if (cuda->attribute(&multiprocessors, CUDA_MULTIPROCESSORS, device) == 0)
        card->multiprocessors = (uint32_t)multiprocessors;
    if (cuda->attribute(&major, CUDA_MAJOR, device) == 0 &&
        cuda->attribute(&minor, CUDA_MINOR, device) == 0)
        snprintf(card->arch, sizeof(card->arch), "sm_%d%d", major, minor);
}

static void fail(const struct cuda *cuda, int code, struct probe *probe)
{
    struct probe_answer *answer = &probe->answers[PROBE_CUDA];
    const char *text = NULL;

    if (!cuda->error || cuda->error(code, &text) || !text)
        text = code == CUDA_NO_DEVICE      ? "no CUDA-capable device is detected"
               : code == CUDA_STUB_LIBRARY ? "the toolkit's stub in place of the driver"
                                           : "unknown error";
    /* No device and the stub of the toolkit are the usual answers of a machine without a card. */
    answer->state =
        code == CUDA_NO_DEVICE || code == CUDA_STUB_LIBRARY ? PROBE_ABSENT : PROBE_FAILED;
    snprintf(answer->text, sizeof(answer->text), "CUDA: %s (error %d)", text, code);
    /* A driver that says "none" has spoken on what is visible. */
    probe->cuda_has_order = code == CUDA_NO_DEVICE;
}

void probe_ask_cuda(struct probe *probe)
{
    struct probe_answer *answer = &probe->answers[PROBE_CUDA];
    struct cuda cuda = {0};
    int code, count = 0, version = 0;

    if (!probe_open("MEMPLAN_CUDA", "libcuda.so.1", symbols, &cuda, answer))
        return;
    code = cuda.init(0);
    if (!code)
        code = cuda.count(&count);
    if (code) {
        fail(&cuda, code, probe);
        return;
    }
    answer->state = PROBE_ANSWERED;
    snprintf(answer->text, sizeof(answer->text), "%d card%s visible", count, count == 1 ? "" : "s");
    if (cuda.version && cuda.version(&version) == 0)
        snprintf(probe->cuda, sizeof(probe->cuda), "%d.%d", version / 1000, version % 1000 / 10);
    probe->cuda_has_order = true;
    for (int i = 0; i < count; i++)
        ask_card(&cuda, probe, i);
}
