/* SPDX-License-Identifier: MIT */
/* TABLE: number formats. The only place that turns elements into bytes. */
#ifndef MPL_TABLE_DTYPE_H
#define MPL_TABLE_DTYPE_H

#include "base/bytes.h"

enum mpl_dtype {
    MPL_DTYPE_NONE = 0, /* not set: "null" in a plan */
    MPL_BOOL,
    MPL_UINT8,
    MPL_INT32,
    MPL_INT64,
    MPL_UINT64,
    MPL_FLOAT16,
    MPL_BFLOAT16,
    MPL_FLOAT32,
    MPL_FLOAT64,
    MPL_DTYPE_COUNT,
};

/** PyTorch's name without "torch.": "bfloat16". */
const char *mpl_dtype_name(enum mpl_dtype dtype);

/** The format of that name, or MPL_DTYPE_NONE. */
enum mpl_dtype mpl_dtype_from_name(const char *name);

extern const uint8_t mpl_dtype_sizes[MPL_DTYPE_COUNT];

/** Bytes of one element. */
static inline uint32_t mpl_dtype_size(enum mpl_dtype dtype)
{
    return mpl_dtype_sizes[dtype];
}

bool mpl_dtype_is_floating(enum mpl_dtype dtype);

/** Bytes of numel elements, before the allocator rounds; overflow sticks. */
static inline uint64_t mpl_dtype_bytes(enum mpl_dtype dtype, uint64_t numel)
{
    return mpl_mul(numel, mpl_dtype_sizes[dtype]);
}

#endif
