/* SPDX-License-Identifier: MIT */
/* TABLE: the model families that memplan knows. */
#include <string.h>

#include "arch/arch.h"

static const struct mpl_arch *const arch_table[] = {
    &mpl_arch_llama,
    &mpl_arch_eagle3,
};

#define ARCH_COUNT (sizeof(arch_table) / sizeof(arch_table[0]))

const struct mpl_arch *mpl_arch_find(const char *model_type)
{
    for (size_t i = 0; i < ARCH_COUNT; i++)
        if (!strcmp(model_type, arch_table[i]->model_type))
            return arch_table[i];
    return NULL;
}

const char *mpl_arch_name(size_t i)
{
    return i < ARCH_COUNT ? arch_table[i]->model_type : NULL;
}
