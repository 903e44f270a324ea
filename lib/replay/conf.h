/* SPDX-License-Identifier: MIT */
/* Settings of the caching allocator: what PYTORCH_CUDA_ALLOC_CONF says. */
#ifndef MPL_REPLAY_CONF_H
#define MPL_REPLAY_CONF_H

#include <memplan.h>
#include <stdbool.h>

/** Zero-initialized are PyTorch's defaults. */
struct mpl_alloc_conf {
    bool is_expandable; /* expandable_segments */
};

/**
 * Reads a settings string: comma list of key:value, white space ignored, the last value of a key
 * wins. NULL and "" are the defaults. An unknown key or value gives MEMPLAN_ERR_VALUE, a key that
 * PyTorch knows and memplan does not model MEMPLAN_ERR_UNSUPPORTED. *conf_out is untouched on
 * failure.
 */
enum memplan_status mpl_alloc_conf_parse(const char *text, struct mpl_alloc_conf *conf_out,
                                         struct memplan_error *err);

#endif
