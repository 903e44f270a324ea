/* SPDX-License-Identifier: MIT */
/* TABLE: number formats. The only place that turns elements into bytes. */
#include "table/dtype.h"

#include <stddef.h>
#include <string.h>

const uint8_t mpl_dtype_sizes[MPL_DTYPE_COUNT] = {
    [MPL_BOOL] = 1,    [MPL_UINT8] = 1,    [MPL_INT32] = 4,   [MPL_INT64] = 8,   [MPL_UINT64] = 8,
    [MPL_FLOAT16] = 2, [MPL_BFLOAT16] = 2, [MPL_FLOAT32] = 4, [MPL_FLOAT64] = 8,
};

static const char *const name_table[MPL_DTYPE_COUNT] = {
    [MPL_DTYPE_NONE] = "null", [MPL_BOOL] = "bool",         [MPL_UINT8] = "uint8",
    [MPL_INT32] = "int32",     [MPL_INT64] = "int64",       [MPL_UINT64] = "uint64",
    [MPL_FLOAT16] = "float16", [MPL_BFLOAT16] = "bfloat16", [MPL_FLOAT32] = "float32",
    [MPL_FLOAT64] = "float64",
};

const char *mpl_dtype_name(enum mpl_dtype dtype)
{
    return name_table[dtype];
}

enum mpl_dtype mpl_dtype_from_name(const char *name)
{
    for (size_t i = 1; i < MPL_DTYPE_COUNT; i++)
        if (!strcmp(name, name_table[i]))
            return (enum mpl_dtype)i;
    return MPL_DTYPE_NONE;
}

bool mpl_dtype_is_floating(enum mpl_dtype dtype)
{
    return dtype >= MPL_FLOAT16 && dtype <= MPL_FLOAT64;
}
