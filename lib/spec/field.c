/* SPDX-License-Identifier: MIT */
/* What a row of the field table says. Stage "spec". */
#include <string.h>

#include "spec/fields.h"

bool mpl_field_is_section(const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < mpl_field_count(); i++)
        if (strncmp(mpl_field_at(i)->path, path, len) == 0 && mpl_field_at(i)->path[len] == '.')
            return true;
    return false;
}

const char *mpl_field_fallback(const struct mpl_field *field, enum mpl_family family)
{
    if ((family == MPL_FAMILY_DFLASH || family == MPL_FAMILY_MTP) && field->fallback_dflash)
        return field->fallback_dflash;
    if (family != MPL_FAMILY_CAUSAL && field->fallback_eagle3)
        return field->fallback_eagle3;
    return field->fallback;
}

bool mpl_field_is_of(const struct mpl_field *field, enum mpl_family family)
{
    static const uint32_t flags[MPL_FAMILY_COUNT] = {
        [MPL_FAMILY_EAGLE3] = MPL_FIELD_ONLY_EAGLE3,
        [MPL_FAMILY_DFLASH] = MPL_FIELD_ONLY_DFLASH,
        [MPL_FAMILY_MTP] = MPL_FIELD_ONLY_MTP,
    };
    const uint32_t only = field->flags & MPL_FIELD_ONLY_DRAFT;

    return !only || (only & flags[family]);
}

bool mpl_field_applies(const struct mpl_field *field, enum mpl_strategy strategy)
{
    static const uint32_t flags[] = {
        [MPL_STRATEGY_NONE] = 0,
        [MPL_STRATEGY_FSDP2] = MPL_FIELD_OF_FSDP2,
        [MPL_STRATEGY_DDP] = MPL_FIELD_OF_DDP,
        [MPL_STRATEGY_FSDP1] = MPL_FIELD_OF_FSDP1,
        [MPL_STRATEGY_ZERO1] = MPL_FIELD_OF_ZERO,
        [MPL_STRATEGY_ZERO2] = MPL_FIELD_OF_ZERO,
        [MPL_STRATEGY_ZERO3] = MPL_FIELD_OF_ZERO3,
    };

    return !(field->flags & MPL_FIELD_OF_STRATEGIES) || (field->flags & flags[strategy]);
}

const char *mpl_field_type_name(const struct mpl_field *field)
{
    static const char *const names[] = {
        [MPL_FIELD_INTEGER] = "integer",  [MPL_FIELD_NUMBER] = "number",
        [MPL_FIELD_BYTES] = "bytes",      [MPL_FIELD_STRING] = "string",
        [MPL_FIELD_BOOLEAN] = "boolean",  [MPL_FIELD_TRISTATE] = "boolean",
        [MPL_FIELD_WORD] = "string",      [MPL_FIELD_NAME] = "string",
        [MPL_FIELD_VERSION] = "string",   [MPL_FIELD_ANY] = "any",
        [MPL_FIELD_REFUSED] = "any",      [MPL_FIELD_LIST] = "list",
        [MPL_FIELD_PATTERNS] = "list",    [MPL_FIELD_MODEL_TYPE] = "string",
        [MPL_FIELD_LAYER_WORDS] = "list", [MPL_FIELD_LAYER_SET] = "list",
        [MPL_FIELD_LENGTHS] = "list",     [MPL_FIELD_LAYER_FLAGS] = "list",
        [MPL_FIELD_NAMES] = "list",
    };

    return names[field->type];
}
