/* SPDX-License-Identifier: MIT */
/* Settings of the caching allocator: what PYTORCH_CUDA_ALLOC_CONF says. */
#ifndef MPL_REPLAY_CONF_H
#define MPL_REPLAY_CONF_H

#include <memplan.h>
#include <stdbool.h>

#define MPL_ALLOC_DIVISIONS 16 /* intervals of request sizes: 1 MiB, 2 MiB, ... 32 GiB and more */

/** Zero-initialized are PyTorch's defaults. */
struct mpl_alloc_conf {
    bool is_expandable;                      /* expandable_segments */
    bool rejects_early;                      /* throw_on_cudamalloc_oom */
    bool has_fraction;                       /* per_process_memory_fraction */
    double fraction;                         /* of the card's total, 0 to 1 */
    double gc_threshold;                     /* garbage_collection_threshold; 0: off */
    uint64_t max_split_bytes;                /* max_split_size_mb; 0: no limit */
    uint64_t non_split_bytes;                /* max_non_split_rounding_mb; 0: 20 MiB */
    uint64_t large_segment_bytes;            /* large_segment_size_mb; 0: 20 MiB */
    uint64_t divisions[MPL_ALLOC_DIVISIONS]; /* roundup_power2_divisions: powers of two; 0: off */
};

/** A release of PyTorch, whose keys and words these are. {0, 0}: the newest that is known. */
struct mpl_alloc_release {
    uint16_t major, minor;
};

/**
 * Reads a settings string as PyTorch does: white space ignored, the last value of a key wins. NULL
 * and "" are the defaults. What PyTorch refuses gives MEMPLAN_ERR_VALUE, with PyTorch's own words;
 * backend:cudaMallocAsync MEMPLAN_ERR_UNSUPPORTED. *conf_out is untouched on failure.
 *
 * source  c10/core/AllocatorConfig.h and .cpp, c10/cuda/CUDAAllocatorConfig.cpp; releases 2.1
 * to 2.14
 */
enum memplan_status mpl_alloc_conf_parse(const char *text, struct mpl_alloc_release release,
                                         struct mpl_alloc_conf *conf_out,
                                         struct memplan_error *err);

/** Whether two settings are the same. */
bool mpl_alloc_conf_is_same(const struct mpl_alloc_conf *a, const struct mpl_alloc_conf *b);

#endif
