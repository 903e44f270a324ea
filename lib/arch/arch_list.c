/* SPDX-License-Identifier: MIT */
/* TABLE: the model families that memplan knows, one word each. */
#include <string.h>

#include "arch/arch.h"
#include "part/causal_lm.h"

/* clang-format off */
#define FAMILIES(of)                                                                               \
    of(llama)                                                                                      \
    of(bert)                                                                                       \
    of(bloom)                                                                                      \
    of(cohere)                                                                                     \
    of(cohere2)                                                                                    \
    of(deepseek_v2)                                                                                \
    of(deepseek_v3)                                                                                \
    of(falcon)                                                                                     \
    of(gemma)                                                                                      \
    of(gemma2)                                                                                     \
    of(gemma3)                                                                                     \
    of(gemma3_text)                                                                                \
    of(glm4)                                                                                       \
    of(gpt2)                                                                                       \
    of(gpt_neox)                                                                                   \
    of(gpt_oss)                                                                                    \
    of(gptj)                                                                                       \
    of(granite)                                                                                    \
    of(medusa)                                                                                     \
    of(mistral)                                                                                    \
    of(mixtral)                                                                                    \
    of(nemotron)                                                                                   \
    of(olmo)                                                                                       \
    of(olmo2)                                                                                      \
    of(opt)                                                                                        \
    of(phi)                                                                                        \
    of(phi3)                                                                                       \
    of(qwen2)                                                                                      \
    of(qwen2_moe)                                                                                  \
    of(qwen3)                                                                                      \
    of(qwen3_moe)                                                                                  \
    of(roberta)                                                                                    \
    of(smollm3)                                                                                    \
    of(stablelm)                                                                                   \
    of(starcoder2)                                                                                 \
    of(dflash)                                                                                     \
    of(eagle)                                                                                      \
    of(eagle3)                                                                                     \
    of(mtp)
/* clang-format on */

#define DECLARE(name) extern const struct mpl_arch mpl_arch_##name;
#define ADDRESS(name) &mpl_arch_##name,

FAMILIES(DECLARE)

static const struct mpl_arch *const arch_table[] = {FAMILIES(ADDRESS)};

#define ARCH_COUNT (sizeof(arch_table) / sizeof(arch_table[0]))

const struct mpl_arch *mpl_arch_find(const char *model_type)
{
    for (size_t i = 0; i < ARCH_COUNT; i++)
        if (!strcmp(model_type, arch_table[i]->config.model_type))
            return arch_table[i];
    return NULL;
}

enum memplan_status mpl_arch_build(const struct mpl_arch *arch, struct mpl_network *network,
                                   struct memplan_error *err)
{
    return arch->family ? mpl_lm_build(network, arch->family, err) : arch->build(network, err);
}

const char *mpl_arch_name(size_t i)
{
    return i < ARCH_COUNT ? arch_table[i]->config.model_type : NULL;
}

const struct mpl_config_class *mpl_config_class_at(size_t i)
{
    return i < ARCH_COUNT ? &arch_table[i]->config : NULL;
}
