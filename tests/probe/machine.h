/* SPDX-License-Identifier: MIT */
/*
 * Machines that the test doubles of NVML and of the CUDA driver play, by MEMPLAN_FAKE. Figures of
 * whole cards are those of logs (docs/devices.md); who holds what is made up.
 */
#ifndef FAKE_MACHINE_H
#define FAKE_MACHINE_H

#include <stdlib.h>
#include <string.h>

#define FAKE_MOST_CARDS     8
#define FAKE_MOST_INSTANCES 3
#define FAKE_MOST_PROCESSES 12

struct fake_process {
    unsigned pid;
    long long used_mib; /* -1: not told */
    int draws, instance;
    const char *name;
};

struct fake_instance {
    const char *name;
    unsigned total_mib, multiprocessors, id;
};

struct fake_card {
    const char *name;
    int major, minor, multiprocessors;
    unsigned smi_mib, reserved_mib, cuda_mib, used_mib;
    int error;        /* of its handle */
    int memory_error; /* of its memory call */
    struct fake_instance instances[FAKE_MOST_INSTANCES];
    struct fake_process processes[FAKE_MOST_PROCESSES];
};

struct fake_machine {
    const char *name, *driver;
    int cuda;      /* 13000 */
    int nvml_init; /* error of nvmlInit; -1: never returns, -2: crashes */
    int cuda_init; /* error of cuInit */
    unsigned count;
    unsigned order[FAKE_MOST_CARDS]; /* CUDA's: fastest first */
    struct fake_card cards[FAKE_MOST_CARDS];
};

#define H100(used, ...)                                                                            \
    {                                                                                              \
        .name = "NVIDIA H100 80GB HBM3", .major = 9, .multiprocessors = 132, .smi_mib = 81559,     \
        .reserved_mib = 477, .cuda_mib = 81082, .used_mib = (used), .processes = {                 \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const struct fake_machine fake_machines[] = {
    {.name = "h100x8",
     .driver = "580.95.05",
     .cuda = 13000,
     .count = 8,
     .order = {0, 1, 2, 3, 4, 5, 6, 7},
     .cards = {H100(41530, {4711, 41000, 0, 0, "python3"}, {4712, 520, 0, 0, "python3"}),
               H100(4, {0}), H100(0, {0}), H100(620, {99, -1, 0, 0, ""}), H100(4, {0}),
               H100(4, {0}), H100(4, {0}),
               H100(5200, {1001, 520, 0, 0, "rank1"}, {1002, 520, 0, 0, "rank2"},
                    {1003, 520, 0, 0, "rank3"}, {1004, 520, 0, 0, "rank4"},
                    {1005, 520, 0, 0, "rank5"}, {1006, 520, 0, 0, "rank6"},
                    {1007, 520, 0, 0, "rank7"}, {1008, 520, 0, 0, "rank8"},
                    {1009, 520, 0, 0, "rank9"}, {1010, 520, 0, 0, "rank10"})}},
    {.name = "mig",
     .driver = "550.90.07",
     .cuda = 12040,
     .count = 2,
     .order = {0, 1},
     .cards = {{.name = "NVIDIA H100 80GB HBM3",
                .major = 9,
                .multiprocessors = 132,
                .memory_error = 4,
                .instances = {{"NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40448, 60, 1},
                              {"NVIDIA H100 80GB HBM3 MIG 2g.20gb", 20096, 32, 5},
                              {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9984, 16, 9}},
                .processes = {{815, 1200, 0, 1, "jupyter"}}},
               H100(0, {0})}},
    {.name = "workstation",
     .driver = "570.133.07",
     .cuda = 12080,
     .count = 2,
     .order = {1, 0},
     .cards = {{.name = "NVIDIA GeForce RTX 3060",
                .major = 8,
                .minor = 6,
                .multiprocessors = 28,
                .smi_mib = 12288,
                .reserved_mib = 244,
                .cuda_mib = 12044},
               {.name = "NVIDIA GeForce RTX 4090",
                .major = 8,
                .minor = 9,
                .multiprocessors = 128,
                .smi_mib = 24564,
                .reserved_mib = 484,
                .cuda_mib = 24080,
                .used_mib = 700,
                .processes = {{1200, 420, 1, 0, "/usr/lib/xorg/Xorg"},
                              {1300, 180, 1, 0, "/usr/bin/gnome-shell"}}}}},
    {.name = "spark",
     .driver = "580.95.05",
     .cuda = 13000,
     .count = 1,
     .order = {0},
     .cards = {{.name = "NVIDIA GB10",
                .major = 12,
                .minor = 1,
                .multiprocessors = 48,
                .cuda_mib = 122502,
                .memory_error = 3}}},
    {.name = "lost",
     .driver = "580.95.05",
     .cuda = 13000,
     .count = 2,
     .order = {0, 1},
     .cards = {H100(0, {0}), {.name = "NVIDIA H100 80GB HBM3", .error = 15}}},
    {.name = "unknown-card",
     .driver = "610.10",
     .cuda = 13020,
     .count = 1,
     .order = {0},
     .cards = {{.name = "NVIDIA X900",
                .major = 13,
                .multiprocessors = 200,
                .smi_mib = 524288,
                .reserved_mib = 1024,
                .cuda_mib = 523264,
                .used_mib = 512}}},
    {.name = "no-card", .driver = "580.95.05", .cuda = 13000, .cuda_init = 100},
    {.name = "not-loaded", .nvml_init = 9, .cuda_init = 100},
    {.name = "mismatch", .nvml_init = 18, .cuda_init = 803},
    {.name = "hang", .nvml_init = -1},
    {.name = "crash", .nvml_init = -2},
};

static inline const struct fake_machine *fake_machine(void)
{
    const char *name = getenv("MEMPLAN_FAKE");

    for (size_t i = 0; name && i < sizeof(fake_machines) / sizeof(*fake_machines); i++)
        if (strcmp(fake_machines[i].name, name) == 0)
            return &fake_machines[i];
    abort();
}

/* Sixteen bytes that differ by card and instance. */
static inline void fake_uuid(unsigned char *bytes, unsigned card, unsigned instance)
{
    for (unsigned i = 0; i < 16; i++)
        bytes[i] = (unsigned char)(16 * (card + 1) + i + 3 * instance);
}

#endif
