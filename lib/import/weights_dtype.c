/* SPDX-License-Identifier: MIT */
/*
 * TABLE: number formats of .safetensors files.
 * source: safetensors 0.8, src/tensor.rs: Dtype, bitsize()
 */
#include <string.h>

#include "import/weights.h"

static const struct mpl_weights_dtype dtypes[] = {
    {"F32", "float32", 32, true},
    {"BF16", "bfloat16", 16, true},
    {"F16", "float16", 16, true},
    {"F64", "float64", 64, true},
    {"F8_E4M3", "float8_e4m3fn", 8, false},
    {"F8_E5M2", "float8_e5m2", 8, false},
    {"F8_E8M0", "float8_e8m0fnu", 8, false},
    {"F8_E4M3FNUZ", "float8_e4m3fnuz", 8, false},
    {"F8_E5M2FNUZ", "float8_e5m2fnuz", 8, false},
    {"F6_E2M3", "float6_e2m3", 6, false},
    {"F6_E3M2", "float6_e3m2", 6, false},
    {"F4", "float4_e2m1fn", 4, false},
    {"C64", "complex64", 64, false},
    {"I64", "int64", 64, false},
    {"U64", "uint64", 64, false},
    {"I32", "int32", 32, false},
    {"U32", "uint32", 32, false},
    {"I16", "int16", 16, false},
    {"U16", "uint16", 16, false},
    {"I8", "int8", 8, false},
    {"U8", "uint8", 8, false},
    {"BOOL", "bool", 8, false},
};

const struct mpl_weights_dtype *mpl_weights_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}
