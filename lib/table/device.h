/* SPDX-License-Identifier: MIT */
/*
 * TABLE: GPUs, and what they and the driver take besides PyTorch's allocator. Every row and every
 * figure carries its source; the verdict turns the ranges into what a card can give.
 */
#ifndef MPL_TABLE_DEVICE_H
#define MPL_TABLE_DEVICE_H

#include <memplan.h>
#include <stddef.h>

#include "base/bytes.h"

/** How a figure is known. */
enum mpl_figure_status {
    MPL_NOT_KNOWN = 0, /* the figure is 0 */
    MPL_RECALLED,      /* widely quoted, not checked against a source */
    MPL_DERIVED,       /* from a sibling card or a rule; the notes say which */
    MPL_MEASURED,      /* read from public logs or screens */
};

/** A planning value and its spread, in bytes: low <= expected <= high. */
struct mpl_range {
    uint64_t low_bytes, expected_bytes, high_bytes;
    const char *source;
};

enum mpl_device_kind { MPL_DEVICE_CARD = 0, MPL_DEVICE_SLICE };

/** What the ranks of one node talk over. */
enum mpl_link { MPL_LINK_UNKNOWN = 0, MPL_LINK_NONE, MPL_LINK_PCIE, MPL_LINK_NVLINK };

/** One card or MIG slice. All text is static. */
struct mpl_device_row {
    const char *name;    /* as PyTorch and nvidia-smi print it */
    const char *aliases; /* further names of the same card, separated by '|'; or NULL */
    const char *arch;    /* "sm_90", "gfx942" */
    enum mpl_device_kind kind;
    uint32_t compute_capability; /* ten times CUDA's: 90 is 9.0, 120 is 12.0; 0: not NVIDIA */
    uint32_t multiprocessors;    /* 0: not known */
    uint32_t nominal_gb;         /* as the maker sells it */
    enum mpl_link link;          /* of the usual server or workstation with this card */

    uint64_t total_bytes;                       /* total in torch.cuda.mem_get_info(), Linux */
    uint64_t total_low_bytes, total_high_bytes; /* figures seen, Windows among them */
    enum mpl_figure_status total_status;
    uint64_t smi_total_bytes; /* as nvidia-smi prints it; 0: not collected */
    enum mpl_figure_status smi_status;

    /* CUDA context and loaded kernels of one training process, without NCCL; NULL: no figure. A
     * slice carries the range of its whole card. */
    const struct mpl_range *context;

    const char *source; /* of total_bytes and smi_total_bytes */
    const char *notes;
};

/** The i-th row of the table, NULL past the last one. Borrowed, static. */
const struct mpl_device_row *mpl_device_at(size_t i);

/** How well a name was understood. */
enum mpl_device_match {
    MPL_DEVICE_UNKNOWN = 0, /* no row; the remark names near ones when there are any */
    MPL_DEVICE_AMBIGUOUS,   /* rows with different memory; the remark names them */
    MPL_DEVICE_SEVERAL,     /* rows with equal memory: the first was taken; the remark names it */
    MPL_DEVICE_ONE,
};

/**
 * Finds a card by name, alias, or part of a name. Case, punctuation and the words NVIDIA, GeForce,
 * Tesla, Quadro, AMD, Instinct and Radeon do not count; "A100 80GB" names the memory. Slices are
 * found only when MIG or a profile ("1g.10gb") is named.
 *
 * *match_out and remark (of remark_size bytes; may be NULL) say how; remark is empty or part of a
 * sentence: "... is taken, the first of 3 cards of that name with equal memory".
 * Returns NULL for UNKNOWN and AMBIGUOUS. The row is borrowed, static.
 */
const struct mpl_device_row *mpl_device_find(const char *name, enum mpl_device_match *match_out,
                                             char *remark, size_t remark_size);

/** The error of a name that mpl_device_find knows no row for, with its remark. */
enum memplan_status mpl_device_fail(const char *name, enum mpl_device_match match,
                                    const char *remark, struct memplan_error *err);

#endif
