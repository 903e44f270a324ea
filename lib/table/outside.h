/* SPDX-License-Identifier: MIT */
/*
 * TABLE: what takes memory of a card besides tensors: contexts by how they load their kernels, and
 * what libraries take inside and outside of PyTorch's allocator, each with its source.
 */
#ifndef MPL_TABLE_OUTSIDE_H
#define MPL_TABLE_OUTSIDE_H

#include <stdbool.h>

#include "table/device.h"

/** CUDA_MODULE_LOADING: when a context loads a library's kernels. */
enum mpl_module_loading { MPL_MODULES_DEFAULT = 0, MPL_MODULES_LAZY, MPL_MODULES_EAGER };

/** What a context depends on besides its card. */
struct mpl_context_setup {
    enum mpl_module_loading loading;
    uint16_t cuda_major, cuda_minor; /* 0: new */
};

/**
 * Context and kernels of one training process.
 *
 * shape   the card's range where kernels are loaded when used; else its low end, which is a bare
 *         context and few kernels, times what loading all of them took on one card, and the width
 *         of the card's range for kernels of other libraries
 * unit    bytes of one process
 * source  in the result
 */
struct mpl_range mpl_context_bytes(const struct mpl_range *card,
                                   const struct mpl_context_setup *setup);

/**
 * A context that holds no tensor and runs nothing: of a rank that touched this card before it was
 * told its own, of a second process.
 *
 * shape   the low end of the card's range less the kernels that are in it, 0 to 100 MiB
 * unit    bytes of one process
 */
struct mpl_range mpl_bare_context_bytes(const struct mpl_range *card);

/** What a library takes. */
struct mpl_library_row {
    const char *name;
    const char *where;    /* "PyTorch's allocator", "outside" */
    const char *counted;  /* figure that has it, or how to give it to the plan */
    uint32_t from, below; /* compute capability, ten times CUDA's; below 0: no end */
    uint64_t low_bytes, high_bytes;
    const char *source;
};

/** The i-th row, NULL past the last one. Borrowed, static. */
const struct mpl_library_row *mpl_library_at(size_t i);

/** Whether a row is of cards with this compute capability; 0: not NVIDIA's. */
bool mpl_library_applies(const struct mpl_library_row *row, uint32_t compute_capability);

#endif
