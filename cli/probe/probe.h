/* SPDX-License-Identifier: MIT */
/*
 * Probe: the cards of this machine. Libraries of drivers are opened when asked for (dlopen), and
 * nothing of them is linked; no CUDA context is made. All of it runs in a child process, so that a
 * driver that hangs or crashes does not take the program with it.
 */
#ifndef CLI_PROBE_PROBE_H
#define CLI_PROBE_PROBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_MOST_CARDS     128 /* MIG instances are cards of their own */
#define PROBE_MOST_PROCESSES 64  /* listed of one card; all are counted */
#define PROBE_UNKNOWN        UINT64_MAX
#define PROBE_SECONDS        20 /* a first cuInit on eight cards takes some */

/** What was asked, in this order. */
enum probe_source { PROBE_NVML = 0, PROBE_CUDA, PROBE_AMD, PROBE_RUNTIME, PROBE_SOURCE_COUNT };

enum probe_state {
    PROBE_ABSENT = 0, /* there is none on this machine: not a fault */
    PROBE_FAILED,     /* it is there and does not answer; the text says why */
    PROBE_ANSWERED,
};

struct probe_answer {
    enum probe_state state;
    char text[192]; /* a few words */
};

struct probe_process {
    uint32_t pid;
    uint64_t used_bytes; /* PROBE_UNKNOWN: the driver does not say */
    char name[64];       /* may be empty */
};

struct probe_card {
    enum probe_source source; /* NVML, CUDA alone, AMD */
    int32_t number;           /* in the driver's order (PCI bus); -1: not known */
    int32_t parent;           /* index of an instance's whole card; -1: is a whole card */
    int32_t visible;          /* as a program numbers it; -1: a program does not see it */
    int32_t node;             /* N of /dev/nvidiaN; -1: not known */
    int32_t instance;         /* GPU instance of MIG; -1: none */
    bool has_instances;       /* MIG is on: a program uses the instances */
    char name[96], uuid[96], pci[32];
    char arch[16];               /* "sm_90", "gfx942"; may be empty */
    uint32_t multiprocessors;    /* 0: not known */
    uint64_t driver_total_bytes; /* as nvidia-smi shows it */
    uint64_t reserved_bytes;     /* the driver's own share */
    uint64_t free_bytes;         /* now */
    uint64_t total_bytes;        /* as a program sees it */
    const char *total_source;    /* a few words; static */
    uint64_t context_bytes;      /* of a bare context that was made */
    uint32_t process_count;
    struct probe_process processes[PROBE_MOST_PROCESSES];
    char remark[160]; /* what could not be asked; may be empty */
};

struct probe {
    struct probe_answer answers[PROBE_SOURCE_COUNT];
    char driver[80], amd_driver[80]; /* versions; may be empty */
    char cuda[16];                   /* newest CUDA that the driver serves */
    bool cuda_has_order;             /* the CUDA driver said which cards are visible, in order */
    uint32_t count;
    struct probe_card cards[PROBE_MOST_CARDS];
};

/** Empty card at the end; NULL when there is no room. */
struct probe_card *probe_add(struct probe *probe, enum probe_source source);

/** Asks NVML: names, memory, MIG instances, processes. */
void probe_ask_nvml(struct probe *probe);

/** Asks the CUDA driver without a context: totals as PyTorch sees them, the order of the visible
 * cards. After NVML. */
void probe_ask_cuda(struct probe *probe);

/** Reads what the amdgpu driver shows as files. */
void probe_ask_amd(struct probe *probe);

/** Numbers the cards that a program would see, where no driver said it. */
void probe_find_visible(struct probe *probe);

/** A path below the folder that stands for the root of this machine (MEMPLAN_PROBE_ROOT in tests).
 */
void probe_path(char *path, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** snprintf of text that may be cut short: paths and names of what a driver shows. */
void probe_format(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** First line of a file, without its end. False when there is none. */
bool probe_read_line(const char *path, char *line, size_t size);

/** What was found as JSON, new; NULL without memory. */
json_t *probe_document(const struct probe *probe);

/**
 * Asks everything in a child process, within so many seconds; make_contexts: the CUDA runtime too,
 * where the build has it. *document_out is new.
 * Returns 0, or an exit code after a message when no child could be started.
 */
int probe_run(unsigned seconds, bool make_contexts, json_t **document_out);

/** Number of cards that a program would see. */
size_t probe_visible_count(const json_t *document);

/** Visible card i, as a program numbers them; NULL past the last. Borrowed. */
const json_t *probe_visible_card(const json_t *document, size_t i);

/** One sentence on why no card is visible. */
void probe_explain_none(const json_t *document, char *text, size_t size);

/** The document for people. False: out of memory. */
bool probe_print(FILE *out, const json_t *document);

#endif
